"""policy/resync.py: the runtime's whole list, and a changed configuration or machine."""

from dataclasses import replace

import pytest

from nri_coloc.model.events import Synchronized
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import Numa, Resources
from nri_coloc.policy import resync
from tests.unit.policy.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    SYSTEM,
    Node,
    container,
    everyone_in,
    machine,
    mask,
    moved,
    pod,
    said,
)

RESERVE = Tuning(reserved=0b11)


def peopled() -> Node:
    """Return a node with a member in every pool, a main container with its sidecar, a limit and a bound one."""
    node = Node("4node")
    node.start_pod("jobs")
    node.create("batch", wish=RECLAIMED, on="jobs", oom_score_adj=900)
    node.create("online", 500, replace(SHARED, knobs=Knobs(memory_limit=512)), on="shop")
    node.create("agent", wish=SYSTEM, on="agents")
    node.create("side", 100)
    node.create("main", 2000)
    node.create("other", 1000, on="other")
    node.create("bound", 2000, replace(DEDICATED, numa=Numa.SINGLE, numa_ids=0b100), on="bound")
    return node


class TestOurOwnState:
    def test_synchronising_changes_nothing(self):
        node = peopled()
        node.synchronize()
        before = node.state
        outcome = node.synchronize()
        assert outcome.state is before
        assert outcome.decisions == ()

    def test_only_facts_are_learned(self):
        node = peopled()
        before = node.state
        node.listed["main"] = replace(node.listed["main"], pid=7)
        outcome = node.synchronize()
        assert (node["main"].container.pid, node["main"].container.created_at) == (7, 5)
        assert (outcome.decisions, node.state.pools, node.state.pods) == ((), before.pools, before.pods)
        for name, known in before.containers.items():
            facts = replace(node[name].container, created_at=0, pid=0)
            assert replace(node[name], container=facts) == known

    def test_everyone_is_compared_with_the_kernel(self):
        node = peopled()
        pods, containers = everyone_in(node.synchronize().moves)
        assert containers == set(node.state.containers)
        assert "jobs" in pods


class TestAfterARestart:
    def test_everyone_has_what_it_had(self):
        node = peopled()
        again = node.anew()
        assert again.owners() == node.owners()
        assert again.state.pools == node.state.pools
        assert {k: again.cpus(k) for k in again.state.containers} == {k: node.cpus(k) for k in node.listed}
        assert again.state.boxed("jobs")

    def test_a_lapsed_claim_does_not_move_the_present_owner(self):
        node = Node()
        node.create("side", 100)
        node.create("main", 2000)
        node.create("other", 1000, on="other")
        assert node.cpus("other") == "0"  # which the sidecar's record names too
        assert node.anew().owners() == node.owners()

    def test_a_claim_that_lapsed_takes_nobodys_cpus_while_it_is_placed_anew(self):
        node = Node()
        node.create("side", 1000)
        node.create("main", 2000)
        node.create("old", 2000, on="old")
        lapsed = node.listed["side"]
        node.listed["side"] = replace(lapsed, record=lapsed.record.replace('"0"', '"64"'))
        again = node.anew()
        assert (again.cpus("main"), again.cpus("old")) == (node.cpus("main"), node.cpus("old"))

    def test_a_request_that_could_not_be_met_is_not_met_by_a_restart(self):
        node = Node()
        node.create("early", 6000, on="early")
        node.create("late", 2000)
        node.stop("early")
        assert node.owners() == node.anew().owners() == {}

    def test_restored_containers_are_said(self):
        node = Node()
        node.create("main", 2000)
        again = Node()
        outcome = again.happen(node.listing())
        assert said(outcome) == [("container.admit", "restored"), ("pool.resize", "reconfigured")]
        assert outcome.decisions[1].because.startswith("the runtime listed 1 containers in 1 pods; ")

    def test_the_kubelets_values_are_known_again(self):
        node = peopled()
        again = node.anew()
        assert {k: a.original for k, a in again.state.containers.items()} == {
            k: a.original for k, a in node.state.containers.items()
        }

    def test_a_second_synchronisation_changes_nothing(self):
        again = peopled().anew()
        before = again.state
        assert again.synchronize().state is before


