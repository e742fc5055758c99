"""Build decisions for the audit: event, reason, a sentence, and the figures that decided."""

from collections.abc import Iterable
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Decision, Figure, Inputs, PlaceFigures
from nri_coloc.core.knobs import KERNELS_IO_WEIGHT, NO_KNOBS, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import DEDICATED, POOLS, RECLAIM, SHARE, Assignment, NodeState
from nri_coloc.core.workload import Container, Finding, FindingKind, Pod, QoSClass, Wish
from nri_coloc.placing import admission, claim, protection, reclaim_cgroups, request, supply
from nri_coloc.placing.admission import Admission

_FINDING_REASON = {FindingKind.INVALID: Reason.BAD_VALUE, FindingKind.DENIED: Reason.NOT_ALLOWED}
SHOWN: Final = (
    *("request_milli", "n", "owned", "placement", "numa", "claim_free", "free", "node_free"),
    *(
        "not_met",
        "pod_request_milli",
        "pod_owned_cpus",
        "pool_asked_milli",
        "pool_cpus",
        "burst_percent",
        "not_set",
    ),
)
"""The figures of a container's place that its sentence ends with, as far as the record has them."""

_FAULT = {FindingKind.INVALID: "invalid", FindingKind.DENIED: "not allowed for this pod"}
_AGAIN = {
    Reason.RECONFIGURED: "other settings apply now",
}
"""Why a container that was placed before is placed again."""

_ENDS = {
    Reason.VANISHED: "the runtime no longer lists it",
    Reason.SUPERSEDED: "it never started, and its next attempt was created",
}
"""Ends that no event of the runtime reports."""


def of_admission(
    state: NodeState, admitted: Admission, assignment: Assignment, by_file: Reason | None
) -> Decision:
    """Return the decision on the place of a container.

    by_file: why the answer to its creation did not carry its values, such as `adopted`; None if it did.
    """
    in_a_vm, not_set = _in_a_vm(state, assignment)
    because, event = f"{admitted.because}{_burst(assignment)}{in_a_vm}", AuditEvent.ADMIT
    if by_file in _AGAIN:
        because, event = f"{because}; {_AGAIN[by_file]}", AuditEvent.UPDATE
    elif by_file is not None:
        because = f"{because}; placed by file, because the daemon did not answer its creation"
    inputs = admitted.inputs
    if by_file is not None or not_set:
        inputs = {**(inputs or {}), "placed_as": admitted.reason.value, **not_set}
    return Decision(
        event,
        admitted.reason if admitted.reason is Reason.NO_FREE_CPUS else by_file or admitted.reason,
        because,
        subject=assignment,
        before=assignment.original,
        after=assignment.knobs,
        orders=assignment.knobs,
        considered=admitted.considered,
        inputs=inputs,
        place=_place_of(state, assignment),
        shows=SHOWN,
    )


def _place_of(state: NodeState, assignment: Assignment) -> PlaceFigures:
    """Return the figures of a container's place: the pod's request, and the CPUs of the pool or owner."""
    asked, main = state.pools.asked.get(assignment.pool), ""
    if assignment.follows and assignment.follows in state.containers:
        main = state.containers[assignment.follows].container.name
    container, owned = assignment.container, None
    if assignment.exclusive and not assignment.hands_off:
        owned = supply.owned_beside(state, container)
    return PlaceFigures(
        pod_request_milli=state.cpu_request_of(container.pod_id),
        cpus=state.cpus_of(assignment),
        main=main,
        pool_asked_milli=None if asked is None else asked.milli,
        pod_owned=owned,
    )


def inputs(assignment: Assignment, place: PlaceFigures) -> Inputs:
    """Return by name the figures of a container's place: the requests, and the CPUs of the pool or owner."""
    container, wish = assignment.container, assignment.wish
    found = _requests(assignment, place.pod_request_milli)
    if place.main:
        found |= {"main": place.main, "main_cpus": cpuset.render(place.cpus)}
    elif assignment.hands_off:
        found["spec_cpus"] = container.resources.cpus
    elif not assignment.exclusive:
        found["pool_cpus"] = cpuset.render(place.cpus)
    if container.claimed:
        found["claimed_cpus"] = cpuset.render(container.claimed)
    if place.pool_asked_milli is not None:
        found["pool_asked_milli"] = place.pool_asked_milli
    if place.pod_owned:
        found["pod_owned_cpus"] = place.pod_owned
    if assignment.knobs.burst is not None:
        found |= {"quota": container.resources.quota, "burst_percent": wish.cpu_burst_percent}
    return found


