"""Pools that are sized by load are read, sized, moved and recorded. (Sizes over time: tests/scenario.)"""

from dataclasses import replace
from typing import Any, cast

import pytest

from nri_coloc.core.decisions import PoolsSized
from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.lending import partition_loop
from nri_coloc.lending.partition_loop import Partition
from tests.unit.parts import a_node, a_report, create, start_pod
from tests.unit.placing import kit

PLAN = (PoolTuning("gold", priority=10, band=(0.3, 0.5)), PoolTuning("share", band=(0.4, 0.6)))


class Moved:
    """Fake relocation that keeps its outcomes and counts its guards."""

    def __init__(self) -> None:
        self.host_groups: tuple[str, ...] = ()
        self.outcomes: list[Any] = []
        self.guarded = 0

    def carry_out(self, outcome: Any, _before: Any) -> None:
        self.outcomes.append(outcome)

    def guard(self, _state: Any, _now: float) -> None:
        self.guarded += 1


class Rig:
    """Eight CPUs in cores of two; gold requests 4 CPUs, share 2, and a reclaimed pod runs."""

    def __init__(self, *, observe: bool = False) -> None:
        reclaim = ReclaimTuning(partition=True, partition_dwell_s=1.0)
        self.node = a_node(Tuning(pools=PLAN, reclaim=reclaim, observe=observe))
        self.report, self.heard = a_report(self.node)
        self.moved = Moved()
        self.partition = Partition(self.node, cast("Any", self.moved), self.report)
        self.now = 100.0
        self.usage = {"gold": 0.0, "share": 0.0}

    def peopled(self) -> "Rig":
        create(self.node, "a", replace(kit.SHARED, pool="gold"), 4000, on="one")
        create(self.node, "b", milli=2000, on="two")
        start_pod(self.node, "batch")
        self.heard.records.clear()
        return self

    def run(self, seconds: float, **cpus: float) -> dict[str, int]:
        """Let ticks of 20 ms pass under these loads, CPUs; return the CPUs of each pool."""
        for _ in range(round(seconds / 0.02)):
            self.now += 0.02
            for tier, used in cpus.items():
                self.usage[tier] += used * 0.02
            samples = tuple(
                Sample(n, Role.TIER, self.now, round(used * 1e6), tier=tier)
                for n, (tier, used) in enumerate(self.usage.items())
            )
            state = self.node.state
            readings = FastReadings(
                at=self.now,
                samples=samples,
                late_s=0.0,
                lendable=state.pools.allocatable.bit_count(),
                threads_per_core=2,
                cpus=8,
            )
            self.partition.tick(readings, state)
        return dict(self.node.state.pools.counts)


def test_before_anybody_is_known_no_pool_is_sized():
    rig = Rig()
    assert rig.run(0.1) == {}
    assert rig.moved.outcomes == []


def test_members_outside_kubernetes_are_somebody():
    rig = Rig()
    rig.moved.host_groups = ("yarn",)
    assert rig.run(0.1)["reclaim"] > 0


def test_sizes_go_through_the_policy_and_move_its_pools():
    rig = Rig().peopled()
    assert rig.run(0.1, gold=1.0, share=0.8) == {"gold": 4, "share": 2, "reclaim": 2}
    assert rig.run(3.0, gold=1.0, share=0.8) == {"gold": 3, "share": 2, "reclaim": 3}
    assert len(rig.moved.outcomes) == 2
    assert set(rig.moved.outcomes[0].moves.containers) == {"a", "b"}


def test_each_change_is_told_with_its_figures():
    rig = Rig().peopled()
    rig.run(3.0, gold=0.4, share=0.8)
    rig.heard.records.clear()
    rig.run(0.1, gold=1.6, share=0.8)
    told = {record.pool: record for record in rig.heard.records}
    assert set(rig.heard.said()) == {("reclaim.suppress", "tier_load"), ("pool.resize", "tier_load")}
    assert "gold uses 1." in told["gold"].because
    assert "above 50%: 4 CPUs" in told["gold"].because
    assert told["reclaim"].before["cpus"] != told["reclaim"].after["cpus"]
    assert b'pool_load_cpus{pool="gold"} 1.' in rig.report.metrics.render()


def test_a_quiet_tick_guards_the_box_and_says_nothing():
    rig = Rig().peopled()
    rig.run(0.1, gold=1.6, share=0.8)
    rig.heard.records.clear()
    rig.moved.guarded = 0
    rig.run(0.1, gold=1.6, share=0.8)
    assert (rig.moved.guarded, rig.heard.records) == (5, [])


def test_a_member_that_comes_is_asked_for():
    rig = Rig().peopled()
    rig.run(0.1, gold=1.6, share=0.8)
    create(rig.node, "c", milli=1000, on="two")
    # share may have 3 CPUs but keeps 2: only its load makes it grow
    assert rig.run(0.1, gold=1.6, share=1.9)["share"] == 2
    rig.node.decide(PoolsSized({"gold": 2, "share": 2, "reclaim": 4}, ""))
    assert rig.run(2.0, gold=0.3, share=1.9)["share"] == 3


def test_an_observer_says_what_it_would_do_once_and_does_nothing():
    rig = Rig(observe=True).peopled()
    assert rig.run(0.5, gold=1.6, share=0.8) == {}
    assert rig.moved.outcomes == []
    told = {record.pool: (record.before["cpus"], record.after["cpus"]) for record in rig.heard.records}
    assert told == {"share": ("0-7", "4-5"), "reclaim": ("0-7", "6-7"), "gold": ("0-7", "0-3")}
    rig.heard.records.clear()
    rig.run(3.0, gold=0.4, share=0.8)
    told = {record.pool: (record.before["cpus"], record.after["cpus"]) for record in rig.heard.records}
    assert told["gold"][0] != "0-7"
    assert rig.heard.said()[0] == ("pool.resize", "tier_load")


def test_what_was_known_is_forgotten_in_another_mode():
    rig = Rig().peopled()
    rig.run(0.1, gold=1.6, share=0.8)
    rig.partition.forget()
    rig.partition.forget()
    assert b"pool_load_cpus{" not in rig.report.metrics.render()
    assert rig.run(0.02, gold=1.6, share=0.8) == {"gold": 4, "share": 2, "reclaim": 2}


@pytest.mark.parametrize(("groups", "files"), [(0, 8), (8, 8), (33, 9), (110, 28)])
def test_a_round_takes_four_ticks_however_many_there_are(groups, files):
    assert partition_loop.budget(groups, 8) == files


def test_pools_that_swing_are_one_record_a_minute():
    rig = Rig().peopled()
    rig.run(3.0, gold=0.4, share=0.8)
    rig.heard.records.clear()
    for _ in range(10):
        rig.run(0.1, gold=1.6, share=0.8)
        rig.run(4.0, gold=0.4, share=0.8)
    boxes = [record for record in rig.heard.records if record.pool == "reclaim"]
    assert 1 <= len(boxes) <= 4
    rig.partition.say_rest()
    assert rig.heard.records[-1].pool in ("reclaim", "gold", "share")
