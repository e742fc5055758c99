"""Notice between two turns that an online pod waits longer for a disk than its baseline allows.

A turn reads eight online pods a second. While reclaimed pods may be throttled, each turn also reads the I/O stall of
every online pod, from files that stay open. Between the turns, `CHECK_S` apart, it is read of pods that waited for a
disk within the last minute and may give an alarm. A stall above the pod's bound brings the next turn forward, and that
turn judges. The bound is that of the pod's last calm judgement (`verdict.longest_stall`), so there is no second rule
for a hurt. If a pod has waited for no disk for a minute, the next turn notices its wait.

A pod whose alarm was in vain, because the turns after it judged no hurt, gives the next alarm later, and twice as late
each time. A pod that waits all the time, also alone, has a bound above the whole time: it gives no alarm, because only
its operations show a hurt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from nri_coloc.core.readings import risen
from nri_coloc.pressure.judging import Watch
from nri_coloc.pressure.population import Online
from nri_coloc.pressure.verdict import RESOLUTION_S, Resource, longest_stall

CHECK_S: Final = 0.25
"""Seconds between two checks: so two quick turns after an alarm end within a second of the first wait."""

STILL_S: Final = 60.0
"""Seconds without a wait for a disk after which only turns read a pod."""

REST_S: Final = 5.0
LONGEST_REST_S: Final = 320.0
"""Seconds after an alarm in which the pod gives no other one: doubled with each alarm in vain, to the longest."""


class Stalls(Protocol):
    """Reads the I/O stall of cgroups from files that stay open."""

    def keep(self, paths: Iterable[str]) -> None: ...
    def io_us(self, path: str) -> int | None: ...


@dataclass(slots=True)
class _Followed:
    """One online pod.

    longest: the share of the time that it may wait, inf without a baseline.
    is_hurt: whether each turn reads it already.
    total_us, read_at: its stall at the last check, and the time of that check.
    waited_at: the time of the last check that found a wait.
    """

    longest: float = inf
    is_hurt: bool = False
    total_us: int | None = None
    read_at: float = -inf
    waited_at: float = -inf
    rest_s: float = REST_S
    rests_until: float = -inf

    def may_alarm(self, now: float) -> bool:
        """Return whether a check within the next second may find a wait above the bound."""
        is_bounded = self.is_above(CHECK_S, CHECK_S)
        return is_bounded and not self.is_hurt and now >= self.rests_until and now - self.waited_at < STILL_S

    def is_above(self, stalled_s: float, span_s: float) -> bool:
        """Return whether a stall in a span is longer than the bound allows."""
        return stalled_s > self.longest * span_s + RESOLUTION_S


class DiskWaits:
    """Follows the I/O stall of online pods. For one thread."""

    def __init__(self, stalls: Stalls) -> None:
        self._stalls = stalls
        self._online: Mapping[str, Online] = {}
        self._pods: dict[str, _Followed] = {}
        self._checked: dict[str, _Followed] = {}
        self._checked_at = -inf

    def follow(self, online: Mapping[str, Online], watch: Watch) -> None:
        """Follow these pods with the judgements of a turn; no pods: read nothing, and close all files."""
        if online is not self._online:
            self._online = online
            self._stalls.keep(one.path for one in online.values())
            self._pods = {k: self._pods.get(k, _Followed()) for k in online}
        for pod_id, one in self._pods.items():
            felt = watch[pod_id].felt.get(Resource.IO) if pod_id in watch else None
            if felt is None or felt.judgement.hurt is None:
                continue
            one.is_hurt = felt.judgement.hurt
            if one.is_hurt:
                one.rest_s = REST_S
            elif felt.strain is not None:
                one.longest = longest_stall(Resource.IO, felt.judgement, felt.strain)
        self._checked = {k: one for k, one in self._pods.items() if one.may_alarm(self._checked_at)}

    def due_in(self, now: float) -> float:
        """Return the seconds until the next check between turns, infinity if no pod may give an alarm."""
        return max(0.0, self._checked_at + CHECK_S - now) if self._checked else inf

    def risen(self, now: float) -> frozenset[str]:
        """Check the pods that may give an alarm; return those that stalled above their bound since their last check."""
        return self._risen(self._checked, now)

    def risen_of_all(self, now: float) -> frozenset[str]:
        """Check all pods, as each turn does; return the same."""
        return self._risen(self._pods, now)

    def _risen(self, pods: Mapping[str, _Followed], now: float) -> frozenset[str]:
        self._checked_at = now
        return frozenset([k for k, one in pods.items() if self._is_alarmed(k, one, now)])

    def _is_alarmed(self, pod_id: str, one: _Followed, now: float) -> bool:
        before, one.total_us = one.total_us, self._stalls.io_us(self._online[pod_id].path)
        span, one.read_at = now - one.read_at, now
        stalled = risen(before, one.total_us)
        if not stalled:
            return False
        one.waited_at = now
        if one.is_hurt or now < one.rests_until or not one.is_above(stalled / 1e6, span):
            return False
        one.rests_until, one.rest_s = now + one.rest_s, min(2 * one.rest_s, LONGEST_REST_S)
        return True