class TestForeigners:
    def test_who_ran_before_us_is_adopted_by_file(self):
        node = Node()
        listing = Synchronized(((pod(), DEDICATED),), ((container("main", milli=2000), DEDICATED),))
        outcome = node.happen(listing)
        assert said(outcome)[0] == ("container.admit", "adopted")
        assert (node["main"].by_file, node.cpus("main")) == (True, "0-1")

    def test_the_oldest_is_served_first(self):
        node = Node("2cpu")
        young, old = container("a", "p", 1000, created_at=2), container("b", "p", 1000, created_at=1)
        node.happen(Synchronized(((pod("p"), DEDICATED),), ((young, DEDICATED), (old, DEDICATED))))
        assert node.owners() == {"b": "0"}

    def test_recorded_cpus_come_before_new_ones(self):
        node = Node()
        node.create("main", 2000)
        stranger = (container("early", "other", 2000), DEDICATED)
        listing = node.listing()
        again = Node()
        again.happen(replace(listing, containers=(stranger, *listing.containers)))
        assert again.owners() == {"main": "0-1", "early": "2-3"}

    def test_a_container_whose_pod_is_not_listed_is_placed_all_the_same(self):
        node = Node()
        node.happen(Synchronized((), ((container("app", "ghost"), SHARED),)))
        assert node.cpus("app") == "0-7"
        assert not node.state.boxed("ghost")

    def test_a_pod_that_is_known_is_not_forgotten_with_the_list(self):
        node = Node()
        node.create("batch", wish=RECLAIMED)
        node.happen(replace(node.listing(), pods=()))
        assert node.state.boxed("web")

    def test_a_pod_with_another_class_in_it_is_not_boxed(self):
        node = Node()
        pods, containers = ((pod(), RECLAIMED),), ((container("app"), SHARED), (container("b"), RECLAIMED))
        node.happen(Synchronized(pods, containers))
        assert not node.state.boxed("web")

    def test_strict_refuses_nobody_who_runs(self):
        node = Node(tuning=Tuning(strict=True))
        node.happen(Synchronized(((pod(), DEDICATED),), ((container("main", milli=99000), DEDICATED),)))
        assert node.cpus("main") == "0-7"

    def test_one_container_listed_twice_is_one(self):
        node = Node()
        entry = (container("main", milli=2000), DEDICATED)
        node.happen(Synchronized(((pod(), DEDICATED),), (entry, entry)))
        assert node.owners() == {"main": "0-1"}


