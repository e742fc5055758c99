"""schedule/draining.py: reclaimed pods that still run, and why."""

from dataclasses import replace

from nri_coloc.core.decisions import PodStarted
from nri_coloc.schedule.draining import running_pods, still_runs, to_evict
from nri_coloc.schedule.lending import Lending, at
from nri_coloc.schedule.switch import ON, switched_off
from tests.unit.placing.kit import RECLAIMED, SHARED, Node, pod
from tests.unit.schedule.kit import NIGHT, in_berlin

NOW_S = in_berlin("2026-11-26T23:00").timestamp()
NOON_S = in_berlin("2026-11-26T12:00").timestamp()


def drained(grace_s: float) -> Lending:
    return at(NIGHT, NOW_S, switched_off(ON, NOW_S, grace_s, drain=True))


def names(places) -> list[str]:
    return [place.pod.name for place in places]


def batch(*names: str) -> Node:
    """Return a node with reclaimed pods and an online one."""
    node = Node()
    node.create("web", wish=SHARED)
    for name in names:
        node.create(f"job-of-{name}", wish=RECLAIMED, on=name)
        node.happen(PodStarted(pod(name), RECLAIMED))
    return node


def why(node: Node, lending: Lending, *, impossible: str = "", hindrance: str = "") -> str:
    (place,) = running_pods(node.state)
    return still_runs(place, lending, impossible=impossible, hindrance=hindrance)


def test_online_pods_are_not_listed():
    assert running_pods(batch().state) == ()


def test_reclaimed_pods_are_listed_by_name():
    assert names(running_pods(batch("second", "first").state)) == ["first", "second"]


def test_a_reclaimed_container_beside_online_ones_counts():
    node = batch()
    node.create("indexer", wish=RECLAIMED)
    assert names(running_pods(node.state)) == ["web"]
    assert to_evict(node.state, drained(0), lends=True) == ()
    assert why(node, drained(0)).startswith("a pod of class shared with a reclaimed container is not evicted")


def test_a_sandbox_without_containers_counts():
    node = Node()
    node.happen(PodStarted(pod("batch"), replace(RECLAIMED, handler="ignore")))
    assert names(running_pods(node.state)) == ["batch"]


def test_the_newest_pod_leaves_first():
    assert names(to_evict(batch("old", "new").state, drained(0), lends=True)) == ["new", "old"]


def test_within_the_grace_no_pod_must_leave():
    assert to_evict(batch("first").state, drained(600), lends=True) == ()
    assert why(batch("first"), drained(600)) == "it may run on until the grace is over"


def test_the_schedule_drains_only_what_is_lent():
    by_clock = at(NIGHT, NOON_S)
    assert by_clock.drains
    assert names(to_evict(batch("first").state, by_clock, lends=True)) == ["first"]
    assert to_evict(batch("first").state, by_clock, lends=False) == ()


def test_an_operator_drains_without_lending_too():
    assert names(to_evict(batch("first").state, drained(0), lends=False)) == ["first"]


def test_the_reason_of_a_pod_that_stays_is_named():
    node, lending = batch("first"), drained(0)
    assert why(node, lending) == "its eviction order follows: four at once, then one in 15 s"
    assert why(node, lending, hindrance="a budget forbids it") == "a budget forbids it"
    assert (
        why(node, lending, impossible="no companion is connected")
        == "no companion is connected; `kubectl delete pod -n shop first` ends it"
    )
