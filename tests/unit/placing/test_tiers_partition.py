"""placing/tiers.py: the loop gets the requests of each pool, and gives each pool its size."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import Outcome, PoolsSized
from nri_coloc.core.settings import PoolTuning, ReclaimTuning
from nri_coloc.core.state import Asked
from nri_coloc.placing import tiers
from tests.unit.placing.kit import RECLAIMED, SHARED, SYSTEM, Node, moved, said
from tests.unit.placing.pools_kit import GOLD, having, join


def test_the_loop_is_told_what_is_asked_of_share_too():
    node = having(GOLD)
    join(node, "a", 1500)
    node.create("b", 500, SHARED, on="shop")
    node.create("c", 700, SHARED, on="shop")
    node.create("d", 700, SYSTEM, on="shop")
    # shares of 512 and 716 are 500 and, rounded up, 700 thousandths
    assert tiers.demand(node.state) == {"gold": Asked(1500, 1), "share": Asked(1200, 2)}


class TestPartition:
    def node(self) -> Node:
        node = having(PoolTuning("gold", band=(0.3, 0.5)), reclaim=ReclaimTuning(partition=True))
        join(node, "a", 4000)
        node.create("online", 2000, SHARED, on="shop")
        node.start_pod("jobs")
        node.create("batch", wish=RECLAIMED, on="jobs")
        return node

    def told(self, node: Node, **counts: int) -> Outcome:
        return node.happen(PoolsSized(counts, "gold uses 1.2 of 4 CPUs"))

    def test_every_pool_has_cpus_of_its_own(self):
        node = self.node()
        self.told(node, gold=2, share=2, reclaim=4)
        assert [node.pool(k) for k in ("gold", "share", "reclaim")] == ["0-1", "2-3", "4-7"]

    def test_it_says_so_of_each(self):
        node = self.node()
        outcome = self.told(node, gold=2, share=2, reclaim=4)
        assert said(outcome) == [
            ("pool.resize", "tier_load"),
            ("pool.resize", "tier_load"),
            ("pool.resize", "tier_load"),
        ]
        assert moved(outcome) == ({"jobs"}, {"a", "online"})

    def test_a_reclaim_pool_with_a_size_names_its_direction(self):
        node = self.node()
        self.told(node, gold=2, share=2, reclaim=4)
        outcome = self.told(node, gold=4, share=2, reclaim=2)
        assert ("reclaim.suppress", "tier_load") in said(outcome)

    def test_what_nobody_was_told_is_the_boxes(self):
        node = self.node()
        self.told(node, share=2)
        assert (node.pool("share"), node.pool("gold"), node.pool("reclaim")) == ("0-1", "0-1", "2-7")

    def test_a_dedicated_container_takes_what_is_lent(self):
        node = self.node()
        self.told(node, gold=2, share=2, reclaim=4)
        node.create("main", 4000, on="main")
        assert (node.owners(), node.pool("gold")) == ({"main": "4-7"}, "0-1")
        assert node.pool("share") == node.pool("reclaim") == "2-3"
        node.stop("main")
        assert (node.pool("share"), node.pool("reclaim")) == ("2-3", "4-7")

    def test_one_core_for_both_is_shared(self):
        node = self.node()
        self.told(node, gold=6, share=1, reclaim=1)
        assert node.pool("share") == node.pool("reclaim") == "6-7"

    @pytest.mark.parametrize(
        ("bounds", "box"), [({"minimum": 6}, 6), ({"maximum": 2}, 2)], ids=["least", "most"]
    )
    def test_the_box_keeps_to_its_bounds(self, bounds, box):
        node = having(PoolTuning("reclaim", **bounds), reclaim=ReclaimTuning(partition=True))
        self.told(node, share=4)
        assert node.state.pools.reclaim.bit_count() == box
        self.told(node, reclaim=4)
        assert (node.state.pools.reclaim.bit_count(), node.pool("share")) == (box, "0-7")

    @pytest.mark.parametrize(
        ("minimum", "box"), [(0, "2-3,6-7"), (6, "6-7")], ids=["its-count", "its-minimum"]
    )
    def test_share_leaves_the_rest_to_the_reclaim_pool(self, minimum, box):
        node = having(PoolTuning("share", minimum=minimum), reclaim=ReclaimTuning(partition=True))
        self.told(node, share=4)
        assert node.pool("reclaim") == box

    def test_overlap_again_keeps_the_boxes_count_only(self):
        node = self.node()
        self.told(node, gold=2, share=2, reclaim=4)
        node.reconfigure(replace(node.tuning, reclaim=ReclaimTuning()))
        assert (node.pool("gold"), node.pool("share"), node.state.pools.counts) == (
            "0-7",
            "0-7",
            {"reclaim": 4},
        )

    def test_a_first_member_of_an_empty_pool_gets_a_cpu(self):
        node = having(PoolTuning("gold", band=(0.3, 0.5)), reclaim=ReclaimTuning(partition=True))
        self.told(node, gold=0, share=4, reclaim=4)
        outcome = join(node, "a", 1000)
        assert node.state.pools.tiers["gold"].bit_count() == 1
        assert outcome.decisions[0].orders.cpus == node.pool("gold")
