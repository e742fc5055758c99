"""Compute the values that a container gets back because they are not ours any more.

A file keeps its last value, and so does the runtime's spec. So such a value is ordered once more with its original
value: the kubelet's, or the kernel's default for a new cgroup if the kubelet gives none. It holds until the kubelet
writes another.
"""

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import (
    KERNELS_IO_WEIGHT,
    KERNELS_PERIOD,
    KERNELS_SHARES,
    NO_KNOBS,
    NO_LIMIT,
    UNLIMITED_BYTES,
    Knobs,
)
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import KEPT_BY_DRA
from nri_coloc.placing import admission, claim


def with_values(state: NodeState, old: Assignment, now: Assignment) -> Assignment:
    """Return a container that was placed again, with the values of its new place and the original ones of its old.

    Files carry them all: no answer to its creation did.
    """
    again = admission.remembered(state, now)
    back = of(state, old, again)
    if back != NO_KNOBS:
        again = admission.remembered(state, replace(again, returned=back))
    return replace(again, by_file=True)


def held(assignment: Assignment) -> Knobs:
    """Return the values that files or the spec have from us: ours, and restored ones."""
    return assignment.returned.overlaid(assignment.knobs)


def of(state: NodeState, old: Assignment, now: Assignment) -> Knobs:
    """Return the values to restore: values that were ours, or were restored already, and that are not ordered now."""
    if now.wish.handler != "container":
        return NO_KNOBS
    if now.hands_off:
        return _cpus_back(state, old, now)
    ours, orders = held(old), admission.orders(state, now)
    former = old.returned.overlaid(old.original.where_set(old.knobs))
    # "max" is no number: without the machine's memory, memory.high is an amount above any use
    before_us = Knobs(
        shares=former.shares or KERNELS_SHARES,
        quota=former.quota or NO_LIMIT,
        period=former.period or KERNELS_PERIOD,
        memory_limit=former.memory_limit or NO_LIMIT,
        memory_high=sum(node.memory_bytes for node in state.topology.nodes) or UNLIMITED_BYTES,
        memory_low=0,
        memory_min=0,
        oom_score_adj=former.oom_score_adj,
        io_weight=KERNELS_IO_WEIGHT,
        mems=former.mems or cpuset.render(state.topology.all_mems) or None,
    )
    free = [value if order is None else None for value, order in zip(before_us, orders, strict=True)]
    return Knobs._make(free).where_set(ours)


def _cpus_back(state: NodeState, old: Assignment, now: Assignment) -> Knobs:
    """Return the CPUs to restore for a container that is not ours to place any more; none if its CPUs were not ours.

    These are the CPUs to which the kubelet has pinned it, else the CPUs that the kubelet named, else all.
    """
    if KEPT_BY_DRA in now.wish.preserve:
        return NO_KNOBS
    if old.hands_off:
        return Knobs(cpus=old.returned.cpus)
    cpus = now.wish.kept or claim.in_spec(now.container) or state.topology.online
    return Knobs(cpus=cpuset.render(cpus & state.topology.online) or None)
