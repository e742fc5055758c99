"""Turn verdicts and steps into decisions of the audit: a sentence, and every figure to derive the decision again."""

from collections.abc import Mapping, Sequence
from typing import Final

from nri_coloc.core import report
from nri_coloc.core.decisions import Decision, Figure
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import RECLAIM
from nri_coloc.core.texts import cut
from nri_coloc.core.workload import QoSClass
from nri_coloc.pressure.action import Action, Cause, Place
from nri_coloc.pressure.actions import degrade_cpu
from nri_coloc.pressure.culprit import Suspect
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.ladder import Move, Step
from nri_coloc.pressure.taking_back import NO_NEED, Need, Regime, Take
from nri_coloc.pressure.verdict import Resource, load_of

_STALLS: Final[Mapping[Resource, Reason]] = {
    Resource.CPU: Reason.CPU_STALL,
    Resource.MEMORY: Reason.MEMORY_STALL,
    Resource.IO: Reason.IO_STALL,
}
_CAUSES: Final[Mapping[Cause, Reason]] = {
    Cause.CALM: Reason.CALM,
    Cause.NO_RELIEF: Reason.NO_RELIEF,
    Cause.NOT_ALLOWED: Reason.RECONFIGURED,
}
_WHY: Final[Mapping[Cause, str]] = {
    Cause.CALM: "its victims are calm",
    Cause.NO_RELIEF: "the least limit gave no relief",
    Cause.NOT_ALLOWED: "settings or annotations no longer allow it",
}
_WHY_RESTORED: Final[Mapping[Cause, str]] = {
    Cause.CALM: "its time is over, and its pool is calm",
    Cause.NO_RELIEF: "its time is over, and it gave no relief",
    Cause.NOT_ALLOWED: "its settings, annotations or requests no longer allow it",
}
_NAMED: Final = 8
"""Pods that a record of memory names."""

_NAME: Final = 40
"""Characters of a pod's or a pool's name in a sentence."""


def of_verdict(verdict: Verdict, qos: QoSClass, names: Mapping[str, str], action: str) -> Decision:
    """Return the record of a verdict.

    names: "NAMESPACE/POD" by pod id.
    action: what follows, such as "none, mode observe".
    """
    first = verdict.evidence.culprits[0]
    judgement = verdict.judgement
    because = (
        f"verdict: {verdict.resource} stall while the use of {_short(names.get(first.pod_id, first.pod_id))} rose"
        f" (wait={_wait(verdict.resource, judgement.wait)}, bound={_wait(verdict.resource, judgement.bound)},"
        f" confidence={verdict.evidence.confidence:.2f}, action={action})"
    )
    return Decision(
        AuditEvent.PRESSURE_VERDICT,
        _STALLS[verdict.resource],
        because,
        pod_id=verdict.victim,
        qos=qos,
        inputs={**_figures(verdict, names), "action": action},
    )


def of_step(step: Step, action: Action, place: Place, names: Mapping[str, str]) -> Decision:
    """Return the record of a step of the ladder."""
    throttle = step.throttle
    victims = [_short(names.get(victim, victim)) for victim in sorted(throttle.victims)]
    common = {
        "resource": step.resource.value,
        "use_at_first": round(throttle.use),
        "limit_before": None if step.before is None else round(step.before),
        "limit": None if step.limit is None else round(step.limit),
        "floor": round(action.least),
        "calm_readings": throttle.calm,
        "hurt_readings": throttle.hurt,
        "hold_s": throttle.hold,
        "devices": " ".join(place.devices),
        "victims": " ".join(victims),
    }
    before, after = action.shown(place, step.before), action.shown(place, step.limit)
    if step.move is Move.THROTTLE:
        limit, use = action.words(step.limit or 0.0), action.words(throttle.use)
        figures = f"use_at_first={use}, limit={limit}"
        because = f"throttled {action.knob}: {step.resource} stall of {victims[0]} ({figures})"
        event, reason = AuditEvent.PRESSURE_THROTTLE, _STALLS[step.resource]
    else:
        done = "limit removed" if step.limit is None else "limit doubled"
        readings = f"calm_readings={throttle.calm}, hurt_readings={throttle.hurt}"
        because = f"{done}: {_WHY[step.cause]} (limit={_limit(action, step.limit)}, {readings})"
        event, reason = AuditEvent.PRESSURE_RECOVER, _CAUSES[step.cause]
    return Decision(
        event,
        reason,
        because,
        pod_id=step.pod_id,
        qos=QoSClass.RECLAIMED,
        before=before,
        after=after,
        inputs=common,
    )


def of_end(pod_id: str, action: Action, limit: float, reason: Reason, why: str) -> Decision:
    """Return the record of a limit that is removed because no process watches it."""
    because = f"limit removed: {why} (limit_before={action.words(limit)})"
    return Decision(
        AuditEvent.PRESSURE_RECOVER,
        reason,
        because,
        pod_id=pod_id,
        qos=QoSClass.RECLAIMED,
        after=action.shown(Place(""), None),
        inputs={"resource": action.resource.value, "limit_before": round(limit)},
    )


