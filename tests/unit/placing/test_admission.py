"""placing/admission.py: a container gets its place, and its values are ordered."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import FindingKind, Numa, Placement, QoSClass, Resources, Wish
from nri_coloc.placing import admission
from tests.unit.placing.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    SYSTEM,
    Node,
    audit,
    container,
    figures,
    first,
    mask,
)


def placed(node: Node, wish: Wish, milli: int = 1000, **facts: Any) -> admission.Admission:
    return admission.place(node.state, container("c", milli=milli, **facts), wish)


def owned(reserved: str = "") -> str:
    return f'{{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"{reserved}"}}'


class TestPools:
    @pytest.mark.parametrize(
        ("wish", "pool", "reason", "cpus"),
        [
            (SHARED, "share", "pool_member", "1-7"),
            (SYSTEM, "system", "pool_member", "0-7"),
            (RECLAIMED, "reclaim", "box_member", "1-7"),
        ],
        ids=["shared", "system", "reclaimed"],
    )
    def test_other_classes_run_in_a_pool(self, wish, pool, reason, cpus):
        outcome = Node(tuning=Tuning(reserved=1)).create("c", 1000, wish)
        record = audit(outcome)[0]
        assert (record.pool, record.reason.value, figures(outcome)["pool_cpus"]) == (pool, reason, cpus)
        assert outcome.state.owners == {}

    @pytest.mark.parametrize("wish", [SHARED, RECLAIMED, SYSTEM], ids=["shared", "reclaimed", "system"])
    def test_a_record_gives_only_dedicated_containers_cpus(self, wish):
        assert placed(Node(), wish, record=owned("0-1")).assignment.exclusive == 0


class TestHandsOff:
    @pytest.mark.parametrize(
        "values",
        [{"preserve": frozenset({"cpu"})}, {"handler": "ignore"}],
        ids=["preserve", "handler"],
    )
    def test_a_container_may_be_left_alone(self, values):
        found = placed(Node(), replace(DEDICATED, **values))
        assert found.reason.value == "hands_off"
        assert (found.assignment.hands_off, found.assignment.exclusive) == (True, 0)

    def test_preserving_memory_leaves_the_cpus_ours(self):
        found = placed(Node(), replace(DEDICATED, preserve=frozenset({"memory"})))
        assert found.assignment.exclusive


class TestDedicated:
    def test_it_owns_the_cpus_that_the_allocator_finds(self):
        found = placed(Node(), DEDICATED, 1500)
        assert (found.assignment.exclusive, found.reason.value) == (0b11, "whole_core")

    def test_its_memory_is_everywhere_unless_it_is_bound(self):
        assert placed(Node(), DEDICATED).assignment.mems == 0

    @pytest.mark.parametrize("numa", [Numa.SINGLE, Numa.EXCLUSIVE])
    def test_a_bound_ones_memory_is_on_its_nodes(self, numa):
        wish = replace(DEDICATED, numa=numa, numa_ids=0b10)
        assert placed(Node(), wish, 4000).assignment.mems == 0b10

    def test_nodes_without_memory_bind_nobody(self):
        wish = replace(DEDICATED, numa=Numa.SINGLE, numa_ids=0b10)
        assert placed(Node("node-without-memory"), wish, 2000).assignment.mems == 0

    def test_the_last_cpu_of_share_is_never_taken(self):
        assert placed(Node(), DEDICATED, 7000).assignment.exclusive == mask("0-6")
        assert placed(Node(), DEDICATED, 8000).assignment.exclusive == 0

    def test_a_request_that_cannot_be_met_runs_in_share(self):
        outcome = Node("2cpu").create("c", 2000)
        (record,) = audit(outcome)
        assert (record.pool, record.reason.value) == ("share", "no_free_cpus")
        assert (figures(outcome)["n"], figures(outcome)["free"]) == (2, "0-1")

    def test_a_placement_is_among_the_figures(self):
        node = Node(tuning=Tuning(reserved=mask("0,2,4,6")))
        outcome = node.create("c", 2000, replace(DEDICATED, placement=Placement.FULL_CORES))
        assert first(outcome).reason.value == "no_free_cpus"
        assert figures(outcome)["placement"] == "full-cores"

    def test_reserved_and_isolated_cpus_are_not_to_be_had(self):
        assert placed(Node(tuning=Tuning(reserved=0b11)), DEDICATED).assignment.exclusive == mask("2")
        assert placed(Node("isolated"), DEDICATED).assignment.exclusive == mask("7")


class TestUncoveredWishes:
    """Whole nodes and whole cores are granted only up to the request (DESIGN 4.1)."""

    def test_a_whole_node_needs_a_request_of_one(self):
        found = placed(Node(), replace(DEDICATED, numa=Numa.EXCLUSIVE), 3000)
        (finding,) = found.findings
        assert (finding.kind, finding.key) == (FindingKind.DENIED, "coloc.nri.io/numa")
        assert (finding.value, finding.used) == ("exclusive", "single")
        assert finding.allowed == "a request of at least a whole node, here 4 CPUs; this container asked 3"
        assert found.considered is not None
        assert found.considered.wish.numa is Numa.SINGLE

    def test_whole_cores_need_a_request_that_they_divide(self):
        found = placed(Node(), replace(DEDICATED, placement=Placement.FULL_CORES), 3000)
        (finding,) = found.findings
        assert (finding.key, finding.value, finding.used) == (
            "coloc.nri.io/cpu-placement",
            "full-cores",
            "packed",
        )
        assert finding.allowed == "a request of a multiple of 2 CPUs (one core); this container asked 3"

    def test_cores_of_two_widths_divide_every_request(self):
        found = placed(Node("hybrid"), replace(DEDICATED, placement=Placement.FULL_CORES), 3000)
        assert (found.findings, found.assignment.exclusive) == ((), mask("16-18"))

    def test_both_may_be_too_much(self):
        wish = replace(DEDICATED, numa=Numa.EXCLUSIVE, placement=Placement.FULL_CORES)
        assert [f.key for f in placed(Node(), wish, 3000).findings] == [
            "coloc.nri.io/numa",
            "coloc.nri.io/cpu-placement",
        ]

    def test_what_the_request_covers_is_granted(self):
        wish = replace(DEDICATED, numa=Numa.EXCLUSIVE, placement=Placement.FULL_CORES)
        assert placed(Node(), wish, 4000).findings == ()


class TestOrderedCPUs:
    """A scheduler's choice is followed up to the request, where it is free."""

    def ordered(self, cpus: str, **values: Any) -> Wish:
        return replace(DEDICATED, cpus_ordered=mask(cpus), **values)

    def test_ordered_cpus_are_taken_as_they_are(self):
        found = placed(Node(), self.ordered("3,6"), 2000)
        assert (found.assignment.exclusive, found.reason.value) == (mask("3,6"), "ordered")
        assert found.inputs == {"n": 2, "free": "0-7", "ordered_cpus": "3,6", "ordered_free": "3,6"}
        assert found.considered is None

    def test_never_more_than_was_asked_for(self):
        found = placed(Node(), self.ordered("2-5"), 2000)
        assert (found.assignment.exclusive, found.reason.value) == (mask("2-3"), "ordered")

    def test_containers_of_a_pod_share_its_order_out(self):
        node = Node()
        node.create("a", 1000, self.ordered("4-7"))
        node.create("b", 3000, self.ordered("4-7"))
        assert node.owners() == {"a": "4", "b": "5-7"}

    def test_taken_ordered_cpus_are_replaced(self):
        node = Node()
        node.create("other", 2000, on="other")
        found = placed(node, self.ordered("1-2"), 2000)
        assert (found.assignment.exclusive, found.reason.value) == (mask("2-3"), "whole_core")
        assert found.inputs == {"ordered_cpus": "1-2", "ordered_free": "2"}

    def test_an_order_without_free_cpus_is_recorded(self):
        found = placed(Node("2cpu"), self.ordered("5-6"), 2000)
        assert found.reason.value == "no_free_cpus"
        assert found.inputs == {"ordered_cpus": "5-6", "ordered_free": ""}

    def test_the_last_cpu_of_share_is_not_to_be_ordered(self):
        assert placed(Node(), self.ordered("0-7"), 8000).reason.value == "no_free_cpus"

    def test_memory_comes_with_it_where_a_binding_was_wished(self):
        assert placed(Node(), self.ordered("6-7", numa=Numa.SINGLE), 2000).assignment.mems == 0b10


