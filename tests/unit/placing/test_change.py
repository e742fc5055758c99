"""placing/change.py: the pools follow from the owned CPUs, and each container whose CPUs changed is named."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import NO_MOVES, Decision
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.placing import change
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, SYSTEM, Node, everyone_in, mask, pod


def peopled() -> Node:
    """Return a node with a container in every pool, and a main container with its sidecar."""
    node = Node()
    node.create("online", wish=SHARED, on="shop")
    node.create("agent", wish=SYSTEM, on="agents")
    node.create("batch", wish=RECLAIMED, on="jobs")
    node.create("main", 2000)
    node.create("side", 100)
    return node


class TestAdopting:
    def test_the_pools_follow_from_the_owners(self):
        node = peopled()
        state = change.without(node.state, (node["main"],))
        assert state.owners == {}
        assert state.pools == Node().state.pools

    def test_a_container_without_own_cpus_changes_no_pool(self):
        node = peopled()
        state = change.with_container(node.state, node["online"])
        assert state.pools is node.state.pools
        assert state.generation == node.state.generation + 1

    def test_an_owner_that_owns_no_more_gives_its_cpus_back(self):
        node = peopled()
        state = change.with_container(node.state, replace(node["main"], exclusive=0))
        assert state.owners == {}
        assert state.pools.share == mask("0-7")

    def test_who_followed_one_that_is_gone_returns_to_share(self):
        node = peopled()
        state = change.without(node.state, (node["main"],))
        assert (state.containers["side"].follows, state.containers["side"].pool) == ("", "share")
        assert state.containers["online"] is node["online"]

    def test_a_pod_is_added_or_replaced(self):
        node = peopled()
        place = replace(node.state.pods["web"], boxed=True)
        assert change.with_pod(node.state, place).pods["web"] is place

    def test_a_pod_is_boxed_while_its_place_says_so(self):
        state = peopled().state
        assert state.box == ("jobs",)
        boxed = change.with_pod(state, replace(state.pods["web"], boxed=True))
        assert boxed.box == ("jobs", "web")
        assert change.with_pod(boxed, boxed.pods["web"]).box == ("jobs", "web")
        assert change.with_pod(boxed, state.pods["web"]).box == ("jobs",)
        assert change.without_pod(boxed, "jobs").box == ("web",)
        assert change.with_all_pods(state, boxed.pods).box == ("jobs", "web")


class TestMoved:
    def test_nobody_moves_while_nothing_is_taken(self):
        node = peopled()
        assert not change.moved(node.state, node.state)

    def test_members_move_one_by_one_and_the_box_as_pods(self):
        node = peopled()
        before = node.state
        node.create("other", 1000, on="other")
        pods, containers = everyone_in(change.moved(before, node.state))
        assert (pods, containers) == ({"jobs"}, {"online", "agent"})

    def test_a_newcomer_is_not_moved(self):
        node = peopled()
        before = node.state
        node.create("other", 1000, on="other")
        assert "other" not in change.moved(before, node.state).containers

    def test_followers_move_with_their_main_container(self):
        node = peopled()
        after = change.with_container(node.state, replace(node["main"], exclusive=mask("4-5")))
        assert {"main", "side"} <= set(change.moved(node.state, after).containers)

    def test_a_container_that_is_left_alone_is_not_moved(self):
        node = Node()
        node.create("mine", wish=replace(SYSTEM, preserve=frozenset({"cpu"})))
        before = node.state
        node.create("other", 1000, on="other")
        assert change.moved(before, node.state) == NO_MOVES

    def test_a_vm_is_moved_as_its_pod(self):
        node = Node()
        node.create("guest", wish=replace(SHARED, handler="pod"), on="vm")
        before = node.state
        node.create("other", 1000, on="other")
        assert everyone_in(change.moved(before, node.state)) == ({"vm"}, set())

    def test_reclaimed_containers_outside_the_box_move_one_by_one(self):
        node = Node()
        node.create("app", wish=SHARED, on="jobs")
        node.create("batch", wish=RECLAIMED, on="jobs")
        before = node.state
        node.create("other", 1000, on="other")
        assert everyone_in(change.moved(before, node.state)) == (set(), {"app", "batch"})


class TestMovers:
    def test_who_only_loses_comes_before_who_gains(self):
        node = peopled()
        grown = change.with_container(node.state, replace(node["main"], exclusive=mask("0-3")))
        found = change.movers(node.state, grown)
        assert (found.losing, set(found.gaining)) == (("online", "agent"), {"main", "side"})
        back = change.movers(grown, node.state)
        assert (set(back.losing), set(back.gaining)) == ({"main", "side"}, {"online", "agent"})

    def test_who_changed_its_pool_is_judged_by_itself(self):
        node = peopled()
        left = change.with_container(node.state, replace(node["online"], pool="system"))
        assert change.movers(node.state, left) == ((), (), ())
        lent = replace(node.state, pools=replace(node.state.pools, reclaim=mask("6-7")))
        joined = change.with_container(lent, replace(node["online"], pool="reclaim"))
        assert change.movers(lent, joined) == ((), ("online",), ())

    def test_members_of_a_pool_that_stays_do_not_move(self):
        node = Node(tuning=Tuning(pools=(PoolTuning("gold", minimum=2, maximum=2),)))
        node.create("online", wish=SHARED, on="shop")
        node.create("golden", wish=replace(SHARED, pool="gold"), on="vip")
        before = node.state
        node.create("main", 1000)
        assert change.movers(before, node.state) == ((), ("online",), ())


class TestPoolDecisions:
    def test_pools_with_containers_have_a_decision(self):
        node = peopled()
        before = node.state
        node.create("other", 1000, on="other")
        said = change.pool_decisions(before, node.state, Reason.CPUS_TAKEN, "pool resized: x")
        members = [(d.pool, d.inputs["members"]) for d in said if d.inputs]
        assert members == [("share", 1), ("reclaim", 1), ("system", 1)]
        assert (said[0].before.cpus, said[0].after.cpus) == ("2-7", "3-7")

    def test_a_record_names_the_cpus_that_the_pool_lost(self):
        node = peopled()
        before = node.state
        node.create("other", 1000, on="other")
        (lost, *_), (gained, *_) = (
            change.pool_decisions(*states, Reason.CPUS_RETURNED, "pool resized: x")
            for states in ((before, node.state), (node.state, before))
        )
        assert lost.inputs is not None
        assert gained.inputs is not None
        assert (lost.inputs["lost_cpus"], "lost_cpus" in lost.shows) == ("2", True)
        assert "lost_cpus" not in gained.inputs

    def test_of_empty_pools_only_share_is_said(self):
        node = Node()
        before = node.state
        node.create("main", 1000)
        said = change.pool_decisions(before, node.state, Reason.CPUS_TAKEN, "x")
        assert [d.pool for d in said] == ["share"]

    @pytest.mark.parametrize("wish", [SHARED, DEDICATED], ids=["shared", "unmet"])
    def test_pools_that_stay_are_not_said(self, wish):
        node = Node()
        before = node.state
        node.create("c", 9000, wish)
        assert change.pool_decisions(before, node.state, Reason.CPUS_TAKEN, "x") == ()


class TestFolded:
    """Two decisions on one pool are recorded as one."""

    @staticmethod
    def resized(event: AuditEvent, before: str, after: str) -> Decision:
        had, has = Knobs(cpus=before), Knobs(cpus=after)
        return Decision(event, Reason.HEADROOM, "x", pool="reclaim", before=had, after=has)

    @pytest.mark.parametrize(
        ("last", "event"),
        [("6-7", AuditEvent.RECLAIM_SUPPRESS), ("2-3,6-7", AuditEvent.RECLAIM_GROW)],
        ids=["fewer-cpus", "as-many-cpus"],
    )
    def test_only_fewer_cpus_than_before_are_a_suppression(self, last, event):
        grown = self.resized(AuditEvent.RECLAIM_GROW, "4-7", "2-7")
        found = change.folded(grown, self.resized(AuditEvent.RECLAIM_SUPPRESS, "2-7", last))
        assert (found.event, found.before.cpus, found.after.cpus) == (event, "4-7", last)

    @pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
    def test_a_first_size_stays_a_resize(self, first):
        plain = self.resized(AuditEvent.POOL_RESIZE, "0-7", "4-7")
        grown = self.resized(AuditEvent.RECLAIM_GROW, "0-7", "4-7")
        found = change.folded(plain, grown) if first else change.folded(grown, plain)
        assert found.event is AuditEvent.POOL_RESIZE


def test_the_kits_pods_are_found_by_their_names():
    assert pod("jobs").cgroup_parent == "/kubepods/podjobs"