def of_request(state: NodeState, assignment: Assignment) -> dict[str, Figure]:
    """Return by name what a container and its pod request, thousandths of a CPU; None if not known."""
    return _requests(assignment, state.cpu_request_of(assignment.container.pod_id))


def _requests(assignment: Assignment, pod: int | None) -> dict[str, Figure]:
    own = request.of_container(assignment.container, assignment.wish).milli
    return {"request_milli": own, "pod_request_milli": pod}


def _burst(assignment: Assignment) -> str:
    wish = assignment.wish
    if assignment.knobs.burst is None or not wish.burst_because:
        return ""
    return f"; CPU burst by {wish.burst_because}"


def _in_a_vm(state: NodeState, assignment: Assignment) -> tuple[str, dict[str, Figure]]:
    """Return words for the cgroup that has the values of a VM's container, and by name the values that are not set."""
    if assignment.wish.handler != "pod":
        return "", {}
    pod_id, asked = assignment.container.pod_id, admission.wanted(state, assignment)
    place = state.pods.get(pod_id)
    if place is None or not place.pod.owns_cgroup:
        return "; not set: other pods share the cgroup of its VM", {"not_set": " ".join(asked.named())}
    protected = Knobs(memory_low=asked.memory_low, memory_min=asked.memory_min)
    lost = asked.without(reclaim_cgroups.knobs(state, pod_id).overlaid(protected))._replace(period=None)
    said = f"; set on its pod's cgroup, where runtime handler {place.pod.handler} runs a VM"
    return said, {"not_set": " ".join(lost.named())} if lost != NO_KNOBS else {}


def of_findings(findings: tuple[Finding, ...], assignment: Assignment) -> tuple[Decision, ...]:
    """Return a decision for each annotation that does not count, with the value that is used instead."""
    if not findings:
        return ()
    return tuple(
        [
            Decision(
                AuditEvent(f.kind.value),
                _FINDING_REASON[f.kind],
                f"{f.key} ignored: {f.value!r} is {_FAULT[f.kind]}; allowed: {f.allowed}; used: {f.used}",
                subject=assignment,
                key=f.key,
                value=f.value,
                allowed=f.allowed,
                used=f.used,
            )
            for f in findings
        ]
    )


def refusal(pod: Pod, admitted: Admission, findings: tuple[Finding, ...]) -> str:
    """Return the reason why `strict` refuses this container, empty if it does not."""
    container = admitted.assignment.container
    if findings:
        first = findings[0]
        return refused(
            pod, container, f"{first.key}={first.value!r} is {_FAULT[first.kind]}; allowed: {first.allowed}"
        )
    if admitted.reason is Reason.NO_FREE_CPUS:
        return refused(pod, container, cause_of(admitted.because))
    return ""


def refused(pod: Pod, container: Container, cause: str) -> str:
    """Return the error that the runtime gets for a refused container."""
    return f"nri-coloc refuses {pod.namespace}/{pod.name}/{container.name}: {cause}"


def cause_of(because: str) -> str:
    """Return the part of an audit sentence that follows `<what was done>: `."""
    return because.partition(": ")[2]


def of_refusal(state: NodeState, admitted: Admission, refusal: str) -> Decision:
    """Return the decision on a creation that `strict` failed."""
    return Decision(
        AuditEvent.ADMIT,
        Reason.REFUSED_STRICT,
        f"creation refused: {cause_of(refusal)}",
        subject=admitted.assignment,
        inputs=of_request(state, admitted.assignment),
        considered=admitted.considered,
        shows=SHOWN,
    )


