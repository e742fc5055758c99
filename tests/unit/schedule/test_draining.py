"""schedule/draining.py: reclaimed pods that still run, and why."""

from dataclasses import replace

from nri_coloc.core.events import PodStarted
from nri_coloc.schedule import ON, Lending, at, running_pods, still_runs, switched_off
from tests.unit.placing.kit import RECLAIMED, SHARED, Node, pod
from tests.unit.schedule.kit import NIGHT, in_berlin

NOW_S = in_berlin("2026-11-26T23:00").timestamp()


def drained(grace_s: float) -> Lending:
    return at(NIGHT, NOW_S, switched_off(ON, NOW_S, grace_s, drain=True))


def test_online_pods_are_not_listed():
    node = Node()
    node.create("web", wish=SHARED)
    assert running_pods(node.state) == ()


def test_reclaimed_pods_are_listed_by_name():
    node = Node()
    node.create("web", wish=SHARED)
    for name in ("second", "first"):
        node.create(f"job-of-{name}", wish=RECLAIMED, on=name)
    assert running_pods(node.state) == ("shop/first", "shop/second")


def test_a_reclaimed_container_beside_online_ones_counts():
    node = Node()
    node.create("web", wish=SHARED)
    node.create("indexer", wish=RECLAIMED)
    assert running_pods(node.state) == ("shop/web",)


def test_a_sandbox_without_containers_counts():
    node = Node()
    node.happen(PodStarted(pod("batch"), replace(RECLAIMED, handler="ignore")))
    assert running_pods(node.state) == ("shop/batch",)


def test_within_the_grace_a_pod_may_finish():
    assert still_runs("shop/first", drained(600)) == "it may run on until the grace is over"


def test_after_the_grace_the_remedy_is_named():
    assert still_runs("shop/first", drained(0)).endswith("`kubectl delete pod -n shop first` ends it")
