"""placing/tiers.py: the operator's pools have as many CPUs as their containers request, in good places."""

from dataclasses import replace

import pytest

from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.state import Asked
from nri_coloc.core.workload import Finding, FindingKind, QoSClass
from nri_coloc.placing import tiers
from tests.unit.placing.kit import SHARED, SYSTEM, Node, asking, figures, moved, reply, said
from tests.unit.placing.pools_kit import ETL, GOLD, IN_GOLD, having, join


class TestNames:
    def test_a_pool_without_sizes_is_a_name_over_share(self):
        node = having(PoolTuning("batch"))
        join(node, "a", 6000, "batch")
        assert (node["a"].pool, node.cpus("a"), node.pool("batch"), node.pool("share")) == (
            "batch",
            "0-7",
            "0-7",
            "0-7",
        )

    def test_its_members_follow_share(self):
        node = having(PoolTuning("batch"))
        join(node, "a", 500, "batch")
        outcome = node.create("main", 2000, on="main")
        assert moved(outcome) == (set(), {"a"})
        assert (node.cpus("a"), said(outcome)[1:]) == ("2-7", [("pool.resize", "cpus_taken")] * 2)

    def test_a_system_pool_is_a_name_over_systems_cpus(self):
        node = having(PoolTuning("agents", qos=QoSClass.SYSTEM), reserved_count=2)
        node.create("a", 100, replace(SYSTEM, pool="agents"))
        assert (node.cpus("a"), node.pool("share")) == ("0-7", "2-7")


class TestSize:
    def test_an_empty_pool_keeps_its_minimum(self):
        node = having(GOLD)
        assert (node.pool("gold"), node.pool("share"), node.pool("reclaim")) == ("0-1", "2-7", "2-7")

    def test_an_empty_pool_without_a_minimum_has_nothing(self):
        node = having(PoolTuning("gold", maximum=4))
        assert (node.pool("gold"), node.pool("share")) == ("", "0-7")

    def test_it_is_the_sum_of_the_requests_rounded_up(self):
        node = having(GOLD)
        join(node, "a", 1500)
        join(node, "b", 1100)
        assert (node.pool("gold"), node.pool("share")) == ("0-2", "3-7")

    def test_it_is_never_more_than_the_maximum(self):
        node = having(GOLD)
        join(node, "a", 9000)
        assert node.pool("gold") == "0-3"

    def test_a_member_without_request_needs_a_cpu(self):
        node = having(PoolTuning("gold", maximum=4))
        join(node, "a", 0)
        assert node.pool("gold") == "0"

    def test_it_shrinks_when_members_leave(self):
        node = having(PoolTuning("gold", maximum=4))
        join(node, "a", 2000)
        join(node, "b", 2000)
        node.stop("b")
        assert node.pool("gold") == "0-1"
        node.stop("a")
        assert (node.pool("gold"), node.pool("share")) == ("", "0-7")

    def test_who_keeps_hands_off_counts_for_nothing(self):
        node = having(GOLD)
        node.create("a", 4000, replace(IN_GOLD, preserve=frozenset({"cpu"})))
        assert node.pool("gold") == "0-1"

    def test_a_group_has_a_pool_while_it_has_members(self):
        node = having(ETL)
        join(node, "a", 1000, "etl/shop")
        join(node, "b", 2000, "etl/mail")
        assert (node.pool("etl/shop"), node.pool("etl/mail"), node.pool("share")) == ("0", "2-3", "1,4-7")
        node.stop("b")
        assert "etl/mail" not in node.state.pools.tiers

    @pytest.mark.parametrize(("told", "cpus"), [(3000, "0-2"), (8000, "0-3")])
    def test_an_annotation_only_lowers_a_request(self, told, cpus):
        node = having(GOLD)
        node.create("a", 4000, replace(IN_GOLD, cpu_milli=told))
        assert node.pool("gold") == cpus

    def test_a_limit_is_no_request(self):
        node = having(GOLD)
        node.create("a", wish=IN_GOLD, resources=asking(1, quota=600_000, period=100_000))
        assert node.pool("gold") == "0-1"


BY_AUTHORS = ("pod", "label:team", "annotation:team")


