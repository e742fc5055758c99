"""policy/protection.py: a protection counts only if every ancestor has the sum of what lies below."""

from dataclasses import replace

from nri_coloc.model.knobs import Knobs
from nri_coloc.model.workload import Wish
from nri_coloc.policy import protection
from nri_coloc.policy.protection import Protection
from tests.unit.policy.kit import SHARED, Node, said


def protected(low: int | None = None, minimum: int | None = None) -> Wish:
    return replace(SHARED, knobs=Knobs(memory_low=low, memory_min=minimum))


def test_a_pods_protection_is_the_sum_over_its_containers():
    node = Node()
    node.create("a", wish=protected(low=100, minimum=10))
    node.create("b", wish=protected(low=50))
    node.create("c", wish=protected(minimum=7), on="other")
    node.create("d", wish=SHARED, on="third")
    assert protection.by_pod(node.state) == {"web": Protection(150, 10), "other": Protection(0, 7)}


def test_an_unprotected_node_has_none():
    assert protection.by_pod(Node().state) == {}


def test_a_protected_container_raises_its_pod():
    outcome = Node().create("a", wish=protected(low=100, minimum=10))
    assert said(outcome) == [("container.admit", "pool_member"), ("pod.limit", "protected")]
    assert outcome.decisions[1].after == Knobs(memory_low=100, memory_min=10)
    assert outcome.decisions[1].because.startswith(
        "its containers asked for memory.low 100 and memory.min 10 bytes in all;"
    )
    assert outcome.moves.pods == ("web",)


def test_a_protected_container_that_ends_lowers_its_pod_again():
    node = Node()
    node.create("a", wish=protected(minimum=100))
    assert node.stop("a").moves.pods == ("web",)
    assert protection.by_pod(node.state) == {}
