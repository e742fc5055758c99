"""placing/words.py: each decision names its event, its reason and the figures that were used."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, PoolsSized
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import ISOLATED, Finding, FindingKind, Resources
from nri_coloc.placing import admission, pools, words
from nri_coloc.sim import machines
from tests.unit.placing.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    Node,
    asking,
    container,
    figures,
    first,
    mask,
    pod,
)

DENIED = Finding(FindingKind.DENIED, "coloc.nri.io/numa", "exclusive", "less", "single")
INVALID = Finding(FindingKind.INVALID, "coloc.nri.io/priority", "high", "an integer", "0")


def admitted(milli: int = 2000) -> tuple[Node, admission.Admission]:
    node = Node()
    return node, admission.place(node.state, container("main", milli=milli), DEDICATED)


class TestAdmission:
    def test_what_changed_is_what_is_ordered(self):
        node, found = admitted()
        assignment = admission.remembered(node.state, found.assignment)
        decision = words.of_admission(node.state, found, assignment, None)
        assert (decision.event, decision.reason) == (AuditEvent.ADMIT, Reason.WHOLE_CORE)
        assert (decision.before, decision.after, decision.orders) == (
            Knobs(),
            Knobs(cpus="0-1"),
            Knobs(cpus="0-1"),
        )

    @pytest.mark.parametrize("cpus", ["", "2-3"])
    def test_claimed_cpus_are_figures(self, cpus: str):
        creating = ContainerCreating(pod(), container("main", claimed=mask(cpus)), SHARED)
        assert figures(Node().happen(creating)).get("claimed_cpus", "") == cpus

    def test_a_container_placed_by_file_has_its_place(self):
        node, found = admitted()
        decision = words.of_admission(node.state, found, found.assignment, Reason.ADOPTED)
        assert decision.reason is Reason.ADOPTED
        assert decision.inputs == {"placed_as": "whole_core"}

    def test_an_unmet_request_is_always_named(self):
        node, found = admitted(8000)
        decision = words.of_admission(node.state, found, found.assignment, Reason.ADOPTED)
        assert decision.reason is Reason.NO_FREE_CPUS


class TestFindings:
    def test_each_says_what_is_allowed_and_what_holds(self):
        _, found = admitted()
        denied, invalid = words.of_findings((DENIED, INVALID), found.assignment)
        assert (denied.event, denied.reason) == (AuditEvent.ANNOTATION_DENIED, Reason.NOT_ALLOWED)
        assert (invalid.event, invalid.reason) == (AuditEvent.ANNOTATION_INVALID, Reason.BAD_VALUE)
        assert (denied.key, denied.value, denied.allowed, denied.used) == (
            "coloc.nri.io/numa",
            "exclusive",
            "less",
            "single",
        )


class TestRefusal:
    def test_it_names_pod_container_key_and_what_is_allowed(self):
        _, found = admitted()
        sentence = "coloc.nri.io/numa='exclusive' is not allowed for this pod; allowed: less"
        assert (
            words.refusal(pod(), found, (DENIED, INVALID)) == f"nri-coloc refuses shop/web/main: {sentence}"
        )

    def test_what_can_be_granted_is_not_refused(self):
        assert words.refusal(pod(), admitted()[1], ()) == ""

    def test_it_is_audited(self):
        node, found = admitted()
        decision = words.of_refusal(node.state, found, "nri-coloc refuses shop/web/main: x")
        assert (decision.event, decision.reason) == (AuditEvent.ADMIT, Reason.REFUSED_STRICT)
        assert decision.inputs == {"request_milli": 2000, "pod_request_milli": None}


def test_a_release_says_what_was_given_back():
    node = Node()
    node.create("main", 2000)
    decision = words.of_release(node.state, node["main"], Reason.VANISHED)
    assert (decision.before, decision.after) == (Knobs(cpus="0-1"), Knobs())


class TestWhereAReleasedContainerRan:
    """The record names the owner of its CPUs, which is not always its pool."""

    def released(self, node: Node, name: str) -> tuple[str, str | None]:
        decision = words.of_release(node.state, node[name], Reason.STOPPED)
        return decision.because.rpartition("; it ran on ")[2], decision.before.cpus

    def test_a_sidecar_ran_on_the_main_containers(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        assert self.released(node, "side") == ("CPUs 0-1 of container main of its pod", "0-1")

    @pytest.mark.parametrize(
        ("spec", "place"),
        [("4-5", ("CPUs 4-5 of its own spec", "4-5")), ("", ("the CPUs that the runtime gave it", None))],
        ids=["pinned", "not pinned"],
    )
    def test_hands_off_means_the_runtimes_cpus(self, spec, place):
        node = Node()
        left_alone = replace(SHARED, preserve=frozenset({"cpu"}))
        node.create("own", wish=left_alone, resources=Resources(shares=2, cpus=spec))
        assert self.released(node, "own") == place

    def test_a_pool_that_is_gone_is_not_named(self):
        node = Node()
        node.create("app", wish=SHARED)
        homeless = replace(node["app"], pool="gone")
        decision = words.of_release(node.state, homeless, Reason.STOPPED)
        assert decision.because.endswith("CPUs 0-7 of pool share")

    def test_a_reclaimed_one_ran_on_the_reclaim_pool(self):
        node = Node()
        node.start_pod("jobs")
        node.create("batch", wish=RECLAIMED, on="jobs")
        node.happen(PoolsSized({"reclaim": 2}, "pool resized: a test wants it"))
        assert self.released(node, "batch") == ("CPUs 6-7 of pool reclaim", "6-7")


class TestWhyNotItsWish:
    def test_of_ordered_cpus_the_free_ones_are_named(self):
        node = Node()
        node.create("db", 3000, on="db")
        because = first(node.create("web", 4000, replace(DEDICATED, cpus_ordered=mask("0-3")))).because
        assert because.endswith("; a scheduler ordered CPUs 0-3, of which too few are free: 3")

    def test_isolated_cpus_are_missed_only_where_they_were_asked_for(self):
        node = Node("isolated")
        asked = replace(DEDICATED, pool=ISOLATED)
        assert "isolated" not in first(node.create("any", 1000, on="any")).because
        assert "isolated" not in first(node.create("three", 3000, asked, on="three")).because
        assert "too few isolated CPUs" in first(node.create("late", 1000, asked, on="late")).because

    def test_a_refused_growth_misses_isolated_cpus_too(self):
        on = machines.topology(replace(machines.MACHINES["8cpu"], isolated=mask("0-1")))
        node = Node(state=pools.initial(on, Tuning()))
        node.create("web", 2000, replace(DEDICATED, pool=ISOLATED))
        because = first(node.update("web", asking(9000), replace(DEDICATED, pool=ISOLATED))).because
        assert "own CPUs 0-1 kept: 7 more CPUs asked, 6 free" in because
        assert "too few isolated CPUs" in because

    def test_a_small_container_says_why_it_owns_none(self):
        node = Node()
        node.create("main", 2000)
        assert first(node.create("side", 100)).because == (
            "runs on CPUs 0-1 of main container main: it asks for less than one CPU"
        )


def test_a_join_names_the_main_container_and_its_cpus():
    node = Node()
    node.create("side", 100)
    outcome = node.create("main", 2000)
    join = outcome.decisions[1]
    assert {"main": "main", "main_cpus": "0-1"}.items() <= figures(outcome, 1).items()
    assert (join.before, join.after) == (Knobs(cpus="2-7"), Knobs(cpus="0-1"))


def test_an_orphan_says_from_where_to_where_it_moved():
    node = Node()
    node.create("main", 2000)
    node.create("side", 100)
    before = node.state
    node.stop("main")
    decision = words.of_orphan(before, node.state, node["side"])
    assert (decision.before, decision.after) == (Knobs(cpus="0-1"), Knobs(cpus="0-7"))


def test_a_protection_says_the_sums():
    node = Node()
    before = node.state
    wish = replace(SHARED, knobs=Knobs(memory_low=8, memory_min=4))
    node.create("db", wish=wish, resources=asking(0, memory_limit=8))
    decision = words.of_protection(before, node.state, "web")
    assert decision is not None
    assert decision.inputs == {"asked_low_bytes": 8, "asked_min_bytes": 4}
    assert (decision.pod_id, decision.after) == ("web", Knobs(memory_low=8, memory_min=4))


def test_every_decision_of_a_creation_is_about_it_or_a_pool():
    node = Node()
    outcome = node.create("main", 2000)
    assert first(outcome).subject == node["main"]
    assert outcome.decisions[1].pool == "share"
