"""placing/tiers.py and pools.py: each container has its pool, and a pool's earlier CPUs are recalled."""

from dataclasses import replace

import pytest

from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.state import Assignment
from nri_coloc.placing import claim, lifecycle, pools, tiers
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, SYSTEM, Node, asking, container, mask

PLAN = (PoolTuning("gold", maximum=4), PoolTuning("batch"))
RECORD = '{"v":1,"class":"shared","pool":"gold"}'


def node() -> Node:
    return Node(tuning=Tuning(pools=PLAN))


@pytest.mark.parametrize(
    ("wish", "pool"),
    [
        (SHARED, "share"),
        (SYSTEM, "system"),
        (RECLAIMED, "reclaim"),
        (DEDICATED, "share"),
        (replace(SHARED, pool="gold"), "gold"),
        (replace(SYSTEM, pool="mon"), "mon"),
        (replace(RECLAIMED, pool="gold"), "reclaim"),
        (replace(DEDICATED, pool="gold"), "share"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_only_shared_and_system_containers_name_a_pool(wish, pool):
    assert tiers.pool_of(wish) == pool


class TestWithMember:
    def test_the_pool_is_as_large_as_with_it(self):
        state = lifecycle.with_member(node().state, container("a", milli=3000), replace(SHARED, pool="gold"))
        assert state.pools.tiers["gold"].bit_count() == 3

    @pytest.mark.parametrize(
        "wish",
        [
            SHARED,
            replace(SHARED, pool="gold", handler="ignore"),
            replace(SHARED, pool="gold", preserve=frozenset({"cpu"})),
        ],
        ids=["in share", "ignored", "preserved"],
    )
    def test_who_is_in_none_of_the_operators_pools_changes_nothing(self, wish):
        before = node().state
        assert lifecycle.with_member(before, container("a", milli=3000), wish) is before

    def test_without_pools_there_is_nothing_to_do(self):
        before = Node().state
        assert lifecycle.with_member(before, container("a"), replace(SHARED, pool="gold")) is before


class TestHoused:
    @pytest.mark.parametrize("pool", ["share", "gold", "batch"])
    def test_a_pool_that_exists_is_kept(self, pool):
        member = Assignment(container("a"), SHARED.qos, pool)
        assert tiers.housed(node().state.pools, member) is member

    @pytest.mark.parametrize(
        ("wish", "pool"), [(SHARED, "share"), (SYSTEM, "system")], ids=["shared", "system"]
    )
    def test_one_that_went_is_the_classes_own(self, wish, pool):
        member = Assignment(container("a"), wish.qos, "silver")
        assert tiers.housed(node().state.pools, member).pool == pool


class TestRecalled:
    def recalled(self, *cpus: str, record: str = RECORD, pool: str = "gold") -> str | int:
        listed = [
            (container(f"c{n}", record=record, resources=asking(500, cpus=text)), replace(SHARED, pool=pool))
            for n, text in enumerate(cpus)
        ]
        return pools.recalled(node().state, listed, claim.in_pools(listed)).tiers[pool]

    def test_it_is_what_most_specs_say(self):
        assert self.recalled("2-3", "4-5", "4-5") == mask("4-5")

    def test_of_two_as_frequent_ones_it_is_always_the_same(self):
        assert self.recalled("2-3", "4-5") == self.recalled("4-5", "2-3") == mask("4-5")

    def test_a_container_that_we_did_not_place_tells_nothing(self):
        assert self.recalled("4-5", record="") == 0

    def test_a_pool_that_is_a_name_only_has_nothing_to_recall(self):
        assert self.recalled("4-5", pool="batch") == mask("0-7")

    def test_what_we_remember_ourselves_counts(self):
        known = node()
        known.create("a", 2000, replace(SHARED, pool="gold"))
        listed = [
            (container("b", record=RECORD, resources=asking(500, cpus="6-7")), replace(SHARED, pool="gold"))
        ]
        assert pools.recalled(known.state, listed, claim.in_pools(listed)) is known.state.pools
