"""Memory protection along the whole path: what a container asked for counts only if every ancestor has it too.

memory.min and memory.low are shared out among siblings at each level, so a pod's cgroup needs the sum over its
containers, and the levels above it the sum over their pods (cgroup-v2, "Memory Interface Files"; measured in the
rig: 87 MiB kept with the container's value alone, 199 with the path's).
"""

from dataclasses import dataclass

from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.policy import admission


@dataclass(frozen=True, slots=True)
class Protection:
    """Bytes; 0 is none."""

    low: int = 0
    min: int = 0

    def __add__(self, other: "Protection") -> "Protection":
        return Protection(self.low + other.low, self.min + other.min)


NONE = Protection()


def of_pod(state: NodeState, pod_id: str) -> Protection:
    """Return the sum of one pod."""
    return sum((of(state, assignment) for assignment in state.of_pod(pod_id)), NONE)


def by_pod(state: NodeState) -> dict[str, Protection]:
    """Return the sums of every pod that has a protected container."""
    sums: dict[str, Protection] = {}
    for assignment in state.containers.values():
        if (own := of(state, assignment)) != NONE:
            pod_id = assignment.container.pod_id
            sums[pod_id] = sums.get(pod_id, NONE) + own
    return sums


def of(state: NodeState, assignment: Assignment) -> Protection:
    """Return what one container asked for; a VM's has nothing of its own, and its pod the more."""
    is_unit = assignment.wish.handler == "pod"
    knobs = admission.wanted(state, assignment) if is_unit else assignment.knobs
    return Protection(knobs.memory_low or 0, knobs.memory_min or 0)
