"""Record reclaimed pods that wait for CPU for minutes, and find the pods to move away (`starvation` decides)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from nri_coloc.core.decisions import Decision
from nri_coloc.core.lending import Headroom
from nri_coloc.core.readings import Picture, milli_between, risen, seconds_between
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Recorder
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing.node import Node
from nri_coloc.pressure import lent, population, starvation
from nri_coloc.pressure.starvation import Streak, Want

_WHOLE_CPU: Final = 1000

HOLDS_S: Final = 400.0
"""Seconds for which a snapshot shows starved pods: on a large node the next one follows after six minutes."""


class Moved(NamedTuple):
    """The pods that have starved for so long that they are moved away.

    at: time of the snapshot that shows it, monotonic seconds.
    is_short: whether the reclaim pool had less than one idle CPU since the snapshot before. A pod that starves beside
        an idle CPU has bound its tasks to a busy one.
    """

    pods: frozenset[str] = frozenset()
    at: float = float("-inf")
    is_short: bool = True

    def since(self, began_s: float, now: float) -> frozenset[str]:
        """Return the pods whose starvation began after a time; none if the snapshot is stale."""
        is_fresh = now - self.at < HOLDS_S
        return self.pods if is_fresh and self.at - began_s >= starvation.MOVED_S else frozenset()


class StarvedPods:
    """`look` belongs to the main thread.

    moved: pods to move away. Each has been recorded as starved before.
    picture: returns the newest snapshot. One a minute shows how long containers waited; the others are passed over.
    headroom: returns what may be lent now.
    """

    def __init__(
        self,
        node: Node,
        report: Recorder,
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
        self._pool_milli = 0
        self.moved = Moved()

    def look(self) -> None:
        """Judge the pods after each snapshot that shows how long containers waited."""
        picture = self._picture()
        if picture is None or picture is self._newest:
            return
        self._newest = picture
        if not any(one.cpu_wait_us is not None for one in picture.containers.values()):
            return
        before, self._before = self._before, picture
        state, reclaim = self._node.state, self._node.tuning.reclaim
        wants = {} if before is None or is_meant_to_wait(reclaim) else _wants(before, picture, state)
        self._streaks = starvation.turn(self._streaks, wants, self._lendable_milli())
        headroom = self._headroom()
        decisions = [said for k, one in self._streaks.items() for said in _said(k, one, wants[k], headroom)]
        if decisions:
            self._report.decided(decisions, state, state)
        moved = frozenset(k for k, one in self._streaks.items() if one.is_moved)
        pool_milli = _pool_milli(state)
        idle = (
            None if before is None else _idle_milli(before, picture, state, min(pool_milli, self._pool_milli))
        )
        self._pool_milli = pool_milli
        self.moved = Moved(moved, picture.at, is_short=idle is None or idle < _WHOLE_CPU)

    def _lendable_milli(self) -> int | None:
        tuning = self._node.tuning
        return None if tuning.observe or not tuning.reclaim.enabled else self._headroom().cpu_milli


def is_meant_to_wait(reclaim: ReclaimTuning) -> bool:
    """Return whether an operator or the schedule lends no CPU."""
    return bool(reclaim.paused) or not reclaim.lend


def _wants(before: Picture, after: Picture, state: NodeState) -> dict[str, Want]:
    """Return the waiting and the use of each reclaimed pod, as far as they are known."""
    found: dict[str, Want] = {}
    for pod_id in population.of(state).reclaimed.keys() & after.pods.keys():
        members = tuple(state.of_pod(pod_id))
        used = milli_between(before.pods.get(pod_id), after.pods[pod_id])
        waited = [part for one in members if (part := _waited(before, after, one)) is not None]
        if used is not None and waited:
            found[pod_id] = Want(
                waited=max(waited),
                used_milli=used,
                granted_milli=round(lent.cpu_milli(state, pod_id)),
                seconds=after.pods[pod_id].at - before.pods[pod_id].at,
            )
    return found


def _pool_milli(state: NodeState) -> int:
    return state.pools.reclaim.bit_count() * _WHOLE_CPU


def _idle_milli(before: Picture, after: Picture, state: NodeState, pool_milli: int) -> float | None:
    """Return the least milli-CPU that were idle in the reclaim pool; None is unknown.

    All use may have been in the pool, except that of containers with CPUs of their own.
    """
    used = risen(before.node.usage_us, after.node.usage_us)
    span = after.node.at - before.node.at
    if used is None or span <= 0:
        return None
    owned = sum(
        milli
        for one in state.containers.values()
        if one.exclusive
        and (milli := milli_between(before.containers.get(one.id), after.containers.get(one.id))) is not None
    )
    return pool_milli - used / span / 1000 + owned


def _waited(before: Picture, after: Picture, member: Assignment) -> float | None:
    """Return the part of the time in which a task of a container waited; None if it is unknown.

    Time for which its own quota held it back does not count: only a stall beyond it is a want.
    """
    first, last = before.containers.get(member.id), after.containers.get(member.id)
    if first is None or last is None or (seconds := seconds_between(first, last)) is None:
        return None
    waited_us = risen(first.cpu_wait_us, last.cpu_wait_us)
    held_us = risen(first.throttled_us, last.throttled_us) or 0
    return None if waited_us is None else min(1.0, max(0, waited_us - held_us) / 1e6 / seconds)


def _said(pod_id: str, streak: Streak, want: Want, headroom: Headroom) -> Iterator[Decision]:
    """Yield the records on a pod that counts as starved or suppressed now, or as both."""
    inputs = {
        "used_milli": want.used_milli,
        "granted_milli": want.granted_milli,
        "waited": round(want.waited, 2),
        "headroom_milli": headroom.cpu_milli,
        "starved_s": round(streak.starved_s),
        "suppressed_s": round(streak.suppressed_s),
    }
    if streak.is_starved:
        yield Decision(
            AuditEvent.POD_STARVED,
            Reason.WITHOUT_CPU,
            "pod got nearly no CPU: its tasks wait, and other pods use the CPUs",
            pod_id=pod_id,
            inputs=inputs,
            shows=("starved_s", "used_milli", "granted_milli", "waited"),
            qos=QoSClass.RECLAIMED,
        )
    if streak.is_suppressed:
        yield Decision(
            AuditEvent.POD_STARVED,
            Reason.SUPPRESSED,
            "pod waits for CPU: online pods leave less than one CPU to lend",
            pod_id=pod_id,
            inputs=inputs,
            shows=("suppressed_s", "headroom_milli", "waited"),
            qos=QoSClass.RECLAIMED,
        )
