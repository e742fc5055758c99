"""The fast loop's turn where pools are sized by load (`reclaim.sharing: partition`): demand and readings in, sizes out.

    sampler ─ usage of each tier's members ─▶ reclaim.partition ─ sizes ─▶ PoolsSized ─▶ policy (under the mutex)
    state ── what they ask for, who there is ─────────▲                                    │
                                                        audit ◀──── decisions and moves ───┤
                        box's cgroups (at once), others' (actuator), specs (pusher) ◀──────┘

In `observe` the sizes are decided and told as they would be, and nothing changes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.core.decisions import Decision, Figure
from nri_coloc.core.events import PoolsSized
from nri_coloc.core.lending import Change
from nri_coloc.core.readings import FastReadings
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.relocation import Relocation
from nri_coloc.daemon.report import Report
from nri_coloc.lending import bands, partition
from nri_coloc.lending.bands import Tier
from nri_coloc.lending.folding import Cadence
from nri_coloc.lending.partition import PartitionMemory, PartitionTick
from nri_coloc.placing import sizing, tiers

ROUND_TICKS: Final = 4
"""In how many ticks every group of cgroups is read once: a burst is seen within 80 ms at a tick of 20 ms."""

_NOTHING: Final = PartitionMemory()


class Partition:
    """Belongs to the loop's thread."""

    def __init__(self, node: Node, relocation: Relocation, report: Report) -> None:
        self._node = node
        self._relocation = relocation
        self._report = report
        self._memory = _NOTHING
        self._tiers: tuple[object, object, tuple[Tier, ...]] = (None, None, ())
        self._would: Mapping[str, int] = {}
        self._cadence = Cadence()
        self._untold: dict[str, Decision] = {}

    def forget(self) -> None:
        """Begin anew: pools are not sized by load now."""
        if self._memory is not _NOTHING:
            self._memory, self._would = _NOTHING, {}
            self._report.metrics.loaded({})
            self.say_rest()

    def tick(self, readings: FastReadings, state: NodeState) -> PartitionTick:
        """Size all pools by what was read, and move who has to."""
        found = self._tiers_of(state)
        tuning = self._node.tuning.reclaim
        result = partition.tick(self._memory, readings, found, tuning, readings.at)
        self._memory = result.memory
        # before the runtime's first list, sizes would be those of an empty node
        if state.pods or self._relocation.host_groups:
            inputs = _inputs(result, readings, self._tiers_of(state))
            decisions = self._act(PoolsSized(result.sizes, result.because, inputs=inputs), state)
            self._tell(decisions, readings.at)
        self._report.metrics.loaded(result.loads)
        return result

    def _tiers_of(self, state: NodeState) -> tuple[Tier, ...]:
        """Return the tiers, made anew when somebody came or went, or with other settings."""
        containers, plan, known = self._tiers
        if containers is state.containers and plan is state.pools.plan:
            return known
        found = bands.tiers(state.pools.plan, tiers.demand(state), state.topology.threads_per_core)
        self._tiers = (state.containers, state.pools.plan, found)
        return found

    def _act(self, event: PoolsSized, state: NodeState) -> tuple[Decision, ...]:
        """Carry sizes out; return what was decided, nothing while they hold already."""
        if self._node.tuning.observe:
            return self._observed(event, state)
        if event.counts == state.pools.counts:
            self._relocation.guard(state, self._memory.at)
            return ()
        before = self._node.state
        outcome = self._node.decide(event)
        self._relocation.carry_out(outcome, before)
        return outcome.decisions

    def _observed(self, event: PoolsSized, state: NodeState) -> tuple[Decision, ...]:
        """Return what would be decided, after what would have been decided before."""
        if event.counts == self._would:
            return ()
        former = sizing.sized(state, PoolsSized(self._would, "")).state
        self._would = event.counts
        return sizing.sized(former, event).decisions

    def _tell(self, decisions: tuple[Decision, ...], at: float) -> None:
        """Fold decisions into one record for each pool; `reclaim` says whether the pools swing."""
        change = next((_direction(one) for one in decisions if one.pool == RECLAIM), Change.KEEP)
        is_allowed, self._cadence = self._cadence.allows(change, at), self._cadence.moved(change, at)
        for one in decisions:
            known = self._untold.get(one.pool)
            self._untold[one.pool] = one if known is None else sizing.folded(known, one)
        if self._untold and is_allowed:
            self._cadence = self._cadence._replace(written_at=at)
            self.say_rest()

    def say_rest(self) -> None:
        """Write what is folded."""
        untold, self._untold = self._untold, {}
        if untold:
            self._report.decided(untold.values(), self._node.state, self._node.state)


def _inputs(tick: PartitionTick, readings: FastReadings, tiers: Iterable[Tier]) -> dict[str, Figure]:
    """Return by name the figures that size the pools: the CPUs of all, each tier's use and request, and the sizes."""
    found: dict[str, Figure] = {"cpus": readings.lendable}
    for tier in tiers:
        used = tick.loads.get(tier.name)
        found[f"used_cpus.{tier.name}"] = None if used is None else round(used, 3)
        found[f"asked_cpus.{tier.name}"] = tier.asked
    return found | {f"size.{name}": size for name, size in tick.sizes.items()}


def _direction(decision: Decision) -> Change:
    return Change.SUPPRESS if decision.event is AuditEvent.RECLAIM_SUPPRESS else Change.GROW


def budget(groups: int, least: int) -> int:
    """Return how many files a tick may read so that a round is over in time."""
    return max(least, -(-groups // ROUND_TICKS))