def of_protection(before: NodeState, after: NodeState, pod_id: str) -> Decision | None:
    """Return the decision on the memory protection of a pod's cgroup, and of every cgroup above; None if unchanged."""
    was, total = protection.of_pod(before, pod_id), protection.of_pod(after, pod_id)
    if was is total or was == total:
        return None
    asked = protection.asked_by_pod(after, pod_id)
    because = "memory protection set: the sum that its containers ask for"
    inputs: dict[str, Figure] = {"asked_low_bytes": asked.low, "asked_min_bytes": asked.min}
    if asked != total:
        inputs["most_bytes"] = supply.memory_request_of_pod(after, pod_id)
        told = supply.told_memory(after, pod_id)
        inputs |= {} if told is None else {"told_request_bytes": told}
        because = "memory protection limited: its containers ask for more than its certain memory request"
    had, has = (Knobs(memory_low=each.low, memory_min=each.min) for each in (was, total))
    said = Decision(
        AuditEvent.POD_LIMIT, Reason.PROTECTED, because, pod_id=pod_id, inputs=inputs, shows=(*inputs,)
    )
    qos = after.pods[pod_id].wish.qos if pod_id in after.pods else None
    return said._replace(before=had.differing(has), after=has.differing(had), qos=qos)


def of_release(state: NodeState, assignment: Assignment, reason: Reason) -> Decision:
    """Return the decision that ends a container: the CPUs that it had, and the owner of those CPUs."""
    cpus = cpuset.render(
        claim.in_spec(assignment.container) if assignment.hands_off else state.cpus_of(assignment)
    )
    did = "had" if reason is Reason.SUPERSEDED else "ran on"
    cause = _ENDS.get(reason, f"it was {reason.value}")
    because = f"container released: {cause}; it {did} {_place(state, assignment, cpus)}"
    return Decision(AuditEvent.RELEASE, reason, because, subject=assignment, before=Knobs(cpus=cpus or None))


def _place(state: NodeState, assignment: Assignment, cpus: str) -> str:
    """Return the CPUs that a container ran on, with the container, pool or runtime that they belonged to."""
    if assignment.hands_off:
        return f"CPUs {cpus} of its own spec" if cpus else "the CPUs that the runtime gave it"
    if assignment.exclusive:
        return f"CPUs {cpus}, its own"
    main = state.containers.get(assignment.follows)
    if main is not None and main.exclusive:
        return f"CPUs {cpus} of container {main.container.name} of its pod"
    return f"CPUs {cpus} of pool {_pool_of(state, assignment)}"


def _pool_of(state: NodeState, assignment: Assignment) -> str:
    """Return the pool whose CPUs a container without CPUs of its own has: `share` if its own pool has none."""
    has_cpus = assignment.pool != DEDICATED and state.pools.cpus(assignment.pool)
    is_known = assignment.pool in POOLS or assignment.pool in state.pools.tiers
    return assignment.pool if has_cpus and is_known else SHARE


def of_orphan(before: NodeState, after: NodeState, assignment: Assignment) -> Decision:
    """Return the decision on a sidecar in `share` again: its main container ended or owns no CPUs any more."""
    return Decision(
        AuditEvent.UPDATE,
        Reason.MAIN_GONE,
        "moved to share: its main container ended, or owns no CPUs now",
        subject=assignment,
        before=Knobs(cpus=cpuset.render(before.cpus_of(before.containers[assignment.id]))),
        after=Knobs(cpus=cpuset.render(after.cpus_of(assignment))),
        place=_place_of(after, assignment),
        shows=SHOWN,
    )


def of_heir(before: NodeState, after: NodeState, owner: Assignment, assignment: Assignment) -> Decision:
    """Return the decision on a container that owns the CPUs of its pod after another one, or follows the new owner."""
    now = after.containers[assignment.id]
    cpus = cpuset.render(after.cpus_of(now))
    done = f"runs on CPUs {cpus} of {after.containers[now.follows].container.name}" if now.follows else ""
    return Decision(
        AuditEvent.UPDATE,
        Reason.INHERITED,
        f"{done or f'own CPUs {cpus}'}: inherited from container {owner.container.name} of its pod, which ended",
        subject=now,
        before=Knobs(cpus=cpuset.render(before.cpus_of(before.containers[assignment.id]))),
        after=Knobs(cpus=cpus),
        place=_place_of(after, now),
        shows=SHOWN,
    )


def of_join(before: NodeState, after: NodeState, small: Assignment, main: Assignment) -> Decision:
    """Return the decision on a sidecar that moved onto the CPUs of a main container that came after it."""
    joined = after.containers[small.id]
    return Decision(
        AuditEvent.UPDATE,
        Reason.MAIN_CAME,
        f"moved to CPUs {cpuset.render(main.exclusive)} of main container {main.container.name}: "
        "it asks for less than one CPU",
        subject=joined,
        before=Knobs(cpus=cpuset.render(before.cpus_of(small))),
        after=Knobs(cpus=cpuset.render(after.cpus_of(joined))),
        place=_place_of(after, joined),
        shows=SHOWN,
    )


