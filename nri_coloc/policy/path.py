"""What joins and leaves a pod changes on the pod's own cgroup, in words: weights, protections act along the whole path.

A pod's I/O weight is the highest of its containers', its protections are their sums. Values are told where they differ
between the state before an event and the state after it, whatever the event was.
"""

from collections.abc import Iterable

from nri_coloc.model.decisions import Decision
from nri_coloc.model.knobs import KERNELS_IO_WEIGHT, Knobs
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.model.state import RECLAIM, NodeState
from nri_coloc.policy import box, words


def changed(before: NodeState, after: NodeState, pod_ids: Iterable[str]) -> tuple[Decision, ...]:
    """Say what is other than before of these pods, and all of one that was not known."""
    found = (one for k in pod_ids if k in after.pods for one in _of_pod(before, after, k))
    return tuple(one for one in found if one is not None)


def changed_of_all(before: NodeState, after: NodeState) -> tuple[Decision, ...]:
    """Say it of every pod that was there before and still is, and of each in which a VM is."""
    pods = after.pods.items()
    return changed(before, after, (k for k, place in pods if k in before.pods or place.wish.handler == "pod"))


def _of_pod(before: NodeState, after: NodeState, pod_id: str) -> tuple[Decision | None, ...]:
    place, protected = after.pods[pod_id], words.of_protection(before, after, pod_id)
    if place.wish.handler == "pod":
        # while the VM has a container: its end says the rest
        values = box.limit(before, after, place.pod, place.wish), protected
        return values if any(after.of_pod(pod_id)) else ()
    was, is_boxed = before.boxed(pod_id), after.boxed(pod_id)
    if was and not is_boxed:
        return protected, _left(before, after, pod_id)
    if is_boxed is was and pod_id in before.pods:
        return protected, _weight(before, after, pod_id)
    return protected, box.limit(before, after, place.pod, place.wish)


def _left(before: NodeState, after: NodeState, pod_id: str) -> Decision:
    """Say that a pod is no member of the box any more; what comes back its files and the journal know."""
    place, had, has = after.pods[pod_id], box.knobs(before, pod_id), box.knobs(after, pod_id)
    because = (
        f"class {place.wish.qos.value} by {place.wish.because}, or a container's; the box's limits go from it"
    )
    said = Decision(AuditEvent.POD_LIMIT, Reason.POOL_MEMBER, because, pod_id=pod_id, qos=place.wish.qos)
    said = said._replace(inputs=box.figures(after, pod_id))
    return said._replace(before=had.differing(has), after=has.differing(had))


def _weight(before: NodeState, after: NodeState, pod_id: str) -> Decision | None:
    had, has = (box.io_weight(state, pod_id) or KERNELS_IO_WEIGHT for state in (before, after))
    place = after.pods[pod_id]
    if had == has or place.wish.handler == "ignore":
        return None
    return Decision(
        AuditEvent.POD_LIMIT,
        Reason.BOX_MEMBER if place.boxed else Reason.POOL_MEMBER,
        f"the highest I/O weight of its containers, or its own without any, is {has} now and was {had}; "
        "weights act along the whole path",
        pod_id=pod_id,
        pool=RECLAIM if place.boxed else "",
        before=Knobs(io_weight=had),
        after=Knobs(io_weight=has),
        qos=place.wish.qos,
        inputs=box.figures(after, pod_id),
    )