class TestVanished:
    def test_who_is_not_listed_is_gone(self):
        node = peopled()
        del node.listed["other"]
        outcome = node.synchronize()
        assert ("container.release", "vanished") in said(outcome)
        assert "other" not in node.state.containers

    def test_the_sidecar_of_a_vanished_main_container_runs_in_share(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        del node.listed["main"]
        outcome = node.synchronize()
        assert said(outcome).count(("container.update", "main_gone")) == 1
        assert node.cpus("side") == "0-7"

    def test_an_empty_list_empties_the_node(self):
        node = peopled()
        node.happen(Synchronized((), ()))
        assert (node.state.pods, node.state.containers) == ({}, {})
        assert node.state.pools == Node("4node").state.pools


class TestChangedWishes:
    def test_a_known_container_of_another_class_is_placed_anew(self):
        node = Node()
        node.create("main", 2000)
        listing = node.listing()
        node.happen(replace(listing, containers=tuple((c, SHARED) for c, _ in listing.containers)))
        assert (node.owners(), node.cpus("main")) == ({}, "0-7")

    def test_a_dedicated_one_with_another_wish_keeps_its_cpus(self):
        node = Node()
        node.create("first", 1000, on="first")
        node.create("main", 2000)
        node.stop("first")
        wish = replace(DEDICATED, because="the operator's rule")
        node.reconfigure(wishes={"main": wish})
        assert node.owners() == {"main": "2-3"}

    def test_a_reload_moves_only_whom_it_concerns(self):
        node = peopled()
        outcome = node.reconfigure(wishes={"online": replace(SHARED, knobs=Knobs(memory_limit=256))})
        assert moved(outcome) == (set(), {"online"})
        assert node["online"].knobs.memory_limit == 256

    def test_a_reload_that_changes_nothing_moves_nobody(self):
        node = peopled()
        before = node.owners()
        outcome = node.reconfigure()
        assert (outcome.decisions, bool(outcome.moves), node.owners()) == ((), False, before)

    def test_half_of_a_limit_is_not_halved_again(self):
        node = peopled()
        node.synchronize()
        assert node["online"].container.resources.memory_limit is None
        assert node["online"].container.resources.shares == 512

    def test_a_pod_that_is_reclaimed_no_more_leaves_the_box(self):
        node = Node()
        node.start_pod()
        node.create("batch", wish=RECLAIMED)
        outcome = node.reconfigure(wishes={"batch": SHARED}, pod_wishes={"web": SHARED})
        assert not node.state.boxed("web")
        assert moved(outcome) == ({"web"}, {"batch"})

    def test_a_pod_that_becomes_reclaimed_joins_it(self):
        node = Node()
        node.start_pod(wish=SHARED)
        node.create("app", wish=SHARED)
        node.reconfigure(wishes={"app": RECLAIMED}, pod_wishes={"web": RECLAIMED})
        assert node.state.boxed("web")

    def test_what_only_files_could_set_is_still_set_by_file(self):
        node = Node()
        node.start("app", wish=SHARED)
        node.reconfigure(wishes={"app": replace(SHARED, knobs=Knobs(memory_limit=5))})
        assert node["app"].by_file


class TestChangedMachine:
    def test_reserved_cpus_are_taken_from_everyone(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        node.create("main", 2000)
        outcome = node.reconfigure(RESERVE)
        assert node.owners() == {"main": "2-3"}
        assert (node.pool("reserved"), node.pool("share")) == ("0-1", "4-7")
        assert moved(outcome) == (set(), {"app", "main"})

    def test_who_lost_a_cpu_gets_others(self):
        node = Node()
        node.create("main", 2000)
        node.reconfigure(topology=machine("offline"))
        assert node.owners() == {"main": "0-1"}
        node.reconfigure(RESERVE, topology=machine("offline"))
        assert node.owners() == {"main": "4-5"}

    def test_the_sidecar_of_one_that_lost_its_cpus_follows_it(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        node.reconfigure(RESERVE)
        assert node.cpus("side") == node.cpus("main") == "2-3"

    def test_the_sidecar_of_one_that_found_none_runs_in_share(self):
        node = Node("2cpu")
        node.create("main", 1000)
        node.create("side", 100)
        outcome = node.reconfigure(Tuning(reserved=0b1))
        assert ("container.update", "main_gone") in said(outcome)
        assert node.cpus("side") == node.cpus("main") == "1"

    def test_the_youngest_gives_way_when_share_would_be_empty(self):
        node = Node()
        for age, name in enumerate("cba", start=1):
            node.create(name, 2000, on=name)
            node.start(name, on=name, created_at=age)
        node.reconfigure(Tuning(reserved=mask("6-7")))
        assert node.owners() == {"c": "0-1", "b": "2-3"}
        assert node.pool("share") == "4-5"

    def test_cpus_that_come_back_are_shared(self):
        node = Node("offline")
        node.create("app", wish=SHARED)
        outcome = node.reconfigure(topology=machine())
        assert node.cpus("app") == "0-7"
        assert said(outcome) == [("pool.resize", "reconfigured")]
        assert outcome.decisions[0].because.startswith("the configuration or the machine changed; 1 member ")


def test_a_pod_stays_in_the_box_while_nothing_else_is_in_it():
    node = Node()
    node.create("batch", wish=RECLAIMED)
    assert resync.box_again(node.state) is node.state


@pytest.mark.parametrize("wish", [SHARED, DEDICATED], ids=["shared", "dedicated"])
def test_resources_of_the_list_are_the_kubelets_where_they_are_not_ours(wish):
    node = Node()
    node.create("app", 2000, wish)
    listed = node.listed["app"]
    node.listed["app"] = replace(listed, resources=replace(listed.resources, shares=4096))
    node.synchronize()
    assert node["app"].container.resources == Resources(shares=4096)