def changed(before: NodeState, after: NodeState, pod_ids: Iterable[str]) -> tuple[Decision, ...]:
    """Return the decisions on values of these pods that changed, and on all values of a pod that was not known."""
    found: list[Decision | None] = []
    for pod_id in pod_ids:
        if _may_differ(before, after, pod_id):
            found += _of_pod(before, after, pod_id)
    return tuple([one for one in found if one is not None]) if found else ()


def _may_differ(before: NodeState, after: NodeState, pod_id: str) -> bool:
    """Return False only if a known pod has all values of its own, and none that follow from its containers."""
    place = after.pods.get(pod_id)
    if place is None:
        return False
    if place is not before.pods.get(pod_id) or place.wish.handler == "pod":
        return True
    own = place.wish.knobs.io_weight
    for member in before.containers.of_pod(pod_id) + after.containers.of_pod(pod_id):
        low, least = member.knobs.memory_low, member.knobs.memory_min
        if low is not None or least is not None or member.wish.knobs.io_weight != own:
            return True
    return False


def changed_of_all(before: NodeState, after: NodeState) -> tuple[Decision, ...]:
    """Return these decisions for every pod that was known before and still is, and for each VM's pod."""
    pods = after.pods.items()
    return changed(before, after, (k for k, place in pods if k in before.pods or place.wish.handler == "pod"))


def _of_pod(before: NodeState, after: NodeState, pod_id: str) -> tuple[Decision | None, ...]:
    place, protected = after.pods[pod_id], of_protection(before, after, pod_id)
    if place.wish.handler == "pod":
        # while the VM has a container: its end says the rest
        values = reclaim_cgroups.limit(before, after, place.pod, place.wish), protected
        return values if any(after.of_pod(pod_id)) else ()
    was, is_boxed = before.boxed(pod_id), after.boxed(pod_id)
    if was and not is_boxed:
        return protected, _left(before, after, pod_id)
    if is_boxed is was and pod_id in before.pods:
        return protected, _weight(before, after, pod_id)
    return protected, reclaim_cgroups.limit(before, after, place.pod, place.wish)


def _left(before: NodeState, after: NodeState, pod_id: str) -> Decision:
    """Return the decision on a pod that left the reclaim cgroups; files and the journal have the restored values."""
    place, had, has = (
        after.pods[pod_id],
        reclaim_cgroups.knobs(before, pod_id),
        reclaim_cgroups.knobs(after, pod_id),
    )
    because = f"left the reclaim pool: {_why_left(place.wish)}"
    said = Decision(AuditEvent.POD_LIMIT, Reason.POOL_MEMBER, because, pod_id=pod_id, qos=place.wish.qos)
    said = said._replace(inputs=reclaim_cgroups.figures(after, pod_id), shows=("reclaim_cpus", "containers"))
    return said._replace(before=had.differing(has), after=has.differing(had))


def _why_left(wish: Wish) -> str:
    if wish.qos is not QoSClass.RECLAIMED:
        return f"its class is {wish.qos.value} by {wish.because}"
    if reclaim_cgroups.belongs(wish):
        return "it has a container of another class"
    return "the kubelet pins its containers, or it is to be ignored"


def _weight(before: NodeState, after: NodeState, pod_id: str) -> Decision | None:
    had = reclaim_cgroups.io_weight(before, pod_id) or KERNELS_IO_WEIGHT
    has = reclaim_cgroups.io_weight(after, pod_id) or KERNELS_IO_WEIGHT
    place = after.pods[pod_id]
    if had == has or place.wish.handler == "ignore":
        return None
    return Decision(
        AuditEvent.POD_LIMIT,
        Reason.BOX_MEMBER if place.boxed else Reason.POOL_MEMBER,
        f"I/O weight changed from {had} to {has}: the highest of its containers; the pod's own if it has none",
        pod_id=pod_id,
        pool=RECLAIM if place.boxed else "",
        before=Knobs(io_weight=had),
        after=Knobs(io_weight=has),
        qos=place.wish.qos,
        inputs=reclaim_cgroups.figures(after, pod_id),
        shows=reclaim_cgroups.SHOWN,
    )
