"""Read the pods of one turn, round-robin.

Reads are bounded. In a calm turn `LOOKS` online and `LOOKS` reclaimed pods are read, round-robin, beside the pods that
are throttled, or more on a node with so many pods that a round would be too long; while an online pod is hurt or gave
an alarm all reclaimed pods are read, so that the culprit is known in the same turn.
Without a reclaimed pod only a few online pods are read, for their baselines.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from nri_coloc.core.readings import StallReading
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.judging import Seen, Watch, suffering
from nri_coloc.pressure.population import Population

LOOKS: Final = 8
"""Online pods, and as many reclaimed pods, that a calm turn reads at least."""

LOOKS_ALONE: Final = 4
"""Online pods that a turn reads at least while there is no reclaimed pod."""

ROUND: Final = 16
"""Turns of a round at most: of the last 64, with which use is compared (`culprit.TURNS`), four are of each pod then."""

ROUND_ALONE: Final = 28
"""Turns of a round at most while there is no reclaimed pod. After 30 s without a reading the rates of a pod are unknown
(`rates.LONGEST_S`)."""


class Reader(Protocol):
    """Reads counters of pods; returns None if a pod is gone."""

    def stalls(
        self, path: str, at: float, held_back: Iterable[str], limited: Iterable[str]
    ) -> StallReading | None: ...
    def uses(self, path: str, at: float) -> StallReading | None: ...
    def stolen_us(self) -> int | None: ...


class Rounds:
    """Chooses and reads the pods of each turn."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._stolen: tuple[float, int] | None = None
        self._turns = 0

    def read(
        self,
        pods: Population,
        watch: Watch,
        now: float,
        *,
        throttled: Iterable[str],
        alarmed: Iterable[str],
    ) -> Seen:
        """Return the readings of one turn.

        throttled: reclaimed pods that are read in any case.
        alarmed: online pods that are read in any case.
        """
        online, reclaimed = pods.online, pods.reclaimed
        self._turns += 1
        hurt = [*suffering(watch, online), *alarmed]
        found: dict[str, StallReading | None] = dict.fromkeys(online)
        tolerances: dict[str, Tolerance] = {}
        least, turns = (LOOKS, ROUND) if reclaimed else (LOOKS_ALONE, ROUND_ALONE)
        for pod_id in self._chosen(online, looks(len(online), least, turns), hurt):
            one = online[pod_id]
            found[pod_id] = self._reader.stalls(one.path, now, one.held_back, one.limited)
            tolerances[pod_id] = one.tolerance
        uses: dict[str, StallReading | None] = dict.fromkeys(reclaimed)
        count = looks(len(reclaimed), LOOKS, ROUND)
        for pod_id in reclaimed if hurt else self._chosen(reclaimed, count, throttled):
            uses[pod_id] = self._reader.uses(reclaimed[pod_id].path, now)
        return Seen(
            turn=self._turns,
            online=found,
            reclaimed=uses,
            tolerances=tolerances,
            stolen=self._stolen_share(pods.cpus, now),
        )

    def _chosen(self, pods: Mapping[str, object], count: int, always: Iterable[str]) -> list[str]:
        """Return the pods of this turn: the pods that are read always, and the next pods in order."""
        turned = round_robin([*pods], count, self._turns)
        return [*dict.fromkeys((*(k for k in always if k in pods), *turned))]

    def _stolen_share(self, cpus: int, now: float) -> float | None:
        """Return the share of all CPUs' time that the hypervisor took since the last turn; None if unknown."""
        stolen = self._reader.stolen_us()
        before, self._stolen = self._stolen, None if stolen is None else (now, stolen)
        if stolen is None or before is None or now <= before[0] or stolen < before[1]:
            return None
        return min(1.0, (stolen - before[1]) / 1e6 / (now - before[0]) / max(1, cpus))


def looks(pods: int, least: int, turns: int) -> int:
    """Return how many of these pods a turn reads, so that a round has no more than so many turns."""
    return max(least, -(-pods // turns))


def round_robin(ids: Sequence[str], count: int, turn: int) -> list[str]:
    """Return the pods of one turn, `count` at most. Successive turns choose each pod equally often."""
    first = turn * count % len(ids) if len(ids) > count else 0
    return [*ids[first:], *ids[:first]][:count]
