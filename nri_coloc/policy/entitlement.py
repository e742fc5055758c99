"""How many CPUs a dedicated container may own: its own request, within the request of its pod.

A container's request is its own where the pod's request covers it beside the requests of the containers that own CPUs
already. A greater one is the whole pod's: with pod-level resources the kubelet writes the pod's CPU limit into every
container that names no request and no limit of its own (pkg/kubelet/kuberuntime/kuberuntime_container_linux.go,
getCPULimit), and no request at all where the pod has no limit. Such a pod owns its request together: the first of
these containers owns what is left of it, the others run on the same CPUs.
"""

from collections.abc import Iterator
from typing import NamedTuple

from nri_coloc.model.state import Assignment, NodeState
from nri_coloc.model.workload import Container, QoSClass, Wish
from nri_coloc.policy import request


class Due(NamedTuple):
    """`cpus`: how many CPUs to own, 0 for none; `words`: the requests behind that, for the audit; `capped`: whether
    the pod's request decides, because the container's own is greater or there is none."""

    cpus: int
    words: str
    capped: bool = False


def of(state: NodeState, container: Container, wish: Wish) -> Due:
    """Return what a container may own beside the owners that its pod has."""
    asked = request.of_container(container, wish)
    pod = of_pod(state, container.pod_id)
    owners = [a for a in state.of_pod(container.pod_id) if a.exclusive and a.id != container.id]
    if pod is None or 0 < asked.milli < 1000:
        return Due(asked.whole, asked.words)
    left = pod - sum(_used(owner) for owner in owners)
    if asked.milli:
        # the kubelet's figures add up to the pod's; lowered ones are the tenant's, and rounding them up gains nothing
        is_own = asked.milli <= left and (not asked.is_lowered or asked.whole <= _whole(pod) - _owned(owners))
        return Due(asked.whole, asked.words) if is_own else _of_the_pods(asked, pod, left, owners)
    has_main = any(not owner.hands_off for owner in owners)
    return Due(0, asked.words) if has_main else _of_the_pods(asked, pod, left, owners)


def _of_the_pods(asked: request.Request, pod: int, left: int, owners: list[Assignment]) -> Due:
    owned = _owned(owners)
    cpus = max(0, min(_whole(pod) - owned, _whole(left))) if left >= 1000 else 0
    if not cpus and not asked.milli:
        return Due(0, asked.words, capped=True)
    beside = f", {owned} CPUs owned by other containers" if owned else ""
    return Due(
        cpus, f"{asked.words}; the pod's request is {pod / 1000:g} CPUs{beside}, so {cpus}", capped=True
    )


def _whole(milli: int) -> int:
    return -(-milli // 1000)


def _owned(owners: list[Assignment]) -> int:
    return sum(owner.exclusive.bit_count() for owner in owners)


def _used(owner: Assignment) -> int:
    """Return the part of the pod's request that an owner's CPUs come from, thousandths of a CPU."""
    whole = owner.exclusive.bit_count() * 1000
    own = request.of_container(owner.container, owner.wish).milli
    return min(own, whole) if own else whole


def falls_short(state: NodeState, container: Container, wish: Wish) -> bool:
    """Whether another CPU request of its pod could give a container more CPUs than the request that is known."""
    if wish.qos is not QoSClass.DEDICATED:
        return False
    return container.pod_id not in state.pods or of(state, container, wish).capped


def of_pod(state: NodeState, pod_id: str) -> int | None:
    """Return a pod's CPU request, thousandths of a CPU; None where it is not known."""
    place = state.pods.get(pod_id)
    return None if place is None else place.pod.cpu_request


def counted(pod: int | None, members: list[Assignment]) -> Iterator[tuple[Assignment, int]]:
    """Yield the containers of a pod, each with its part of what they ask for together, thousandths of a CPU.

    Together that is never more than the pod's request. Containers without any request of their own share the pod's.
    """
    own = [request.of_container(each.container, each.wish).milli for each in members]
    yield from zip(members, _within(pod, own), strict=True)


def _within(pod: int | None, own: list[int]) -> list[int]:
    total = sum(own)
    if pod is None or 0 < total <= pod:
        return own
    return [milli * pod // total for milli in own] if total else [pod // len(own) for _ in own]