@pytest.mark.parametrize("group_by", BY_AUTHORS)
class TestGroupsThatAuthorsMake:
    def test_less_than_a_cpu_gives_no_cpus(self, group_by):
        node = having(PoolTuning("team", group_by=group_by, minimum=2))
        join(node, "a", 999, "team/a")
        assert (node.pool("team/a"), node.pool("share")) == ("0-7", "0-7")

    def test_a_resize_to_a_cpu_gives_a_cpu(self, group_by):
        node = having(PoolTuning("team", group_by=group_by))
        join(node, "a", 100, "team/a", on="pod-a")
        node.update("a", asking(1000), on="pod-a")
        assert (node.pool("team/a"), node.pool("share")) == ("0", "1-7")

    def test_a_minimum_counts_up_to_the_requests(self, group_by):
        node = having(PoolTuning("team", group_by=group_by, minimum=4))
        join(node, "a", 1500, "team/a")
        assert node.pool("team/a") == "0-1"

    def test_many_groups_leave_other_pools_their_cpus(self, group_by):
        node = having(PoolTuning("team", group_by=group_by), PoolTuning("gold", minimum=4))
        for name in "abcdefgh":
            join(node, name, 1, f"team/{name}", on=f"pod-{name}")
        join(node, "vip", 4000, on="pod-vip")
        assert (node.pool("gold"), node.pool("share")) == ("0-3", "4-7")

    def test_a_small_group_is_not_full(self, group_by):
        node = having(PoolTuning("team", group_by=group_by))
        outcome = join(node, "a", 100, "team/a")
        assert Reason.POOL_FULL not in [each.reason for each in outcome.decisions]


class TestBegunCPUs:
    def test_they_come_after_the_requests_of_equals(self):
        node = having(PoolTuning("team", group_by="namespace"))
        for name in "abc":
            join(node, name, 1001, f"team/{name}", on=f"pod-{name}")
        join(node, "web", 4000, "team/web", on="pod-web")
        sizes = {name: cpus.bit_count() for name, cpus in node.state.pools.tiers.items()}
        assert sizes == {"team/a": 1, "team/b": 1, "team/c": 1, "team/web": 4}

    def test_a_higher_priority_gets_its_own_first(self):
        node = having(PoolTuning("team", group_by="namespace"), PoolTuning("gold", maximum=4, priority=1))
        join(node, "web", 5000, "team/web", on="pod-web")
        join(node, "vip", 2001, on="pod-vip")
        sizes = {name: cpus.bit_count() for name, cpus in node.state.pools.tiers.items()}
        assert sizes == {"gold": 3, "team/web": 4}


def test_a_group_of_a_namespace_has_its_minimum():
    node = having(PoolTuning("team", group_by="namespace", minimum=2))
    join(node, "a", 1, "team/shop")
    assert node.pool("team/shop") == "0-1"


@pytest.mark.parametrize(("members", "cpus"), [(0, 0), (1, 1)], ids=["empty", "one-container"])
def test_a_count_of_none_leaves_a_pool_with_containers_one_cpu(members, cpus):
    asked = Asked(1000, 1) if members else None
    assert tiers.wanted(GOLD, asked, told=0) == cpus


class TestOverAsking:
    def test_share_keeps_one_cpu(self):
        node = having(PoolTuning("gold", minimum=1))
        join(node, "a", 64000)
        assert (node.pool("gold"), node.pool("share")) == ("0-6", "7")

    def test_share_keeps_its_minimum(self):
        node = having(PoolTuning("gold", minimum=1), PoolTuning("share", minimum=3))
        join(node, "a", 64000)
        assert (node.pool("gold"), node.pool("share")) == ("0-4", "5-7")

    def test_a_higher_priority_has_cpus_first(self):
        plan = PoolTuning("low", minimum=2), PoolTuning("high", minimum=2, priority=1)
        node = having(*plan)
        join(node, "a", 64000, "low")
        join(node, "b", 64000, "high")
        sizes = {k: cpus.bit_count() for k, cpus in node.state.pools.tiers.items()}
        assert sizes == {"low": 2, "high": 5}

    def test_the_same_members_have_the_same_sizes_whoever_came_first(self):
        sizes = []
        for order in ("ab", "ba"):
            node = having(PoolTuning("a", minimum=1), PoolTuning("b", minimum=1))
            for name in order:
                join(node, name, 6000, name)
            sizes.append({k: cpus.bit_count() for k, cpus in node.state.pools.tiers.items()})
        assert sizes == [{"a": 6, "b": 1}] * 2

    def test_a_pool_without_cpus_has_shares(self):
        node = having(PoolTuning("gold", maximum=1), name="1cpu")
        outcome = join(node, "a", 1000)
        assert node.cpus("a") == "0"
        assert said(outcome) == [("container.admit", "pool_full"), ("pool.resize", "members_asked")]
        assert (figures(outcome)["pool_asked_milli"], figures(outcome)["pool_cpus"]) == (1000, "0")

    def test_a_pool_may_be_full(self):
        node = having(GOLD)
        outcome = node.create("a", 5500, IN_GOLD)
        assert said(outcome)[0] == ("container.admit", "pool_full")
        assert (figures(outcome)["pool_asked_milli"], figures(outcome)["pool_cpus"]) == (5500, "0-3")

    def test_requests_may_exceed_the_machine(self):
        node = having(PoolTuning("gold", minimum=1))
        outcome = join(node, "a", 12000)
        assert (figures(outcome, -1)["asked_milli"], outcome.decisions[-1].after.cpus) == (12000, "0-6")

    def test_a_met_request_is_no_shortage(self):
        outcome = join(having(GOLD), "a", 3000)
        assert said(outcome)[0] == ("container.admit", "pool_member")


