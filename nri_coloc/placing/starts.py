"""CPUs that a pod's cgroup must have until a container of the pod has started (cgroup v1).

The runtime writes the CPUs of a container's specification into the cgroup that it makes below the pod's, and on cgroup
v1 the kernel refuses CPUs that the pod's cgroup lacks. The kubelet's static CPU manager and other NRI plugins name CPUs
in specifications, so from PostCreateContainer to StartContainer a pod's cgroup has these beside the reclaim pool. The
pod's other containers keep to the reclaim pool meanwhile.
"""

from collections.abc import Iterable

from nri_coloc.core.decisions import NO_MOVES, ContainerCreated, Moves, Outcome
from nri_coloc.core.state import NodeState, Unstarted
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Phase
from nri_coloc.placing import change, claim


def created(state: NodeState, event: ContainerCreated) -> Outcome:
    """Record the CPUs that the specification of a new container names, if its pod has a reclaim cgroup."""
    place = state.pods.get(event.pod_id)
    if place is None or not place.boxed:
        return Outcome(state)
    others = _but(place.unstarted, event.container_id)
    unstarted = (*others, Unstarted(event.container_id, event.cpus)) if event.cpus else others
    if unstarted == place.unstarted:
        return Outcome(state)
    after = change.with_pod(state, replace(place, unstarted=unstarted))
    return Outcome(after, moves=_moves(state, after, event.pod_id))


def awaits(state: NodeState, pod_id: str) -> bool:
    """Return whether a pod's cgroup has CPUs for a container that has not started; seldom, and never on cgroup v2."""
    place = state.pods.get(pod_id)
    return place is not None and bool(place.unstarted)


def over(state: NodeState, pod_id: str, container_id: str) -> Outcome:
    """Forget the CPUs of a container that has started, or that will never start."""
    place = state.pods.get(pod_id)
    if place is None or not place.unstarted:
        return Outcome(state)
    left = _but(place.unstarted, container_id)
    if left == place.unstarted:
        return Outcome(state)
    after = change.with_pod(state, replace(place, unstarted=left))
    return Outcome(after, moves=_moves(state, after, pod_id))


def gone(state: NodeState, container_id: str) -> Outcome:
    """Forget the CPUs of a container of which only the id is known."""
    names = (
        k for k, place in state.pods.items() if any(u.container_id == container_id for u in place.unstarted)
    )
    return over(state, next(names, ""), container_id)


def listed(containers: Iterable[Container]) -> dict[str, tuple[Unstarted, ...]]:
    """Return by pod the listed containers that have not started and whose specifications name CPUs."""
    found: dict[str, tuple[Unstarted, ...]] = {}
    for container in containers:
        cpus = claim.in_spec(container) if container.phase is Phase.CREATED else 0
        if cpus:
            found[container.pod_id] = (*found.get(container.pod_id, ()), Unstarted(container.id, cpus))
    return found


def _but(unstarted: tuple[Unstarted, ...], container_id: str) -> tuple[Unstarted, ...]:
    return tuple(each for each in unstarted if each.container_id != container_id)


def _moves(before: NodeState, after: NodeState, pod_id: str) -> Moves:
    had, has = (state.pods[pod_id].cpus_until_start for state in (before, after))
    beyond = (had ^ has) & ~after.pools.reclaim
    return Moves(pods=(pod_id,)) if beyond and after.boxed(pod_id) else NO_MOVES
