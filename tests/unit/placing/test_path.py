"""placing/words.py: a container that joins or leaves a pod changes the pod's cgroup; both values are recorded."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import Decision, Outcome
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import Resources, Wish
from nri_coloc.placing import words
from tests.unit.placing.kit import RECLAIMED, SHARED, Node, asking


def weighing(weight: int | None, wish: Wish = SHARED) -> Wish:
    return replace(wish, knobs=Knobs(io_weight=weight))


LIMITED = asking(0, memory_limit=1 << 30)
"""Guaranteed: the limit is the request."""


def protected(low: int | None = None, minimum: int | None = None) -> Wish:
    return replace(SHARED, knobs=Knobs(memory_low=low, memory_min=minimum))


def limits(outcome: Outcome) -> list[Decision]:
    return [d for d in outcome.decisions if d.event.value == "pod.limit"]


@pytest.fixture
def node() -> Node:
    """Return a node that knows one online pod, with a weight of 300."""
    node = Node()
    node.start_pod(wish=weighing(300))
    return node


def test_a_raised_weight_has_its_old_value(node):
    (limit,) = limits(node.create("app", wish=weighing(10000)))
    assert (limit.before, limit.after) == (Knobs(io_weight=300), Knobs(io_weight=10000))
    assert (limit.pod_id, limit.pool, limit.qos) == ("web", "", SHARED.qos)


def test_a_pod_that_nobody_weighed_had_the_kernels_weight():
    node = Node()
    node.start_pod(wish=SHARED)
    (limit,) = limits(node.create("app", wish=weighing(300)))
    assert limit.before == Knobs(io_weight=100)


def test_the_kernels_own_weight_in_words_changes_nothing():
    node = Node()
    node.start_pod(wish=SHARED)
    assert limits(node.create("app", wish=weighing(100))) == []


def test_a_pod_of_the_box_says_only_what_changed():
    node = Node()
    node.start_pod(wish=weighing(10, RECLAIMED))
    (limit,) = limits(node.create("app", wish=weighing(50, RECLAIMED)))
    assert (limit.before, limit.after) == (Knobs(io_weight=10), Knobs(io_weight=50))
    assert (limit.pool, limit.reason.value) == ("reclaim", "box_member")


def test_of_a_pod_whose_start_was_missed_all_is_said():
    (limit,) = limits(Node().create("app", wish=RECLAIMED))
    assert (limit.before, limit.after) == (Knobs(), Knobs(cpus="0-7", shares=2))


def test_an_ignored_handlers_pod_keeps_its_weight():
    node = Node()
    ignored = replace(weighing(300), handler="ignore")
    node.start_pod(wish=ignored)
    assert limits(node.create("app", wish=replace(ignored, knobs=Knobs(io_weight=400)))) == []


def test_a_second_protected_container_says_what_the_first_had_raised(node):
    node.create(
        "first",
        wish=replace(protected(minimum=256), knobs=Knobs(memory_min=256, io_weight=300)),
        resources=LIMITED,
    )
    (limit,) = limits(
        node.create(
            "second", wish=replace(SHARED, knobs=Knobs(memory_min=256, io_weight=300)), resources=LIMITED
        )
    )
    assert (limit.before, limit.after) == (Knobs(memory_min=256), Knobs(memory_min=512))


def test_a_protection_that_stays_is_not_listed():
    (limit,) = limits(Node().create("app", wish=protected(minimum=256), resources=LIMITED))
    assert (limit.before, limit.after) == (Knobs(memory_min=0), Knobs(memory_min=256))


def test_a_start_that_is_told_again_changes_nothing(node):
    assert limits(node.start_pod(wish=weighing(300))) == []


def test_a_pod_that_is_gone_has_nothing_to_be_said_of(node):
    assert words.changed(node.state, Node().state, ("web",)) == ()


class TestLeaving:
    """A container ends, and its pod goes on."""

    def test_the_highest_weight(self, node):
        node.create("app", wish=weighing(10000))
        outcome = node.stop("app")
        (limit,) = limits(outcome)
        assert (limit.before, limit.after) == (Knobs(io_weight=10000), Knobs(io_weight=300))
        assert outcome.moves.pods == ("web",)

    def test_a_protection(self, node):
        node.create(
            "app", wish=replace(SHARED, knobs=Knobs(memory_min=256, io_weight=300)), resources=LIMITED
        )
        (limit,) = limits(node.stop("app"))
        assert (limit.before, limit.after) == (Knobs(memory_min=256), Knobs(memory_min=0))
        assert limit.reason.value == "protected"

    def test_neither_is_no_word(self, node):
        node.create("app", wish=weighing(300))
        outcome = node.stop("app")
        assert (limits(outcome), outcome.moves.pods) == ([], ())

    def test_with_its_pod_the_containers_end_says_it_all(self, node):
        node.create("app", wish=weighing(10000))
        outcome = node.remove_pod()
        assert (limits(outcome), outcome.moves.pods) == ([], ("web",))

    def test_a_container_that_ended_unseen_restores_its_pods_weight(self, node):
        node.create("app", wish=weighing(10000))
        del node.listed["app"]
        (limit,) = limits(node.synchronize())
        assert (limit.before, limit.after) == (Knobs(io_weight=10000), Knobs(io_weight=300))


def test_other_settings_say_which_pods_weigh_otherwise(node):
    node.create("app", wish=weighing(300))
    (limit,) = limits(node.reconfigure(wishes={"app": weighing(400)}, pod_wishes={"web": weighing(400)}))
    assert (limit.before, limit.after) == (Knobs(io_weight=300), Knobs(io_weight=400))


def test_a_restarted_daemon_records_nothing_of_found_pods(node):
    node.create("app", wish=weighing(10000))
    assert limits(Node().happen(node.listing())) == []


def told(outcome: Outcome) -> list[tuple[Knobs, Knobs]]:
    return [(one.before, one.after) for one in limits(outcome)]


BOX = Knobs(cpus="0-7", shares=2)
SLOWED, SLOWER = (replace(SHARED, handler="pod", knobs=Knobs(burst=burst)) for burst in (200, 500))


def test_a_pod_reclaimed_by_reload_has_its_values_recorded():
    node = Node()
    node.create("app", wish=SHARED)
    outcome = node.reconfigure(wishes={"app": RECLAIMED}, pod_wishes={"web": RECLAIMED})
    assert told(outcome) == [(Knobs(), BOX._replace(io_weight=RECLAIMED.knobs.io_weight))]


def test_a_reload_that_takes_it_out_tells_what_its_cgroup_had():
    node = Node()
    node.start_pod("web", RECLAIMED)
    node.create("app", wish=RECLAIMED)
    outcome = node.reconfigure(wishes={"app": SHARED}, pod_wishes={"web": SHARED})
    assert [before for before, _ in told(outcome)] == [BOX._replace(io_weight=RECLAIMED.knobs.io_weight)]


def test_a_vms_pod_is_recorded_once():
    node = Node()
    for name in ("a", "b"):
        node.create(name, wish=SLOWED, resources=Resources(quota=1000))
    outcome = node.reconfigure(wishes={"a": SLOWER, "b": SLOWER}, pod_wishes={"web": SLOWER})
    assert [(before.burst, after.burst) for before, after in told(outcome)] == [(400, 1000)]