class TestToldRequests:
    def test_a_told_request_decides_how_many(self):
        outcome = Node().create("c", 4000, replace(DEDICATED, cpu_milli=1500))
        assert first(outcome).after.cpus == "0-1"
        assert (figures(outcome)["request_milli"], figures(outcome)["n"]) == (1500, 2)

    def test_a_told_sidecar_follows_its_main_container(self):
        node = Node()
        node.create("main", 2000)
        assert placed(node, replace(DEDICATED, cpu_milli=100), 1000).assignment.follows == "main"
        assert admission.is_small(container("c", milli=1000), replace(DEDICATED, cpu_milli=100))

    def test_a_denied_wish_names_the_pods_own_key(self):
        origins = (("numa-ids", "x", "y"), ("cpu-placement", "their/key[inner]", "true"))
        wish = replace(DEDICATED, placement=Placement.FULL_CORES, origins=origins)
        (finding,) = placed(Node(), wish, 3000).findings
        assert (finding.key, finding.value, finding.used) == ("their/key[inner]", "true", "packed")


class TestRecords:
    def test_recorded_cpus_are_kept_while_they_are_free(self):
        found = placed(Node(), DEDICATED, 2000, record=owned("5-6"))
        assert (found.assignment.exclusive, found.reason.value) == (mask("5-6"), "restored")
        assert found.inputs == {"claim": "record", "claim_cpus": "5-6"}

    def test_cpus_that_cannot_be_had_any_more_are_chosen_anew(self):
        found = placed(Node(), DEDICATED, 2000, record=owned("99"))
        assert (found.assignment.exclusive, found.reason.value) == (mask("0-1"), "whole_core")

    @pytest.mark.parametrize(
        ("recorded", "kept"),
        [("7-8", "6-7"), ("5-6,99", "5-6"), ("0-7", "0-1")],
        ids=["partly-offline", "enough", "all-of-share"],
    )
    def test_what_is_left_of_recorded_cpus_is_kept(self, recorded, kept):
        found = placed(Node(), DEDICATED, 2000, record=owned(recorded))
        assert (found.assignment.exclusive, found.reason.value) == (mask(kept), "restored")

    def test_a_completed_record_has_its_figures(self):
        found = placed(Node(), DEDICATED, 2000, record=owned("7-8"))
        claim = {"claim": "record", "claim_cpus": "7-8", "claim_free": "7"}
        assert found.inputs == {**claim, "n": 2, "free": "0-7"}

    @pytest.mark.parametrize(
        ("milli", "by", "cpus"),
        [(8000, DEDICATED, ""), (4000, replace(DEDICATED, placement=Placement.FULL_CORES), "0-3")],
        ids=["too-many", "the-wish-forbids"],
    )
    def test_what_is_left_does_not_count_where_it_cannot_be_completed(self, milli, by, cpus):
        node = Node()
        node.create("other", 1000, replace(DEDICATED, cpus_ordered=mask("7")), on="other")
        found = placed(node, by, milli, record=owned("5-7"))
        assert found.reason.value != "restored"
        assert found.assignment.exclusive == mask(cpus)

    @pytest.mark.parametrize(
        ("numa", "cpus", "mems"), [(Numa.NONE, "3-4", 0), (Numa.SINGLE, "4-5", 0b10)], ids=["any", "bound"]
    )
    def test_a_bound_container_is_not_split_to_keep_cpus(self, numa, cpus, mems):
        node = Node()
        node.create("other", 3000, on="other")
        found = placed(node, replace(DEDICATED, numa=numa), 2000, record=owned("2-3"))
        assert (found.assignment.exclusive, found.assignment.mems) == (mask(cpus), mems)

    def test_memory_goes_with_cpus_that_were_completed(self):
        bound = replace(DEDICATED, numa=Numa.SINGLE)
        found = placed(Node(), bound, 3000, record=owned("5-7,99"))
        assert (found.assignment.exclusive, found.assignment.mems) == (mask("5-7"), 0b10)

    def test_who_followed_a_main_container_by_its_record_still_does(self):
        node = Node()
        node.create("main", 2000)
        found = placed(node, DEDICATED, 2000, record='{"v":1,"class":"dedicated","pool":"dedicated"}')
        assert (found.assignment.follows, found.reason.value) == ("main", "restored")

    def test_a_record_without_cpus_of_its_own_stays_in_share(self):
        found = placed(Node(), DEDICATED, 2000, record='{"v":1,"class":"dedicated","pool":"share"}')
        assert (found.assignment.pool, found.assignment.exclusive) == ("share", 0)
        assert found.reason.value == "restored"

    def test_cpus_of_somebody_else_are_not_given_twice(self):
        node = Node()
        node.create("other", 2000, on="other")
        assert placed(node, DEDICATED, 2000, record=owned("1-2")).assignment.exclusive == mask("2-3")


