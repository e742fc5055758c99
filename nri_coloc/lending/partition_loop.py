"""Size all pools by their load in the fast loop (`reclaim.sharing: partition`).

    sampler ─ usage of each tier's members ─▶ lending.partition ─ sizes ─▶ PoolsSized ─▶ policy (under the mutex)
    state ── members and their requests ──────────────▲                                    │
                                                        audit ◀──── decisions and moves ───┤
        reclaim cgroups (at once), other cgroups (actuator), specs (pusher) ◀──────────────┘

In `observe` the sizes are decided and recorded, and nothing changes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.core.decisions import Decision, Figure, PoolsSized
from nri_coloc.core.lending import Change
from nri_coloc.core.readings import FastReadings
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.report import Cadence, Report
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.lending import bands, partition
from nri_coloc.lending.bands import Tier
from nri_coloc.lending.partition import PartitionMemory, PartitionTick
from nri_coloc.lending.relocation import Relocation
from nri_coloc.placing import change, tiers
from nri_coloc.placing.node import Node

ROUND_TICKS: Final = 4
"""Ticks in which every group of cgroups is read once: a burst is found within 80 ms at a tick of 20 ms."""

_NOTHING: Final = PartitionMemory()


class Partition:
    """Sizes pools by load; belongs to the loop's thread."""

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
        """Forget all measurements: pools are not sized by load now."""
        if self._memory is not _NOTHING:
            self._memory, self._would = _NOTHING, {}
            self._report.metrics.loaded({})
            self.say_rest()

    def tick(self, readings: FastReadings, state: NodeState) -> PartitionTick:
        """Size all pools by the readings, and move the containers whose CPUs changed; return the tick."""
        found = self._tiers_of(state)
        tuning = self._node.tuning.reclaim
        result = partition.tick(self._memory, readings, found, tuning, readings.at)
        self._memory = result.memory
        # before the runtime's first list the sizes would be an empty node's
        if state.pods or self._relocation.host_groups:
            inputs = _inputs(result, readings, self._tiers_of(state))
            decisions = self._act(PoolsSized(result.sizes, result.because, inputs=inputs), state)
            self._tell(decisions, readings.at)
        self._report.metrics.loaded(result.loads)
        return result

    def _tiers_of(self, state: NodeState) -> tuple[Tier, ...]:
        """Return the tiers. They are made again when a container started or ended, or the settings changed."""
        containers, plan, known = self._tiers
        if containers is state.containers and plan is state.pools.plan:
            return known
        found = bands.tiers(state.pools.plan, tiers.demand(state), state.topology.threads_per_core)
        self._tiers = (state.containers, state.pools.plan, found)
        return found

    def _act(self, event: PoolsSized, state: NodeState) -> tuple[Decision, ...]:
        """Apply sizes; return the decisions, none if the sizes are in force already."""
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
        """Return the decisions that would follow the last ones, if they had been applied."""
        if event.counts == self._would:
            return ()
        former = change.sized(state, PoolsSized(self._would, "")).state
        self._would = event.counts
        return change.sized(former, event).decisions

    def _tell(self, decisions: tuple[Decision, ...], at: float) -> None:
        """Fold decisions into one record for each pool. The direction of `reclaim` shows whether the pools swing."""
        direction = next((_direction(one) for one in decisions if one.pool == RECLAIM), Change.KEEP)
        is_allowed, self._cadence = self._cadence.allows(direction, at), self._cadence.moved(direction, at)
        for one in decisions:
            known = self._untold.get(one.pool)
            self._untold[one.pool] = one if known is None else change.folded(known, one)
        if self._untold and is_allowed:
            self._cadence = self._cadence._replace(written_at=at)
            self.say_rest()

    def say_rest(self) -> None:
        """Write the folded records."""
        untold, self._untold = self._untold, {}
        if untold:
            self._report.decided(untold.values(), self._node.state, self._node.state)


def _inputs(tick: PartitionTick, readings: FastReadings, tiers: Iterable[Tier]) -> dict[str, Figure]:
    """Return by name the figures that size the pools: all CPUs, use and request of each tier (CPUs), and the sizes."""
    found: dict[str, Figure] = {"cpus": readings.lendable}
    for tier in tiers:
        used = tick.loads.get(tier.name)
        found[f"used_cpus.{tier.name}"] = None if used is None else round(used, 3)
        found[f"asked_cpus.{tier.name}"] = tier.asked
    return found | {f"size.{name}": size for name, size in tick.sizes.items()}


def _direction(decision: Decision) -> Change:
    return Change.SUPPRESS if decision.event is AuditEvent.RECLAIM_SUPPRESS else Change.GROW


def budget(groups: int, least: int) -> int:
    """Return the number of files that a tick may read so that a round ends in time."""
    return max(least, -(-groups // ROUND_TICKS))
