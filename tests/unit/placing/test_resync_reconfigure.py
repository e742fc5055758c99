"""placing/resynchronisation.py: a changed configuration or machine moves only the containers that it affects."""

from dataclasses import replace

from nri_coloc.core.decisions import Reconfigured
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import PoolTuning, Tuning
from tests.unit.placing.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    Node,
    figures,
    machine,
    mask,
    moved,
    peopled,
    said,
)

RESERVE = Tuning(reserved=0b11)


def test_a_request_that_was_unknown_sizes_a_new_pool():
    node = Node()
    gold = replace(SHARED, pool="gold")
    node.create("a", 0, SHARED, on="vip")
    node.tuning = Tuning(pools=(PoolTuning("gold", minimum=1),))
    node.happen(Reconfigured(node.state.topology, {"a": gold}, {}, {"vip": 3000}))
    assert node.state.pods["vip"].pod.cpu_request == 3000
    assert node.state.pools.tiers["gold"].bit_count() == 3


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
        assert figures(outcome)["members"] == 1