class TestFollowers:
    def test_less_than_a_cpu_runs_with_the_main_container(self):
        node = Node()
        node.create("main", 2000)
        outcome = node.create("c", 250)
        assert (node["c"].follows, node["c"].pool) == ("main", "dedicated")
        assert {"request_milli": 250, "main": "main", "main_cpus": "0-1"}.items() <= figures(outcome).items()

    def test_an_ephemeral_container_runs_with_the_main_container(self):
        node = Node()
        node.create("main", 2000)
        found = placed(node, DEDICATED, 0)
        assert found.assignment.follows == "main"

    def test_of_two_main_containers_the_larger_is_followed(self):
        node = Node()
        node.create("small", 1000)
        node.create("large", 2000)
        assert placed(node, DEDICATED, 100).assignment.follows == "large"

    def test_of_two_equal_ones_the_lower_id_is_followed(self):
        node = Node()
        node.create("b", 1000)
        node.create("a", 1000)
        assert placed(node, DEDICATED, 100).assignment.follows == "a"

    def test_another_pods_main_container_is_not_followed(self):
        node = Node()
        node.create("main", 2000, on="other")
        assert placed(node, DEDICATED, 100).assignment.follows == ""

    @pytest.mark.parametrize("milli", [0, 999])
    def test_less_than_one_cpu_alone_owns_none(self, milli):
        found = placed(Node(), DEDICATED, milli)
        assert (found.assignment.pool, found.assignment.exclusive) == ("share", 0)
        assert found.reason.value == "below_one_cpu"

    def test_an_old_claim_does_not_count_beside_a_main_container(self):
        node = Node()
        node.create("main", 2000)
        assert placed(node, DEDICATED, 100, record=owned("7")).assignment.follows == "main"

    def test_a_whole_cpu_is_no_sidecar(self):
        node = Node()
        node.create("main", 2000)
        assert placed(node, DEDICATED, 1000).assignment.exclusive == mask("2")


