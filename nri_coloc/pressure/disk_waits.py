"""Notice between two turns that an online pod waits longer for a disk than its baseline allows.

A turn reads eight online pods a second. Here the I/O stall of every online pod is read, `CHECK_S` apart and from files
that stay open, while reclaimed pods may be throttled. A stall above the pod's bound brings the next turn forward, and
that turn judges. The bound is that of the pod's last calm judgement (`verdict.longest_stall`), so there is no second
rule for a hurt.

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
from nri_coloc.pressure.rates import TICK_S
from nri_coloc.pressure.verdict import Resource, longest_stall

CHECK_S: Final = 0.25
"""Seconds between two checks: so two quick turns after an alarm end within a second of the first wait."""

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
    total_us: its stall at the last check.
    """

    longest: float = inf
    is_hurt: bool = False
    total_us: int | None = None
    rest_s: float = REST_S
    rests_until: float = -inf


class DiskWaits:
    """Follows the I/O stall of online pods. For one thread."""

    def __init__(self, stalls: Stalls) -> None:
        self._stalls = stalls
        self._online: Mapping[str, Online] = {}
        self._pods: dict[str, _Followed] = {}
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

    def due_in(self, now: float) -> float:
        """Return the seconds until the next check, infinity while no pod is followed."""
        return max(0.0, self._checked_at + CHECK_S - now) if self._pods else inf

    def risen(self, now: float) -> frozenset[str]:
        """Check all pods; return those whose stall since the last check is above their bound."""
        span, self._checked_at = now - self._checked_at, now
        return frozenset([k for k, one in self._pods.items() if self._is_alarmed(k, one, span)])

    def _is_alarmed(self, pod_id: str, one: _Followed, span: float) -> bool:
        before, one.total_us = one.total_us, self._stalls.io_us(self._online[pod_id].path)
        stalled = risen(before, one.total_us)
        if stalled is None or one.is_hurt or self._checked_at < one.rests_until:
            return False
        if stalled / 1e6 <= one.longest * span + 2 * TICK_S:
            return False
        one.rests_until, one.rest_s = self._checked_at + one.rest_s, min(2 * one.rest_s, LONGEST_REST_S)
        return True
