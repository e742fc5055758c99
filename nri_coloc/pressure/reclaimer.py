"""Take one turn a second: find out whether memory is low, and order memory back from reclaimed pods.

A pod gives memory if its cgroup is one of the reclaim cgroups and the daemon sets its memory limits. Lent memory is
taken back with any `avoidance`, as lent CPUs are. Pods are read only while memory is low. An order is carried
out by a thread (`reclaim_worker`); the next one is given when it is done, from new readings.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from nri_coloc.core.decisions import Decision
from nri_coloc.core.state import NodeState
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.memory_reclaim import HeldMemory, Ways
from nri_coloc.placing.node import Node
from nri_coloc.pressure import lent, memory_shortages, taking_back, words
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.memory_shortages import LeftFiles
from nri_coloc.pressure.reclaim_worker import Order, Result
from nri_coloc.pressure.rounds import round_robin
from nri_coloc.pressure.taking_back import Need, Regime, Source, Take
from nri_coloc.repair import targets

LOOKS: Final = 8
"""Pods that a cold turn reads and takes from, round-robin."""

RESTS_S: Final = 10.0
"""Seconds without an order for a pod from which the kernel could not take everything."""

TOLD_AGAIN_S: Final = 60.0
"""Seconds between two records of a regime."""

_SHORTEST_S: Final = 0.5


class PodFiles(Protocol):
    """Reads a pod's memory, and the ways in which the kernel can take it."""

    def ways(self, path: str) -> Ways | None: ...
    def held(self, path: str, at: float) -> HeldMemory | None: ...
    def swap_free(self) -> int: ...


class Worker(Protocol):
    """Carries out orders on a thread of its own."""

    @property
    def is_busy(self) -> bool: ...
    def submit(self, orders: Iterable[Order]) -> None: ...
    def cancel(self) -> None: ...
    def results(self) -> Iterable[Result]: ...