def test_the_spec_is_said_without_what_it_keeps():
    asked = container("c", resources=Resources(shares=0, quota=5), oom_score_adj=0)
    assert admission.spec_of(asked) == Knobs(quota=5, oom_score_adj=0)


@pytest.mark.parametrize(
    ("milli", "small"), [(0, True), (999, True), (1000, False)], ids=["0", "999", "1000"]
)
def test_small_is_less_than_one_cpu(milli, small):
    assert admission.is_small(container("c", milli=milli)) is small


def test_a_decision_carries_what_the_reply_must_order():
    node = Node()
    decision = first(node.create("c", 2000))
    assert decision.orders == decision.after == Knobs(cpus="0-1")
    assert node["c"].qos is QoSClass.DEDICATED


class TestInitContainers:
    """NRI does not mark them; a webhook's annotation may."""

    INIT = replace(DEDICATED, init=True)

    def test_one_that_is_known_runs_in_share(self):
        found = placed(Node(), self.INIT, 2000)
        assert (found.assignment.pool, found.assignment.exclusive) == ("share", 0)
        assert found.reason.value == "init_container"

    def test_a_sidecar_that_is_written_as_one_joins_the_main_container(self):
        node = Node()
        node.create("side", 100, self.INIT)
        node.create("main", 2000)
        node.create("late", 100, self.INIT)
        assert (node["side"].follows, node["late"].follows) == ("main", "main")

    def test_what_any_other_returns_at_its_end_is_its_main_containers(self):
        node = Node()
        node.create("init", 2000)
        node.stop("init")
        node.create("main", 2000)
        assert node.owners() == {"main": "0-1"}


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 CPU asked, 1 free, and share keeps the last one"),
        (2, "2 CPUs asked, 1 free, and share keeps the last one"),
        (0, "none of the free CPUs fit its placement, 0 CPUs asked"),
    ],
)
def test_shortage_is_told_with_its_figures(count: int, words: str):
    assert admission.short_of(count, mask("3")) == words
