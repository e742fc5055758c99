"""What a live container gets back when a value of ours does not hold any more: its class or the class's values changed.

A file keeps what was written until something else is, and so does the runtime's spec: what is no longer ours is ordered
once more, with what stood there before us: what the kubelet gave, and where it gave nothing, or never does, the
kernel's own values of a new cgroup. It holds until the kubelet tells another.
"""

from dataclasses import replace
from typing import Final

from nri_coloc.model import cpuset
from nri_coloc.model.decisions import Decision
from nri_coloc.model.knobs import KERNELS_IO_WEIGHT, KERNELS_PERIOD, KERNELS_SHARES, NO_KNOBS, NO_LIMIT, Knobs
from nri_coloc.model.reasons import AuditEvent
from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.model.workload import KEPT_BY_DRA
from nri_coloc.policy import admission, change, claim

_UNLIMITED: Final = 1 << 62
"""A memory.high that nothing reaches, where nobody knows the machine's memory; "max" is no number."""


def given(
    state: NodeState, old: Assignment, said: tuple[Decision, ...]
) -> tuple[NodeState, tuple[Decision, ...]]:
    """Give a container that was placed again back what is not ours any more, and say so where its placing is said."""
    now = state.containers[old.id]
    back = _back(state, old, now)
    if not any(value is not None for value in back):
        return state, said
    again = replace(admission.remembered(state, replace(now, returned=back)), by_file=now.by_file)
    had = _held(old).where_set(back)
    told = tuple(_with(d, again, had, back) if d.subject is now else d for d in said)
    return change.with_container(state, again), told


def _with(placing: Decision, again: Assignment, had: Knobs, back: Knobs) -> Decision:
    """Say what goes back beside the placing; one after a restart has before it what stood before us, not our values."""
    before = placing.before.overlaid(had) if placing.event is AuditEvent.UPDATE else placing.before
    return placing._replace(subject=again, before=before, after=placing.after.overlaid(back))


def _held(assignment: Assignment) -> Knobs:
    return assignment.returned.overlaid(assignment.knobs)


def _cpus_back(state: NodeState, old: Assignment, now: Assignment) -> Knobs:
    """Return the CPUs of a container that is not ours to place any more, none where its CPUs were not ours before.

    These are the CPUs that the kubelet has pinned it to, else those that the kubelet named, else all.
    """
    if KEPT_BY_DRA in now.wish.preserve:
        return NO_KNOBS
    if old.hands_off:
        return Knobs(cpus=old.returned.cpus)
    cpus = now.wish.kept or claim.in_spec(now.container) or state.topology.online
    return Knobs(cpus=cpuset.render(cpus & state.topology.online) or None)


def _back(state: NodeState, old: Assignment, now: Assignment) -> Knobs:
    """Return what was ours, or was given back already, and what nothing orders by now."""
    if now.wish.handler != "container":
        return NO_KNOBS
    if now.hands_off:
        return _cpus_back(state, old, now)
    ours, orders = _held(old), admission.orders(state, now)
    former = old.returned.overlaid(old.original.where_set(old.knobs))
    before_us = Knobs(
        shares=former.shares or KERNELS_SHARES,
        quota=former.quota or NO_LIMIT,
        period=former.period or KERNELS_PERIOD,
        memory_limit=former.memory_limit or NO_LIMIT,
        memory_high=sum(node.memory_bytes for node in state.topology.nodes) or _UNLIMITED,
        memory_low=0,
        memory_min=0,
        oom_score_adj=former.oom_score_adj,
        io_weight=KERNELS_IO_WEIGHT,
        mems=former.mems or cpuset.render(state.topology.all_mems) or None,
    )
    free = [value if order is None else None for value, order in zip(before_us, orders, strict=True)]
    return Knobs._make(free).where_set(ours)
