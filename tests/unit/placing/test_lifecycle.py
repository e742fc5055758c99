"""placing/lifecycle.py: containers live from creation to release; events may be repeated, late or unknown."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, ContainerGone
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Finding, FindingKind, Phase, Resources
from tests.unit.placing.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    Node,
    container,
    everyone_in,
    figures,
    first,
    moved,
    pod,
    said,
)

BAD = Finding(FindingKind.INVALID, "coloc.nri.io/io-weight", "many", "1 to 10000", "100")
STRICT = Tuning(strict=True)


class TestCreating:
    def test_a_dedicated_container_takes_its_cpus_from_the_pools(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        outcome = node.create("main", 2000)
        assert said(outcome) == [("container.admit", "whole_core"), ("pool.resize", "cpus_taken")]
        assert (figures(outcome, 1)["members"], figures(outcome, 1)["dedicated_cpus"]) == (1, "0-1")
        assert moved(outcome) == everyone_in(outcome.waits_for) == (set(), {"app"})

    def test_a_member_of_a_pool_displaces_nobody(self):
        node = Node()
        node.create("main", 2000)
        outcome = node.create("app", wish=SHARED, on="shop")
        assert said(outcome) == [("container.admit", "pool_member")]
        assert not outcome.moves
        assert not outcome.waits_for

    def test_a_first_instruction_does_not_wait_for_the_box_to_open(self):
        node = Node()
        node.start_pod()
        assert not node.create("app", wish=SHARED).waits_for

    def test_what_an_annotation_may_not_say_is_said(self):
        outcome = Node().create("app", wish=replace(SHARED, findings=(BAD,)))
        assert said(outcome)[1] == ("annotation.invalid", "bad_value")


class TestCreatingAgain:
    def test_the_same_try_twice_gives_the_same_cpus(self):
        node = Node()
        node.create("main", 2000)
        node.create("main", 2000)
        assert node.owners() == {"main": "0-1"}

    def test_what_the_first_try_held_is_given_back(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        node.create("main", 2000)
        outcome = node.create("main", 2000, SHARED)
        assert node.pool("share") == "0-7"
        assert "app" in outcome.moves.containers
        assert ("pool.resize", "cpus_returned") in said(outcome)

    def test_a_second_try_that_is_refused_leaves_the_first_alone(self):
        node = Node(tuning=STRICT)
        node.create("main", 2000)
        before = node.state
        outcome = node.create("main", 8000)
        assert outcome.refusal
        assert outcome.state is before


class TestTheNextAttempt:
    """The kubelet makes the next attempt of a container when the one before it is over."""

    def test_it_has_the_cpus_of_one_that_never_started(self):
        node = Node("2cpu")
        node.attempt("web-0", "web", 1000)
        outcome = node.attempt("web-1", "web", 1000)
        assert node.owners() == {"web-1": "0"}
        assert said(outcome)[0] == ("container.release", "superseded")
        assert first(outcome).before.cpus == "0"

    def test_former_users_are_still_waited_for(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        node.attempt("web-0", "web")
        assert everyone_in(node.attempt("web-1", "web").waits_for) == (set(), {"app"})

    def test_its_sidecar_stays_with_it(self):
        node = Node()
        node.attempt("web-0", "web")
        node.create("side", 100)
        node.attempt("web-1", "web")
        assert (node["side"].follows, node.cpus("side")) == ("web-1", "0-1")

    def test_it_follows_the_heir_of_its_pods_cpus(self):
        node = Node()
        node.requests["web"] = 2000
        node.attempt("web-0", "web", 0)
        node.create("mate")
        node.attempt("web-1", "web", 0)
        assert node.owners() == {"mate": "0-1"}
        assert node["web-1"].follows == "mate"

    @pytest.mark.parametrize(("name", "on"), [("other", "web"), ("web", "elsewhere"), ("", "web")])
    def test_another_container_takes_nothing(self, name, on):
        node = Node()
        node.attempt("web-0", name if not name else "web")
        node.attempt("web-1", name, on=on)
        assert set(node.owners()) == {"web-0", "web-1"}

    @pytest.mark.parametrize("running", [False, True])
    def test_one_that_started_yields_nothing(self, running):
        node = Node()
        node.attempt("web-0", "web")
        node.start("web-0", running=running)
        node.attempt("web-1", "web")
        assert set(node.owners()) == {"web-0", "web-1"}

    def test_one_that_is_refused_takes_nothing(self):
        node = Node(tuning=STRICT)
        node.attempt("web-0", "web")
        before = node.state
        asked = replace(container("web-1", milli=8000), name="web")
        assert node.happen(ContainerCreating(pod(), asked, DEDICATED)).state is before


class TestStarting:
    @pytest.mark.parametrize(
        ("running", "phase"), [(False, Phase.STARTING), (True, Phase.RUNNING)], ids=["start", "post-start"]
    )
    def test_a_container_that_we_placed_keeps_its_place(self, running, phase):
        node = Node()
        node.create("main", 2000)
        outcome = node.start("main", running=running)
        assert (outcome.decisions, outcome.moves.containers) == ((), ())
        assert (node["main"].container.phase, node["main"].container.pid) == (phase, 7)
        assert (node["main"].exclusive, node["main"].by_file) == (0b11, False)

    def test_one_that_we_never_placed_is_placed_by_file(self):
        node = Node()
        outcome = node.start("main")
        assert said(outcome)[0] == ("container.admit", "placed_at_start")
        assert figures(outcome)["placed_as"] == "below_one_cpu"
        assert node["main"].by_file

    @pytest.mark.parametrize("running", [False, True], ids=["start", "post-start"])
    def test_start_after_stop_places_nothing(self, running):
        """The runtime reports the start of a container that ends at once after its end."""
        node = Node("2cpu")
        node.create("init", 1000)
        node.stop("init")
        outcome = node.start("init", running=running)
        assert outcome.decisions == ()
        assert node.owners() == {}
        node.create("main", 1000)
        assert node.owners() == {"main": "0"}

    def test_ended_containers_are_remembered_up_to_a_bound(self):
        node = Node("2cpu")
        for number in range(200):
            node.create(f"c{number}", 1000)
            node.stop(f"c{number}")
        assert len(node.state.ended) < 200
        assert node.start("c199").decisions == ()

    def test_the_time_of_creation_is_learned(self):
        node = Node()
        node.create("main", 2000)
        node.start("main", created_at=99)
        node.start("main", running=True)
        assert node["main"].container.created_at == 99


class TestMainAndSidecar:
    def test_a_sidecar_that_came_first_joins_the_main_container(self):
        node = Node()
        node.create("side", 100)
        assert (node["side"].pool, node.owners()) == ("share", {})
        outcome = node.create("main", 2000)
        assert node.owners() == {"main": "0-1"}
        assert node.cpus("side") == "0-1"
        assert ("container.update", "main_came") in said(outcome)
        assert "side" in outcome.moves.containers

    def test_a_sidecar_leaves_the_last_cpu_to_the_main_container(self):
        """A native sidecar comes first. Of two CPUs only one may be owned."""
        node = Node("2cpu")
        node.create("side", 100)
        node.create("main", 1000)
        assert node.owners() == {"main": "0"}
        assert node["side"].follows == "main"

    def test_a_whole_container_does_not_join(self):
        node = Node()
        node.create("first", 1000)
        node.create("main", 2000)
        assert node.owners() == {"first": "0", "main": "2-3"}

    @pytest.mark.parametrize("milli", [0, 999])
    def test_every_earlier_sidecar_joins_the_main_container(self, milli):
        node = Node()
        node.create("first", milli)
        node.create("second", 100)
        assert (node["first"].follows, node["second"].follows) == ("", "")
        outcome = node.create("main", 2000)
        assert (node["first"].follows, node["second"].follows) == ("main", "main")
        assert {"first", "second"} <= set(outcome.moves.containers)

    def test_one_that_is_left_alone_does_not_join(self):
        node = Node()
        node.create("side", 100, replace(DEDICATED, preserve=frozenset({"cpu"})))
        node.create("main", 2000)
        assert node["side"].follows == ""

    def test_another_pods_sidecar_does_not_join(self):
        node = Node()
        node.create("side", 100, on="other")
        node.create("main", 2000)
        assert (node["side"].follows, node["side"].pool) == ("", "share")

    def test_a_sidecar_of_another_class_does_not_join(self):
        node = Node()
        node.create("side", 100, SHARED)
        node.create("main", 2000)
        assert node["side"].follows == ""

    def test_when_the_main_container_ends_its_sidecar_runs_in_share(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        outcome = node.stop("main")
        assert said(outcome) == [
            ("container.release", "stopped"),
            ("container.update", "main_gone"),
            ("pool.resize", "cpus_returned"),
        ]
        update = outcome.decisions[1]
        assert (update.before, update.after) == (Knobs(cpus="0-1"), Knobs(cpus="0-7"))
        assert (node["side"].pool, node.cpus("side")) == ("share", "0-7")


class TestEnding:
    @pytest.mark.parametrize(("removed", "reason"), [(False, "stopped"), (True, "removed")])
    def test_what_it_owned_returns_to_the_pools(self, removed, reason):
        node = Node()
        free = node.state.pools
        node.create("app", wish=SHARED, on="shop")
        node.create("main", 2000)
        outcome = node.stop("main", removed=removed)
        assert said(outcome) == [("container.release", reason), ("pool.resize", "cpus_returned")]
        assert first(outcome).before.cpus == "0-1"
        assert outcome.moves.containers == ("app",)
        assert node.state.pools == free

    def test_one_that_the_runtime_lists_no_more_is_released_too(self):
        node = Node()
        node.create("main", 2000)
        outcome = node.happen(ContainerGone("main", vanished=True))
        assert said(outcome)[0] == ("container.release", "vanished")
        assert node.owners() == {}

    def test_a_member_of_a_pool_gives_back_nothing(self):
        node = Node()
        node.create("app", wish=SHARED)
        outcome = node.stop("app")
        assert said(outcome) == [("container.release", "stopped")]
        assert first(outcome).before.cpus == "0-7"
        assert not outcome.moves

    def test_an_end_without_a_beginning_changes_nothing(self):
        node = Node()
        before = node.state
        outcome = node.stop("nobody")
        assert outcome.state is before
        assert not outcome.decisions


class TestPods:
    def test_a_removed_pod_takes_its_containers_along(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        outcome = node.remove_pod()
        assert not node.state.containers
        assert not node.state.pods
        assert not node.state.owners
        assert [event for event, _ in said(outcome)].count("container.release") == 2

    def test_an_empty_pod_is_only_forgotten(self):
        node = Node()
        node.start_pod()
        assert said(node.remove_pod()) == []
        assert node.state.pods == {}

    def test_an_unknown_pod_is_no_trouble(self):
        node = Node()
        node.create("main", 2000)
        node.remove_pod("nobody")
        assert list(node.state.containers) == ["main"]

    def test_a_pod_is_limited_before_its_first_container(self):
        outcome = Node().start_pod()
        assert said(outcome) == [("pod.limit", "box_member")]


class TestStrict:
    def test_a_request_that_cannot_be_met_is_refused(self):
        node = Node(tuning=STRICT)
        before = node.state
        outcome = node.create("main", 8000)
        assert outcome.refusal.startswith("nri-coloc refuses shop/web/main: ")
        assert said(outcome) == [("container.admit", "refused_strict")]
        assert (figures(outcome)["n"], figures(outcome)["free"]) == (8, "0-7")
        assert outcome.state is before

    def test_a_bad_annotation_is_refused(self):
        outcome = Node(tuning=STRICT).create("app", wish=replace(SHARED, findings=(BAD,)))
        words = "coloc.nri.io/io-weight='many' is invalid; allowed: 1 to 10000"
        assert outcome.refusal == f"nri-coloc refuses shop/web/app: {words}"
        assert said(outcome) == [("annotation.invalid", "bad_value"), ("container.admit", "refused_strict")]

    def test_an_observer_says_that_it_would_refuse_and_refuses_nobody(self):
        node = Node(tuning=replace(STRICT, observe=True))
        outcome = node.create("main", 8000)
        assert (outcome.refusal, node.cpus("main")) == ("", "0-7")
        assert said(outcome) == [("container.admit", "no_free_cpus"), ("container.admit", "refused_strict")]

    def test_what_can_be_granted_is_not_refused(self):
        assert Node(tuning=STRICT).create("main", 2000).refusal == ""

    def test_what_runs_already_is_not_refused(self):
        outcome = Node(tuning=STRICT).start("main", wish=replace(DEDICATED, findings=(BAD,)))
        assert outcome.refusal == ""
        assert outcome.state.containers["main"].by_file

    def test_without_strict_it_runs_in_share(self):
        node = Node()
        outcome = node.create("main", 8000)
        assert (node.cpus("main"), outcome.refusal) == ("0-7", "")


def test_a_vms_pod_is_written_with_each_of_its_containers():
    outcome = Node().create("guest", wish=replace(RECLAIMED, handler="pod"), resources=Resources())
    assert outcome.moves.pods == ("web",)
