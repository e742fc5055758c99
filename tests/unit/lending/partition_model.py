"""A small node whose pools are sized by load: the policy's state, containers that use CPU, counters, and the loop.

Time is fluid: the containers of a tier use the CPUs that they want, evenly, within their pool's size. Ticks come when
the loop asked for them. The policy gets the sizes as in the daemon.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nri_coloc.core.decisions import Outcome, PoolsSized
from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.lending import bands, partition
from nri_coloc.lending.bands import Tier
from nri_coloc.lending.partition import PartitionMemory, PartitionTick
from nri_coloc.placing import tiers
from tests.unit.placing.kit import RECLAIMED, SHARED, Node

TUNING = ReclaimTuning(partition=True)


class Machine:
    """A node in time.

    wants: CPUs that each tier wants.
    silent: tiers whose counters cannot be read.
    late_s: lateness of each tick, seconds.
    """

    def __init__(
        self, plan: Iterable[PoolTuning] = (), name: str = "4node", tuning: ReclaimTuning = TUNING
    ) -> None:
        self.node = Node(name, Tuning(pools=tuple(plan), reclaim=tuning))
        self.wants: dict[str, float] = {}
        self.silent: set[str] = set()
        self.late_s = 0.0
        self.now = 100.0
        self.used: dict[str, float] = {}
        self.keys: dict[str, int] = {}
        self.memory = PartitionMemory()
        self._known: tuple[object, ...] = (None, None, None)
        self._tiers: tuple[Tier, ...] = ()
        self._tier_of: dict[str, str] = {}
        self.ticks: list[PartitionTick] = []
        self.outcomes: list[Outcome] = []

    # ---- containers ----

    def member(self, name: str, milli: int, pool: str = "share") -> None:
        self.node.create(name, milli, replace(SHARED, pool="" if pool == "share" else pool), on=f"pod-{name}")

    def batch(self) -> None:
        self.node.start_pod("jobs")
        self.node.create("batch", wish=RECLAIMED, on="jobs")

    def tier_of(self, container: str) -> str:
        return bands.tier_of(
            self.node[container].pool, self.node.state.pools.plan, self.node.state.pools.asked
        )

    # ---- time ----

    def run(self, seconds: float, **wants: float) -> tuple[int, ...]:
        """Let `seconds` pass under these loads, CPUs; return `sizes`."""
        self.wants |= wants
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.tick()
        return self.sizes()

    def tick(self, **wants: float) -> PartitionTick:
        self.wants |= wants
        span = self.memory.period_s + self.late_s
        self.now += span
        samples = tuple(self._samples(span))
        pools, topology = self.node.state.pools, self.node.state.topology
        readings = FastReadings(
            at=self.now,
            samples=samples,
            late_s=self.late_s,
            lendable=pools.allocatable.bit_count(),
            threads_per_core=topology.threads_per_core,
            cpus=topology.online.bit_count(),
        )
        tick = partition.tick(self.memory, readings, self.tiers(), self.node.tuning.reclaim, self.now)
        self.memory = tick.memory
        self.ticks.append(tick)
        self.outcomes.append(self.node.happen(PoolsSized(tick.sizes, tick.because)))
        return tick

    def tiers(self) -> tuple[Tier, ...]:
        self._look_at_members()
        return self._tiers

    def _look_at_members(self) -> None:
        """Compute the tiers again if the members or the plan changed since the last tick."""
        state = self.node.state
        known = (state.containers, state.pools.plan, state.pools.asked)
        if all(a is b for a, b in zip(known, self._known, strict=True)):
            return
        self._known = known
        self._tiers = bands.tiers(state.pools.plan, tiers.demand(state), state.topology.threads_per_core)
        found = {name: self.tier_of(name) for name in state.containers}
        self._tier_of = {name: tier for name, tier in found.items() if tier}

    def _samples(self, span: float) -> Iterable[Sample]:
        self._look_at_members()
        peers = Counter(self._tier_of.values())
        for name, tier in self._tier_of.items():
            part = min(self.wants.get(tier, 0.0), self.cpus(tier)) / peers[tier]
            self.used[name] = self.used.get(name, 0.0) + part * span
            if tier not in self.silent:
                usage = round(self.used[name] * 1e6)
                yield Sample(
                    1 + self.keys.setdefault(name, len(self.keys)), Role.TIER, self.now, usage, tier=tier
                )

    # ---- results ----

    def cpus(self, pool: str) -> int:
        return self.node.state.pools.cpus(pool).bit_count()

    def sizes(self) -> tuple[int, ...]:
        """Return the number of CPUs of the operator's own pools, of share and of reclaim."""
        pools = self.node.state.pools
        own = [cpus for name, cpus in pools.tiers.items() if not cpus & pools.share]
        return tuple(cpus.bit_count() for cpus in (*own, pools.share, pools.reclaim))

    def said(self) -> list[tuple[str, Any]]:
        """Return (event, pool) of each changed pool, in order."""
        return [(d.event.value, d.pool) for outcome in self.outcomes for d in outcome.decisions]
