"""A day on which tiers share sixteen CPUs by load: what the members ask for, the loads, the sizes and the sets.

The whole way of `partition` mode that is pure: demand, bands, event, placement.
"""

from dataclasses import replace

from nri_coloc.model.events import PoolsSized
from nri_coloc.model.tuning import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.policy import tiers
from nri_coloc.reclaim import bands
from tests.unit.policy.kit import RECLAIMED, SHARED, Node

PLAN = (
    PoolTuning("gold", minimum=2, priority=10, band=(0.3, 0.5)),
    PoolTuning("share", minimum=1, band=(0.4, 0.6)),
)


class Machine:
    """Sixteen CPUs on four nodes: gold asks for 12 of them, share for 6, and somebody takes whatever is lent."""

    def __init__(self) -> None:
        self.node = Node("4node", Tuning(pools=PLAN, reclaim=ReclaimTuning(partition=True, dwell_s=5.0)))
        for n in range(3):
            self.node.create(f"gold-{n}", 4000, replace(SHARED, pool="gold"), on=f"gold-{n}")
            self.node.create(f"shop-{n}", 2000, SHARED, on=f"shop-{n}")
        self.node.start_pod("jobs")
        self.node.create("batch", wish=RECLAIMED, on="jobs")
        self.memory = bands.Memory()
        self.now = 0.0

    def pass_by(self, seconds: int = 1, **loads: float) -> tuple[int, int, int]:
        """Let time pass under a load and return how many CPUs gold, share and reclaim have."""
        for _ in range(seconds):
            self.now += 1.0
            wanted = bands.tiers(PLAN, tiers.demand(self.node.state))
            pools = self.node.state.pools
            allocatable = (pools.system & ~pools.reserved).bit_count()
            tuning = self.node.tuning.reclaim
            self.memory, sizes, because = bands.sizes(
                wanted, loads, allocatable, self.memory, tuning, self.now
            )
            self.node.happen(PoolsSized(sizes, because))
        return self.sizes()

    def sizes(self) -> tuple[int, int, int]:
        pools = self.node.state.pools
        sets = pools.tiers["gold"], pools.share, pools.reclaim
        assert sum(sets) == sets[0] | sets[1] | sets[2]
        return sets[0].bit_count(), sets[1].bit_count(), sets[2].bit_count()


def test_cpus_flow_with_the_load_from_the_lowest_tier_up_and_back():
    day = Machine()
    assert day.pass_by(gold=1.6, share=1.0) == (4, 2, 10)
    # a burst takes from what is lent, at once
    assert day.pass_by(gold=4.0, share=1.0) == (10, 2, 4)
    # a lower tier grows in turn, but not at the higher one's cost
    assert day.pass_by(gold=4.0, share=3.0) == (10, 4, 2)
    # the burst is over: it keeps what it has for the dwell, then gives back
    assert day.pass_by(gold=1.6, share=2.0) == (10, 4, 2)
    assert day.pass_by(6, gold=1.6, share=2.0) == (4, 4, 8)


def test_dedicated_containers_take_what_is_lent_and_the_sizes_follow():
    day = Machine()
    day.pass_by(gold=1.6, share=1.0)
    day.node.create("main", 4000, on="main")
    assert day.sizes() == (4, 2, 6)
    assert day.pass_by(gold=1.6, share=1.0) == (4, 2, 6)
    day.node.stop("main")
    assert day.pass_by(gold=1.6, share=1.0) == (4, 2, 10)


def test_a_steady_load_moves_nobody():
    day = Machine()
    day.pass_by(gold=1.6, share=1.0)
    before = day.node.state
    day.pass_by(60, gold=1.6, share=1.0)
    assert day.node.state is before