class TestChoice:
    def test_a_growing_pool_keeps_its_cpus_and_grows_beside_them(self):
        node = having(PoolTuning("gold", maximum=4), PoolTuning("near", maximum=4))
        join(node, "a", 1000)
        join(node, "b", 2000, "near")
        assert (node.pool("gold"), node.pool("near")) == ("0", "2-3")
        join(node, "c", 1000)
        assert node.pool("gold") == "0-1"
        join(node, "d", 1000)
        assert node.pool("gold") == "0-1,4"

    def test_it_grows_on_its_own_l3_group_and_node_before_others(self):
        node = having(PoolTuning("gold", minimum=2, maximum=6))
        join(node, "a", 4000)
        assert node.pool("gold") == "0-3"

    def test_a_shrinking_pool_keeps_whole_cores(self):
        node = having(PoolTuning("gold", maximum=4))
        join(node, "a", 2000)
        join(node, "b", 1000)
        node.stop("b")
        assert node.pool("gold") == "0-1"

    def test_other_pools_stay_where_they_are(self):
        node = having(GOLD, PoolTuning("etl", maximum=4))
        join(node, "b", 2000, "etl")
        before = node.pool("etl")
        join(node, "a", 4000)
        assert node.pool("etl") == before

    def test_dedicated_containers_take_from_share_alone(self):
        node = having(GOLD)
        node.create("main", 6000)
        assert (node.owners(), node.pool("gold")) == ({}, "0-1")
        node.create("main", 5000)
        assert (node.owners(), node.pool("share")) == ({"main": "2,4-7"}, "3")


class TestMembers:
    def test_a_new_member_starts_on_the_grown_pool(self):
        node = having(GOLD)
        outcome = node.create("a", 4000, IN_GOLD)
        assert outcome.decisions[0].orders.cpus == "0-3"
        assert b"0-3" in reply(outcome, "a")

    def test_the_other_members_and_those_of_share_follow(self):
        node = having(GOLD)
        node.create("online", 500, SHARED, on="shop")
        join(node, "a", 2000)
        outcome = join(node, "b", 2000)
        assert moved(outcome) == (set(), {"a", "online"})
        assert said(outcome)[1:] == [("pool.resize", "members_asked")] * 2
        assert [d.pool for d in outcome.decisions[1:]] == ["share", "gold"]

    def test_nobody_moves_when_a_request_fits(self):
        node = having(GOLD)
        join(node, "a", 1000)
        outcome = join(node, "b", 1000)
        assert (moved(outcome), said(outcome)) == ((set(), set()), [("container.admit", "pool_member")])

    def test_who_is_left_follows_when_one_leaves(self):
        node = having(PoolTuning("gold", maximum=4))
        join(node, "a", 2000)
        join(node, "b", 2000)
        assert moved(node.stop("b")) == (set(), {"a"})

    def test_an_update_resizes_the_pool_and_is_answered_with_its_cpus(self):
        node = having(GOLD)
        node.create("a", 1000, IN_GOLD)
        node.create("b", 1000, IN_GOLD)
        outcome = node.update("a", asking(3000), IN_GOLD)
        assert (node.pool("gold"), moved(outcome)) == ("0-3", (set(), {"b"}))
        assert said(outcome)[-1][0] == "container.update"
        assert outcome.decisions[-1].orders.cpus == "0-3"

    def test_owners_are_answered_with_their_cpus_and_pools_as_they_are(self):
        node = having(GOLD)
        node.create("main", 100)
        outcome = node.update("main", asking(2000))
        assert outcome.orders_for("main").cpus == node.cpus("main") == "2-3"
        assert [d.after.cpus for d in outcome.decisions if d.pool == "share"] == [node.pool("share")]

    def test_such_an_update_says_which_cpus_there_were(self):
        node = having(GOLD)
        node.create("a", 1000, IN_GOLD)
        node.create("b", 1000, IN_GOLD)
        had = node.cpus("a")
        answer = node.update("a", asking(3000), IN_GOLD).decisions[-1]
        assert (answer.before.cpus, answer.after.cpus) == (had, "0-3")

    def test_a_repeated_creation_does_not_move_its_container(self):
        node = having(PoolTuning("gold", maximum=4))
        join(node, "a", 1000)
        assert moved(join(node, "a", 2000)) == (set(), set())

    def test_a_pods_end_gives_everything_back(self):
        node = having(PoolTuning("gold", maximum=4))
        node.create("online", 500, SHARED, on="shop")
        join(node, "a", 2000)
        assert moved(node.remove_pod("web")) == (set(), {"online"})
        assert node.pool("share") == "0-7"

    def test_the_strict_refuse_nobody_for_a_pool_that_is_full(self):
        node = having(GOLD, strict=True)
        assert node.create("a", 9000, IN_GOLD).refusal == ""

    def test_a_refused_one_leaves_the_pool_as_it_was(self):
        bad = Finding(FindingKind.INVALID, "k", "v", "w", "u")
        node = having(GOLD, strict=True)
        before = node.state
        assert node.create("a", 4000, replace(IN_GOLD, findings=(bad,))).refusal
        assert node.state is before


