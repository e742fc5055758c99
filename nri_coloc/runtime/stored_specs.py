"""Compute the values that the runtime's stored spec of a container should have, as far as an update can set them.

After an in-place resize the kubelet compares shares, quota and memory limit with its own. So a value of the kubelet
stays, unless the pod's annotation orders another. If an annotation ended, the kubelet's value is sent again
(docs/testing.md, invariant 7).
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
"""The knobs that are pushed; their values here mean nothing."""


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
    """Return the pushed values in a spec or an update; cached, because most containers have equal ones."""
    return resources.knobs().where_set(PUSHED)


class Journal(Protocol):
    """Original values of files, from this process and previous ones."""

    def originals(self, path: str) -> Mapping[str, str]: ...


def journalled(journal: Journal, container: Container) -> Original:
    """Return the figures in a container's spec that a previous process changed, by the journal of its files."""
    try:
        path = cgroup_layout.container_path(container.cgroups_path)
    except ValueError:
        return Original(frozenset())
    return originals.in_spec(originals.of_files(journal.originals(path)), container.resources.knobs())


def _given(resources: Resources) -> Knobs:
    """Return the kubelet's own values. Shares of 2 mean "no request", and CPUs are never the kubelet's."""
    shares = resources.shares or 0
    return Knobs(
        shares=shares if shares > MIN_SHARES else None,
        quota=resources.quota or None,
        memory_limit=resources.memory_limit or None,
    )
