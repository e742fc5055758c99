"""Follow every shortage that nothing milder ended, and turn it into demands for evictions.

The memory of reclaimed pods is read only while memory is short and a demand would lead to an order or a record.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.pressure import demands
from nri_coloc.pressure.demands import STALLED
from nri_coloc.pressure.disk_space import DiskShort
from nri_coloc.pressure.disk_writers import DiskWriters, UseFiles
from nri_coloc.pressure.disks import REASONS
from nri_coloc.pressure.eviction import Demand, Victim
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.memory_shortages import NODE, MemoryFiles, MemoryShortages
from nri_coloc.pressure.population import Reclaimed
from nri_coloc.pressure.starved_pods import Moved, is_meant_to_wait
from nri_coloc.pressure.verdict import Resource


class StarvedPods(Protocol):
    """The reclaimed pods that have starved for long."""

    @property
    def moved(self) -> Moved: ...


class Disks(Protocol):
    """The file systems that are short of space."""

    @property
    def short(self) -> tuple[DiskShort, ...]: ...


class Ladder(Protocol):
    """The milder rungs after their last turn."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...
    def gave_no_relief(self, pod_id: str, resource: Resource, victim: str) -> bool: ...


class Turn(NamedTuple):
    """The input of one turn.

    pods: the reclaimed pods by id.
    leaving: reclaimed pods that leave already, for `evictor.LONGEST_LEAVE_S` at most.
    deleted: reclaimed pods that the API server is deleting. An order would change nothing.
    now, evicted_at: this turn and the last eviction, monotonic seconds.
    """

    now: float
    state: NodeState
    tuning: Tuning
    pods: Mapping[str, Reclaimed]
    leaving: frozenset[str]
    deleted: frozenset[str]
    evicted_at: float


class Shortages:
    """For the thread of `Evictor.look` alone.

    memory: reads memory and the uses of pods.
    starved, disks, ladder: the milder rungs and the judges, after their last turn.
    uses: reads the bytes that pods wrote.
    starving: the pods that may go because they starved since the last eviction.
    """

    def __init__(
        self,
        memory: MemoryFiles,
        uses: UseFiles,
        *,
        starved: StarvedPods,
        disks: Disks,
        ladder: Ladder,
    ) -> None:
        self._memory = MemoryShortages(memory)
        self._writers = DiskWriters(uses)
        self._starved = starved
        self._disks = disks
        self._ladder = ladder
        self.starving: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Forget all readings, because no pod may be evicted."""
        self._memory.forget()
        self._writers.forget()
        self.starving = frozenset()

    def follow(self, turn: Turn, *, acts: bool) -> tuple[list[Demand], bool]:
        """Follow all shortages; return the demands, and whether any of them closes the node.

        acts: whether a demand would lead to an order or a record; if not, there are none.
        """
        short = self._memory.follow(turn.state, turn.tuning, turn.now)
        starving, shortages = self._starving(turn), self._disks.short
        filled = self._writers.follow(shortages, turn.pods, turn.leaving, turn.now)
        if not acts:
            return [], bool(short or shortages) or any(one.closes for one in starving)
        found = [
            demands.of_memory(one, self._memory.uses(turn.pods, one.scope, turn.now), turn.state)
            for one in short
        ]
        found += [*self._of_verdicts(turn), *starving]
        if filled is not None:
            found.append(demands.of_disk(filled, turn.state))
        return found, bool(shortages) or any(one.closes for one in found)

    def ordered(self, victim: Victim) -> None:
        """Note an order to evict a pod."""
        if victim.demand.reason in REASONS.values():
            self._writers.ordered(victim.pod_id)

    def _of_verdicts(self, turn: Turn) -> Iterable[Demand]:
        """Yield the demands of online pods that wait although everything milder was tried."""
        for verdict in self._ladder.verdicts:
            if verdict.victim not in turn.state.pods:
                continue  # it has ended since
            pods = {k: turn.pods[k] for k, *_ in verdict.evidence.culprits if k in turn.pods}
            uses: dict[str, float] = {}
            if verdict.resource is Resource.MEMORY and verdict.readings >= STALLED:
                uses = self._memory.uses(pods, NODE, turn.now)
            elif verdict.resource is Resource.IO:
                victim = verdict.victim
                uses = {k: 1.0 for k in pods if self._ladder.gave_no_relief(k, Resource.IO, victim)}
            if uses:
                yield demands.of_verdict(verdict, uses, turn.state)

    def _starving(self, turn: Turn) -> list[Demand]:
        """Return the demand of pods that starved since the last eviction.

        There is none while an operator or the schedule lends no CPU.
        """
        moved, is_meant = self._starved.moved, is_meant_to_wait(turn.tuning.reclaim)
        starving = frozenset() if is_meant else moved.since(turn.evicted_at, turn.now)
        self.starving = starving & turn.pods.keys()
        pods = sorted(self.starving)
        found = demands.of_starvation(pods, turn.leaving, turn.state, is_short=moved.is_short)
        return [found] if pods else []