class TestStickiness:
    def peopled(self) -> Node:
        node = having(PoolTuning("etl", maximum=4), GOLD, name="4node")
        join(node, "x", 2000, "etl")
        join(node, "a", 2000)
        join(node, "b", 2000)
        node.stop("x")
        return node

    def test_a_restart_changes_nothing(self):
        node = self.peopled()
        again = node.anew()
        assert again.state.pools == node.state.pools
        assert again.cpus("a") == node.cpus("a") != "0-3"

    def test_a_spec_that_cannot_be_read_is_no_memory(self):
        node = self.peopled()
        for name in "ab":
            node.listed[name] = replace(node.listed[name], resources=asking(2000, cpus="nonsense"))
        assert node.anew().state.pools.tiers["gold"].bit_count() == 4

    def test_dedicated_cpus_come_first_after_a_restart(self):
        node = having(PoolTuning("gold", maximum=6), PoolTuning("etl", minimum=2))
        node.create("main", 2000, on="main")
        node.stop("main")
        join(node, "a", 4000)
        node.create("main", 2000, on="main")
        join(node, "b", 2000)
        node.push()
        again = node.anew()
        assert again.owners() == node.owners()
        assert again.state.pools == node.state.pools

    def test_new_bounds_move_only_who_is_affected(self):
        node = having(GOLD, PoolTuning("etl", maximum=4))
        join(node, "a", 2000)
        join(node, "b", 2000, "etl")
        outcome = node.reconfigure(Tuning(pools=(replace(GOLD, minimum=4), PoolTuning("etl", maximum=4))))
        assert (node.pool("gold").startswith("0-1"), moved(outcome)) == (True, (set(), {"a"}))

    def test_a_cosmetic_change_moves_nobody(self):
        node = self.peopled()
        before = node.state.pools
        node.reconfigure(wishes={name: replace(SHARED, pool="gold", priority=7) for name in "ab"})
        assert node.state.pools == before

    def test_a_pool_that_is_no_more_gives_its_members_to_share(self):
        node = having(GOLD)
        join(node, "a", 3000)
        outcome = node.reconfigure(Tuning())
        assert (node["a"].pool, node.cpus("a"), moved(outcome)) == ("share", "0-7", (set(), {"a"}))

    def test_a_wish_for_a_removed_pool_means_share(self):
        node = having(GOLD)
        join(node, "a", 3000, "silver")
        assert (node["a"].pool, node.cpus("a")) == ("share", "2-7")


def test_pool_beyond_its_maximum_is_short():
    node = having(replace(GOLD, maximum=3))
    join(node, "fits", 3000)
    assert tiers.shortage(node.state.pools, "gold") == ""
    join(node, "more", 1000, on="more")
    short = "its containers ask for more than its maximum of 3 CPUs"
    assert tiers.shortage(node.state.pools, "gold") == short
