"""The fast loop's turn where pools are sized by load (`reclaim.sharing: partition`): demand and readings in, sizes out.

    sampler ─ usage of each tier's members ─▶ reclaim.partition ─ sizes ─▶ PoolsSized ─▶ policy (under the mutex)
    state ── what they ask for, who there is ─────────▲                                    │
                                                        audit ◀──── decisions and moves ───┤
                        box's cgroups (at once), others' (actuator), specs (pusher) ◀──────┘

In `observe` the sizes are decided and told as they would be, and nothing changes.
"""

from collections.abc import Mapping
from typing import Final

from nri_coloc.daemon.node import Node
from nri_coloc.daemon.relocation import Relocation
from nri_coloc.daemon.report import Report
from nri_coloc.model.events import PoolsSized
from nri_coloc.model.readings import FastReadings
from nri_coloc.model.state import NodeState
from nri_coloc.policy import sizing, tiers
from nri_coloc.reclaim import bands, partition
from nri_coloc.reclaim.bands import Tier
from nri_coloc.reclaim.partition import PartitionMemory, PartitionTick

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

    def forget(self) -> None:
        """Begin anew: pools are not sized by load now."""
        if self._memory is not _NOTHING:
            self._memory, self._would = _NOTHING, {}
            self._report.metrics.loaded({})

    def tick(self, readings: FastReadings, state: NodeState) -> PartitionTick:
        """Size all pools by what was read, and move who has to."""
        found = self._tiers_of(state)
        tuning = self._node.tuning.reclaim
        result = partition.tick(self._memory, readings, found, tuning, readings.at)
        self._memory = result.memory
        # before the runtime has told of anybody, sizes would be those of an empty node
        if state.pods or self._relocation.host_groups:
            self._act(PoolsSized(result.sizes, result.because), state)
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

    def _act(self, event: PoolsSized, state: NodeState) -> None:
        if self._node.tuning.observe:
            self._say_only(event, state)
        elif event.counts == state.pools.counts:
            self._relocation.guard(state, self._memory.at)
        else:
            before = self._node.state
            outcome = self._node.decide(event)
            self._relocation.carry_out(outcome, before)
            self._report.decided(outcome.decisions, outcome.state, before)

    def _say_only(self, event: PoolsSized, state: NodeState) -> None:
        """Audit once what would be done, after what would have been done before."""
        if event.counts == self._would:
            return
        former = sizing.sized(state, PoolsSized(self._would, "")).state
        self._would = event.counts
        self._report.decided(sizing.sized(former, event).decisions, state, state)


def budget(groups: int, least: int) -> int:
    """Return how many files a tick may read so that a round is over in time."""
    return max(least, -(-groups // ROUND_TICKS))
