"""What the runtime's stored spec of a container should say, as far as an update can carry it.

The kubelet compares shares, quota and memory limit with its own after an in-place resize, so where it gave a value
that one stands, unless the pod's annotation orders otherwise, or did until now: then it is told again (DESIGN
invariant 7).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Protocol

from nri_coloc.core.knobs import MIN_SHARES, NO_KNOBS, Knobs, Original
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import Container, Resources
from nri_coloc.host import cgroup_layout, originals
from nri_coloc.placing import admission

PUSHED: Final = Knobs(cpus="", shares=0, quota=0, period=0, memory_limit=0)
"""The knobs that are pushed; only which of them are set counts."""


def wanted(state: NodeState, assignment: Assignment) -> Knobs:
    """Return the values that are ours in a container's spec."""
    orders = admission.orders(state, assignment).where_set(PUSHED)
    ordered = assignment.returned.overlaid(assignment.wish.annotated)
    kubelets = _given(assignment.container.resources)
    if kubelets == NO_KNOBS:
        return orders
    return Knobs._make(
        [
            None if theirs is not None and annotation is None else ours
            for ours, theirs, annotation in zip(orders, kubelets, ordered, strict=True)
        ]
    )


@lru_cache(maxsize=1024)
def of(resources: Resources) -> Knobs:
    """Return what a spec, or an update, says of what is pushed; remembered, as most containers agree."""
    return resources.knobs().where_set(PUSHED)


class Journal(Protocol):
    """Knows what files held before us, in this life and former ones."""

    def originals(self, path: str) -> Mapping[str, str]: ...


def journalled(journal: Journal, container: Container) -> Original:
    """Return the figures that a container's spec has of a former life of ours, by the journal of its files."""
    try:
        path = cgroup_layout.container_path(container.cgroups_path)
    except ValueError:
        return Original(frozenset())
    return originals.in_spec(originals.of_files(journal.originals(path)), container.resources.knobs())


def _given(resources: Resources) -> Knobs:
    """Return what the kubelet itself gave: shares of 2 are its word for "no request", CPUs are never its own."""
    shares = resources.shares or 0
    return Knobs(
        shares=shares if shares > MIN_SHARES else None,
        quota=resources.quota or None,
        memory_limit=resources.memory_limit or None,
    )