class Ladder(Protocol):
    """The verdicts of the last turn."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...


class Report(Protocol):
    """Records decisions and refused writes, and counts bytes."""

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None: ...
    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None: ...
    def memory_taken(self, regime: str, amount: int) -> None: ...


class Told(NamedTuple):
    """The last records: `begun` by regime, the time of the last record; `open`, the regime whose end has no record."""

    begun: Mapping[Regime, float] = {}
    open: Regime = Regime.NONE


def gives_memory(state: NodeState, pod_id: str) -> bool:
    """Return whether memory of a pod may be taken: it is in the reclaim cgroups, and its memory limits are ours."""
    place = state.pods.get(pod_id)
    return place is not None and place.boxed and "memory" not in place.wish.preserve


class Reclaimer:
    """`look` is for one thread; `shown` may be read by any."""

    def __init__(
        self,
        node: Node,
        left: LeftFiles,
        pods: PodFiles,
        *,
        worker: Worker,
        ladder: Ladder,
        report: Report,
    ) -> None:
        self._node = node
        self._left = left
        self._files = pods
        self._worker = worker
        self._ladder = ladder
        self._report = report
        self._looked_at = float("-inf")
        self._ways: Ways | None = None
        self._regimes: Mapping[str, Regime] = {}
        self._resting: dict[str, float] = {}
        self._turns = 0
        self._taken = 0
        self._told = Told()
        self.regime = Regime.NONE

    @property
    def shown(self) -> str:
        """Return the regime for people, or "impossible" if the kernel has no `memory.reclaim` for pods."""
        return self.regime.value if self._ways is None or self._ways.reclaims else "impossible"

    def look(self, now: float) -> None:
        """Take one turn; nothing before the runtime's first list."""
        if not self._node.told or now - self._looked_at < _SHORTEST_S:
            return
        self._looked_at = now
        state = self._node.state
        self._collect(state, now)
        paths = self._paths(state)
        if paths and self._can(paths):
            need = self._need(state, now)
        else:
            need, self._regimes = taking_back.NO_NEED, {}
        pauses = taking_back.pauses(need.regime, {one.resource for one in self._ladder.verdicts})
        if pauses or need.regime is not self.regime:
            self._worker.cancel()
        self.regime = need.regime
        takes = () if pauses or self._worker.is_busy else self._takes(need, paths, state, now)
        if takes:
            self._worker.submit([Order(take, paths[take.pod_id], need.regime) for take in takes])
        self._tell(need, takes, state, now)

    def _paths(self, state: NodeState) -> dict[str, str]:
        """Return the cgroups of the pods that give memory, by id; none if the kernel cannot take it."""
        tuning = self._node.tuning
        if tuning.observe or not tuning.reclaim.enabled or self._ways == Ways():
            return {}
        paths = {k: targets.pod_path(place.pod) for k, place in state.pods.items() if gives_memory(state, k)}
        return {k: path for k, path in paths.items() if path}

    def _can(self, paths: Mapping[str, str]) -> bool:
        if self._ways is None:
            self._ways = self._files.ways(next(iter(paths.values())))
        return self._ways is not None and self._ways.reclaims

    def _need(self, state: NodeState, now: float) -> Need:
        watermark = self._node.tuning.reclaim.memory_watermark
        needs = [
            taking_back.need(self._regimes.get(one.name, Regime.NONE), one.name, one.left, one.known)
            for one in memory_shortages.scopes(self._left, state, watermark, now)
        ]
        self._regimes = {one.scope: one.regime for one in needs}
        return max(needs, key=lambda one: (one.regime is Regime.URGENT, one.missing))

    def _takes(self, need: Need, paths: Mapping[str, str], state: NodeState, now: float) -> tuple[Take, ...]:
        if need.regime is Regime.NONE or (need.regime is Regime.COLD and not self._takes_cache()):
            return ()
        ids = [k for k in paths if now >= self._resting.get(k, now)]
        if need.regime is Regime.COLD and len(ids) > LOOKS:
            self._turns += 1
            ids = round_robin(ids, LOOKS, self._turns)
        found = {k: self._files.held(paths[k], now) for k in ids}
        sources = {
            k: _source(held, lent.memory_bytes(state, k)) for k, held in found.items() if held is not None
        }
        return taking_back.takes(need, sources, self._files.swap_free())

    def _takes_cache(self) -> bool:
        return self._ways is not None and self._ways.only_cache

    def _collect(self, state: NodeState, now: float) -> None:
        """Count the bytes that were taken, and let pods rest that had no more to give."""
        self._resting = {k: until for k, until in self._resting.items() if until > now and k in state.pods}
        for result in self._worker.results():
            self._taken += result.amount
            self._report.memory_taken(result.order.regime.value, result.amount)
            if result.is_empty:
                self._resting[result.order.take.pod_id] = now + RESTS_S
            if result.failure is not None:
                self._report.refused_by_kernel(result.failure, result.order.take.pod_id, state)

    def _tell(self, need: Need, takes: Iterable[Take], state: NodeState, now: float) -> None:
        """Record when a regime begins and ends, and once a minute while it lasts."""
        begun, former = self._told.begun, self._told.open
        decisions = []
        if former is not Regime.NONE and need.regime is Regime.NONE:
            decisions.append(words.of_memory_enough(need, former, self._taken))
            former = Regime.NONE
        elif takes and now - begun.get(need.regime, float("-inf")) >= TOLD_AGAIN_S:
            names = {k: place.pod.full_name for k, place in state.pods.items()}
            decisions.append(words.of_memory_low(need, tuple(takes), names, self._taken))
            begun, former = {**begun, need.regime: now}, need.regime
        if decisions:
            self._taken = 0
            self._report.decided(decisions, state, state)
        self._told = Told(begun, former)


def _source(found: HeldMemory, lent_bytes: int) -> Source:
    held = found.memory
    return Source(held.usage, held.cache, found.kept, found.stall, lent_bytes)
