"""Invariants of pools sized by load (DESIGN 3 and 6), for all containers that come and go and all use.

Containers of two tiers, of `share` and of the reclaim pool come and go, and want any amount. Dedicated containers take
CPUs, ticks come late, counters cannot be read. After each tick the sizes go to the policy, and sizes and sets are
checked.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from nri_coloc.core.settings import PoolTuning, ReclaimTuning
from nri_coloc.lending.bands import Tier
from nri_coloc.lending.partition import PartitionTick
from nri_coloc.lending.pool_size import step_milli
from tests.rig import examples
from tests.unit.lending.partition_model import Machine
from tests.unit.placing.kit import DEDICATED

DWELL_S = 1.0
TUNING = ReclaimTuning(partition=True, partition_dwell_s=DWELL_S)

PLANS = st.sampled_from(
    (
        (),
        (PoolTuning("share", band=(0.4, 0.6)),),
        (PoolTuning("gold", priority=10, band=(0.3, 0.5)), PoolTuning("share", minimum=2, band=(0.4, 0.6))),
        (
            PoolTuning("gold", minimum=2, maximum=6, priority=10, band=(0.3, 0.5)),
            PoolTuning("silver", priority=5, band=(0.5, 0.8)),
            PoolTuning("share", band=(0.4, 0.6)),
            PoolTuning("reclaim", minimum=2),
        ),
        (
            PoolTuning("gold", group_by="pod", priority=10, band=(0.3, 0.5)),
            PoolTuning("silver", minimum=1, maximum=3),
            PoolTuning("share", priority=20, band=(0.4, 0.6)),
            PoolTuning("reclaim", maximum=4),
        ),
    )
)
MACHINES = st.sampled_from(("2cpu", "8cpu", "4node", "smt-off", "four-threads", "laptop-no-numa", "isolated"))
POOLS = st.sampled_from(("share", "gold", "silver"))
NAMES = st.sampled_from(("a", "b", "c", "d"))
CPUS = st.sampled_from((0.0, 0.1, 0.7, 2.0, 5.5, 40.0))


class PartitionMachine(RuleBasedStateMachine):
    @initialize(plan=PLANS, name=MACHINES)
    def begin(self, plan, name):
        self.machine = Machine(plan, name, TUNING)
        self.grown: dict[str, float] = {}

    # ---- events ----

    @rule(name=NAMES, milli=st.sampled_from((0, 300, 1000, 4000, 9000)), pool=POOLS)
    def come(self, name, milli, pool):
        if name not in self.machine.node.state.containers:
            self.machine.member(name, milli, pool)

    @rule(name=NAMES)
    def leave(self, name):
        self.machine.node.stop(name, removed=True)

    @rule()
    def lend(self):
        self.machine.batch()

    @rule(milli=st.sampled_from((1000, 3000)))
    def own(self, milli):
        if "main" not in self.machine.node.state.containers:
            self.machine.node.create("main", milli, DEDICATED, on="main")

    @rule()
    def disown(self):
        self.machine.node.stop("main", removed=True)

    @rule(pool=POOLS, cpus=CPUS)
    def use(self, pool, cpus):
        tiers = {self.machine.tier_of(k) for k in self.machine.node.state.containers}
        self.machine.wants |= {tier: cpus for tier in tiers if tier.partition("/")[0] == pool}

    @rule(silent=st.sets(POOLS, max_size=1))
    def fall_silent(self, silent):
        self.machine.silent = silent

    @rule(late_s=st.sampled_from((0.0, 0.0, 0.004, 0.2, 3.0)), ticks=st.sampled_from((1, 5, 30)))
    def pass_by(self, late_s, ticks):
        self.machine.late_s = late_s
        for _ in range(ticks):
            self.tick()

    @rule(cpus=st.sampled_from((0.0, 0.1, 1.4)))
    def calm_down(self, cpus):
        """Run long enough for a dwell and all its steps."""
        self.machine.silent, self.machine.late_s = set(), 0.0
        self.machine.wants = dict.fromkeys(self.machine.wants, cpus)
        end = self.machine.now + 3 * DWELL_S
        while self.machine.now < end:
            self.tick()

    # ---- invariants ----

    def tick(self) -> None:
        machine = self.machine
        before, asked = machine.memory, machine.tiers()
        tick = machine.tick()
        tiers = {tier.name: tier for tier in asked}
        cpus = machine.node.state.pools.allocatable.bit_count()
        self.all_cpus_are_somebodys(tick, tiers, cpus)
        self.nobody_has_more_than_is_asked_for(tick, tiers)
        self.each_has_its_least_where_there_is_enough(tick, tiers, cpus)
        self.the_box_grows_slowly_and_in_no_doubt(before, tick, tiers)
        self.nobody_gives_back_soon_after_it_grew(before, tick, tiers)
        self.sets_are_apart_and_as_large_as_told(tick)
        self.the_same_again_changes_nothing(tick)

    def all_cpus_are_somebodys(self, tick: PartitionTick, tiers: dict[str, Tier], cpus: int) -> None:
        assert sum(tick.sizes.values()) == cpus
        assert tick.sizes.keys() == tiers.keys()
        assert min(tick.sizes.values()) >= 0

    def nobody_has_more_than_is_asked_for(self, tick: PartitionTick, tiers: dict[str, Tier]) -> None:
        """The exception is the last online tier, when the reclaim pool has its maximum."""
        full = tiers["reclaim"].maximum and tick.sizes["reclaim"] >= tiers["reclaim"].maximum
        online = sorted((t for t in tiers.values() if t.name != "reclaim"), key=lambda t: -t.priority)
        for tier in online[: -1 if full else None]:
            assert tick.sizes[tier.name] <= tier.most

    def each_has_its_least_where_there_is_enough(
        self, tick: PartitionTick, tiers: dict[str, Tier], cpus: int
    ) -> None:
        if sum(max(tier.minimum, 1) for tier in tiers.values()) <= cpus:
            assert all(tick.sizes[t.name] >= max(t.minimum, min(1, t.asked)) for t in tiers.values())

    def the_box_grows_slowly_and_in_no_doubt(
        self, before, tick: PartitionTick, tiers: dict[str, Tier]
    ) -> None:
        """The limit of a step holds apart from CPUs that other tiers no longer ask for, and CPUs that no tier had."""
        threads = self.machine.node.state.topology.threads_per_core
        online = [t for t in tiers.values() if t.name != "reclaim"]
        gave = sum(
            max(min(before.bands.sizes.get(t.name, 0), t.most) - tick.sizes[t.name], 0) for t in online
        )
        took = sum(max(tick.sizes[t.name] - before.bands.sizes.get(t.name, 0), 0) for t in online)
        step = max(step_milli(sum(tick.sizes.values()), TUNING) // 1000, threads)
        grown = tick.sizes["reclaim"] - before.bands.sizes.get("reclaim", tick.sizes["reclaim"])
        if grown > 0:
            doubt = self.machine.late_s >= 2 * before.period_s
            assert gave - took <= (0 if doubt else step)

    def nobody_gives_back_soon_after_it_grew(
        self, before, tick: PartitionTick, tiers: dict[str, Tier]
    ) -> None:
        """A tier that still asks for its CPUs loses them within a dwell only to another tier that takes them."""
        now, sizes = self.machine.now, before.bands.sizes
        others_took = any(tick.sizes[n] > sizes.get(n, 0) for n in tiers if n != "reclaim")
        shrank = sum(tick.sizes.values()) < sum(sizes.values())
        for name, tier in tiers.items():
            had, has = sizes.get(name, 0), tick.sizes[name]
            if has > had:
                self.grown[name] = now
            if has < had and name != "reclaim" and not others_took and not shrank and tier.most >= had:
                least = tiers["reclaim"].minimum > sizes.get("reclaim", 0)
                rest = tiers["reclaim"].maximum
                assert least or rest or now - self.grown.get(name, -DWELL_S) >= DWELL_S

    def sets_are_apart_and_as_large_as_told(self, tick: PartitionTick) -> None:
        """Every CPU has one owner, and each set has its ordered size.

        Exceptions: whole cores of the reclaim pool, and the last CPU of `share`.
        """
        pools = self.machine.node.state.pools
        own = {
            name: cpus for name, cpus in pools.tiers.items() if not cpus & pools.share and name in tick.sizes
        }
        assert pools.share
        assert pools.reclaim
        assert pools.share & pools.reclaim in (0, pools.share)
        union = pools.share | pools.reclaim
        for cpus in own.values():
            assert not cpus & union
            union |= cpus
        assert union == pools.allocatable
        threads = self.machine.node.state.topology.threads_per_core
        if tick.sizes["share"] > 0 and pools.share != pools.reclaim:
            assert pools.reclaim.bit_count() <= max(tick.sizes["reclaim"], threads)
            assert {name: cpus.bit_count() for name, cpus in own.items()} == {k: tick.sizes[k] for k in own}

    def the_same_again_changes_nothing(self, tick: PartitionTick) -> None:
        outcome = self.machine.outcomes[-1]
        known = outcome.state.pools.counts
        assert known == tick.sizes
        assert replace(outcome.state, generation=0) == replace(self.machine.node.state, generation=0)


TestPartition = PartitionMachine.TestCase
TestPartition.settings = settings(max_examples=examples.times(0.6), stateful_step_count=25, deadline=None)
