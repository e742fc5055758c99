"""Record reclaimed pods that wait for CPU for long (`lending.starvation`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from nri_coloc.core.decisions import Decision
from nri_coloc.core.lending import Headroom
from nri_coloc.core.readings import GroupReading, Picture, milli_between, risen
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.lending import starvation
from nri_coloc.lending.starvation import Streak, Want
from nri_coloc.placing.node import Node

_LEAST_SHARES = 2
"""Shares of a container without a request."""


class Report(Protocol):
    """Records decisions."""

    def decided(
        self,
        decisions: Iterable[Decision],
        state: NodeState,
        previous: NodeState,
        latency_us: int | None = None,
    ) -> None: ...


class StarvedPods:
    """`look` belongs to the main thread.

    picture: returns the newest snapshot. One a minute shows how long containers waited; the others are passed over.
    headroom: returns what may be lent now.
    """

    def __init__(
        self,
        node: Node,
        report: Report,
        *,
        picture: Callable[[], Picture | None],
        headroom: Callable[[], Headroom],
    ) -> None:
        self._node = node
        self._report = report
        self._picture = picture
        self._headroom = headroom
        self._before: Picture | None = None
        self._newest: Picture | None = None
        self._streaks: Mapping[str, Streak] = {}

    def look(self) -> None:
        """Judge the pods after each snapshot that shows how long containers waited."""
        picture = self._picture()
        if picture is None or picture is self._newest:
            return
        self._newest = picture
        if not any(_waited_us(one) is not None for one in picture.containers.values()):
            return
        before, self._before = self._before, picture
        state = self._node.state
        wants = {} if before is None else _wants(before, picture, state)
        self._streaks = starvation.turn(self._streaks, wants, self._lendable_milli())
        decisions = [
            said for k, one in self._streaks.items() if (said := _said(k, one, wants[k], self._headroom()))
        ]
        if decisions:
            self._report.decided(decisions, state, state)

    def _lendable_milli(self) -> int | None:
        tuning = self._node.tuning
        is_off = (
            tuning.observe or not tuning.reclaim.enabled or tuning.reclaim.paused or not tuning.reclaim.lend
        )
        return None if is_off else self._headroom().cpu_milli


def _wants(before: Picture, after: Picture, state: NodeState) -> dict[str, Want]:
    """Return the waiting and the use of each reclaimed pod, as far as they are known."""
    found: dict[str, Want] = {}
    for pod_id in state.pods.keys() & after.pods.keys():
        members = tuple(state.of_pod(pod_id))
        if not members or any(one.qos is not QoSClass.RECLAIMED for one in members):
            continue
        used = milli_between(before.pods.get(pod_id), after.pods[pod_id])
        waited = [part for one in members if (part := _waited(before, after, one)) is not None]
        if used is not None and waited:
            found[pod_id] = Want(
                waited=max(waited),
                used_milli=used,
                granted_milli=sum(map(_granted_milli, members)),
                seconds=after.pods[pod_id].at - before.pods[pod_id].at,
            )
    return found


def _waited(before: Picture, after: Picture, member: Assignment) -> float | None:
    """Return the part of the time in which a task of a container waited; None if it is unknown.

    Time for which its own quota held it back does not count: only a stall beyond it is a want.
    """
    first, last = before.containers.get(member.id), after.containers.get(member.id)
    if first is None or last is None or first.key != last.key or last.at <= first.at:
        return None
    waited_us = risen(_waited_us(first), _waited_us(last))
    held_us = risen(first.throttled_us, last.throttled_us) or 0
    return None if waited_us is None else min(1.0, max(0, waited_us - held_us) / 1e6 / (last.at - first.at))


def _waited_us(reading: GroupReading) -> int | None:
    return reading.run_delay_us if reading.cpu is None else reading.cpu.some_us


def _granted_milli(member: Assignment) -> int:
    shares = member.knobs.shares or 0
    return shares * 1000 // 1024 if shares > _LEAST_SHARES else 0


def _said(pod_id: str, streak: Streak, want: Want, headroom: Headroom) -> Decision | None:
    """Return the record on a pod that counts as starved or suppressed now; None otherwise."""
    inputs = {
        "used_milli": want.used_milli,
        "granted_milli": want.granted_milli,
        "waited": round(want.waited, 2),
        "headroom_milli": headroom.cpu_milli,
        "starved_s": round(streak.starved_s),
        "suppressed_s": round(streak.suppressed_s),
    }
    if streak.is_starved:
        because = "pod got nearly no CPU: its tasks wait, and other pods use the CPUs"
        shown: tuple[str, ...] = ("starved_s", "used_milli", "granted_milli", "waited")
        reason = Reason.WITHOUT_CPU
    elif streak.is_suppressed:
        because = "pod waits for CPU: online pods leave less than one CPU to lend"
        shown = ("suppressed_s", "headroom_milli", "waited")
        reason = Reason.SUPPRESSED
    else:
        return None
    return Decision(
        AuditEvent.POD_STARVED,
        reason,
        because,
        pod_id=pod_id,
        inputs=inputs,
        shows=shown,
        qos=QoSClass.RECLAIMED,
    )
