"""Protect memory along the whole path: a container's protection counts only if every cgroup above it has it too.

memory.min and memory.low are shared out among siblings at each level, so a pod's cgroup needs the sum over its
containers, and the levels above it the sum over their pods (cgroup-v2, "Memory Interface Files"; measured in the rig:
87 MiB kept with the container's value alone, 199 with the path's).

The sum of a pod is bounded by its memory request, as far as the node proves it (`workload.memory_bound_of_pod`), and
the sum of the node by the memory that may be protected. Within a bound the kernel divides by use (mm/page_counter.c,
effective_protection). If the node's bound is reached, the older pods keep theirs: a new pod takes nothing from them.
"""

from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import value
from nri_coloc.placing import admission, supply


@value
class Protection:
    """Protected memory in bytes; 0 is none."""

    low: int = 0
    min: int = 0

    def __add__(self, other: "Protection") -> "Protection":
        return Protection(self.low + other.low, self.min + other.min)

    def within(self, bound: int) -> "Protection":
        """Return the protection with each value at most `bound` bytes."""
        return Protection(min(self.low, bound), min(self.min, bound))

    @property
    def amount(self) -> int:
        """Bytes that are protected: the kernel does not add up low and min."""
        return max(self.low, self.min)


NONE = Protection()


def asked_by_pod(state: NodeState, pod_id: str) -> Protection:
    """Return the sum of the protections that a pod's containers ask for."""
    total = NONE
    for assignment in state.of_pod(pod_id):
        own = of(state, assignment)
        if own is not NONE:
            total += own
    return total


def of_pod(state: NodeState, pod_id: str) -> Protection:
    """Return the protection that a pod may have."""
    asked = asked_by_pod(state, pod_id)
    return NONE if asked is NONE else asked.within(supply.memory_request_of_pod(state, pod_id))


def by_pod(state: NodeState) -> dict[str, Protection]:
    """Return the protection that each pod may have, oldest pod first; without pods that have none."""
    found = ((pod_id, of_pod(state, pod_id)) for pod_id in asking(state))
    return {pod_id: own for pod_id, own in found if own != NONE}


def asking(state: NodeState) -> list[str]:
    """Return the pods with a container that asks for protection, oldest pod first."""
    found = {a.container.pod_id for a in state.containers.values() if of(state, a) != NONE}
    return [pod_id for pod_id in state.pods if pod_id in found]


def granted(state: NodeState, reserved_bytes: int) -> dict[str, Protection]:
    """Return the protection that each pod gets: of all together at most the memory that is not reserved."""
    left = max(0, state.topology.memory_bytes - reserved_bytes)
    found: dict[str, Protection] = {}
    for pod_id, may_have in by_pod(state).items():
        got = may_have.within(left)
        left -= got.amount
        if got != NONE:
            found[pod_id] = got
    return found


def of(state: NodeState, assignment: Assignment) -> Protection:
    """Return the protection that one container asks for; for a VM's container its pod's cgroup has it."""
    is_unit = assignment.wish.handler == "pod"
    knobs = admission.wanted(state, assignment) if is_unit else assignment.knobs
    if knobs.memory_low is None and knobs.memory_min is None:
        return NONE
    return Protection(knobs.memory_low or 0, knobs.memory_min or 0)