def of_degrading(step: degrade_cpu.Step, victims: Sequence[str], *, observes: bool = False) -> Decision:
    """Return the record of a quota that is lowered or restored.

    victims: "NAMESPACE/POD" of each hurt pod.
    observes: whether it would only be lowered, in mode observe.
    """
    names, inputs = [_short(name) for name in victims], _of_degrading(step)
    inputs["victims"] = " ".join(names)
    if step.cause is Cause.HURT:
        done = "would be lowered, mode observe" if observes else "lowered"
        text = f"quota {done}: CPU stall of {names[0]} in pool {_short(step.pool)}"
        because = report.sentence(text, inputs, ("limit_milli", "use_milli", "request_milli"))
        return Decision(AuditEvent.PRESSURE_DEGRADE, Reason.CPU_STALL, because, inputs=inputs)
    text = f"quota restored: {_WHY_RESTORED[step.cause]}"
    because = report.sentence(text, inputs, ("limit_before_milli", "use_milli"))
    return Decision(AuditEvent.PRESSURE_RECOVER, _CAUSES[step.cause], because, inputs=inputs)


def of_memory_low(need: Need, takes: tuple[Take, ...], names: Mapping[str, str], taken: int) -> Decision:
    """Return the record of a regime in which memory is taken back.

    names: "NAMESPACE/POD" by pod id.
    taken: bytes since the last record.
    """
    is_urgent = need.regime is Regime.URGENT
    parts = {f"{names[one.pod_id]}.take_bytes": one.amount for one in takes[:_NAMED]}
    return Decision(
        AuditEvent.PRESSURE_RECLAIM,
        Reason.MEMORY_SHORT if is_urgent else Reason.MEMORY_LOW,
        f"memory taken back: {'short' if is_urgent else 'low'} on {need.scope}",
        pool=RECLAIM,
        qos=QoSClass.RECLAIMED,
        inputs={
            **_of_need(need, taken),
            "pods": len(takes),
            "take_bytes": sum(t.amount for t in takes),
            **parts,
        },
        shows=("available_bytes", "missing_bytes", "pods"),
    )


def of_memory_enough(need: Need, former: Regime, taken: int) -> Decision:
    """Return the record of the end of a regime. `taken`: bytes since the last record."""
    return Decision(
        AuditEvent.PRESSURE_RECLAIM,
        Reason.CALM,
        f"memory no longer taken back: {_why_enough(need)}",
        pool=RECLAIM,
        qos=QoSClass.RECLAIMED,
        inputs={**_of_need(need, taken), "former_regime": former.value},
        shows=("available_bytes", "enough_bytes", "taken_bytes"),
    )


def _why_enough(need: Need) -> str:
    if need == NO_NEED:
        return "no reclaimed pod may give any"
    return f"available memory unknown on {need.scope}" if need.left is None else f"enough on {need.scope}"


def cores(milli: float) -> str:
    """Return an amount of CPU for people: "3.25 cores"."""
    return f"{milli / 1000:.2f} cores"


def _of_degrading(step: degrade_cpu.Step) -> dict[str, Figure]:
    member = step.member
    return {
        "pool": step.pool,
        "pool_cpus_milli": round(step.pool_cpu_milli),
        "pool_use_milli": round(step.pool_use),
        "use_milli": None if member.use is None else round(member.use),
        "request_milli": None if member.request is None else round(member.request),
        "own_limit_milli": None if member.most == float("inf") else round(member.most),
        "limit_before_milli": None if step.before is None else round(step.before),
        "limit_milli": None if step.limit is None else round(step.limit),
        "lasts_s": step.lasts_s,
        "kube_priority": member.kube_priority,
        "priority": member.priority,
        "candidates": step.candidates,
    }


def _of_need(need: Need, taken: int) -> dict[str, Figure]:
    return {
        "scope": need.scope,
        "regime": need.regime.value,
        "available_bytes": None if need.left is None else need.left.available,
        "least_bytes": need.known.least,
        "enough_bytes": need.known.enough,
        "missing_bytes": need.missing,
        "taken_bytes": taken,
    }


def _limit(action: Action, limit: float | None) -> str:
    return "none" if limit is None else action.words(limit)


def _wait(resource: Resource, wait: float | None) -> str:
    if wait is None:
        return "unknown"
    return f"{wait * 1000:.2f} ms" if resource is Resource.IO else f"{wait * 100:.2f} %"


def _short(name: str) -> str:
    return cut(name, _NAME)


def _figures(verdict: Verdict, names: Mapping[str, str]) -> dict[str, Figure]:
    judgement, strain = verdict.judgement, verdict.strain
    of_wait = "wait_s" if verdict.resource is Resource.IO else "wait"
    found: dict[str, Figure] = {
        "resource": verdict.resource.value,
        "stall": round(strain.stall, 4),
        "own": round(strain.own, 4),
        "stolen": round(strain.stolen, 4),
        "load": round(load_of(verdict.resource, strain), 1),
        of_wait: round(judgement.wait, 6),
        "baseline": None if judgement.baseline is None else round(judgement.baseline, 6),
        "spread": None if judgement.spread is None else round(judgement.spread, 6),
        "margin": None if judgement.margin is None else round(judgement.margin, 6),
        "bound": None if judgement.bound is None else round(judgement.bound, 6),
        "hurt_readings": verdict.readings,
        "tolerance": verdict.tolerance.value,
        "confidence": round(verdict.evidence.confidence, 3),
        "others_rise": round(verdict.evidence.others),
        "devices": " ".join(sorted(verdict.devices)),
    }
    for suspect in verdict.evidence.culprits:
        found |= _of_suspect(suspect, names)
    return found


def _of_suspect(suspect: Suspect, names: Mapping[str, str]) -> dict[str, Figure]:
    name = names.get(suspect.pod_id, suspect.pod_id)
    return {f"{name}.calm_use": round(suspect.calm), f"{name}.hurt_use": round(suspect.hurt)}
