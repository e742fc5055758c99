"""placing/protection.py: a protection counts only if every ancestor has the sum of all protections below it."""

from dataclasses import replace

from nri_coloc.core.decisions import ContainerCreating
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import Container, Pod, Wish
from nri_coloc.placing import protection
from nri_coloc.placing.protection import Protection
from tests.unit.placing.kit import SHARED, Node, as_listed, asking, figures, said

LIMITED = asking(0, memory_limit=1 << 30)
"""Guaranteed: the limit is the request."""


def protected(low: int | None = None, minimum: int | None = None) -> Wish:
    return replace(SHARED, knobs=Knobs(memory_low=low, memory_min=minimum))


def test_a_pods_protection_is_the_sum_over_its_containers():
    node = Node()
    node.create("a", wish=protected(low=100, minimum=10), resources=LIMITED)
    node.create("b", wish=protected(low=50), resources=LIMITED)
    node.create("c", wish=protected(minimum=7), resources=LIMITED, on="other")
    node.create("d", wish=SHARED, on="third")
    assert protection.by_pod(node.state) == {"web": Protection(150, 10), "other": Protection(0, 7)}


def test_an_unprotected_node_has_none():
    assert protection.by_pod(Node().state) == {}


def test_a_protected_container_raises_its_pod():
    outcome = Node().create("a", wish=protected(low=100, minimum=10), resources=LIMITED)
    assert said(outcome) == [("container.admit", "pool_member"), ("pod.limit", "protected")]
    assert outcome.decisions[1].after == Knobs(memory_low=100, memory_min=10)
    assert outcome.decisions[1].inputs == {"asked_low_bytes": 100, "asked_min_bytes": 10}
    assert outcome.moves.pods == ("web",)


def test_a_protected_container_that_ends_lowers_its_pod_again():
    node = Node()
    node.create("a", wish=protected(minimum=100), resources=LIMITED)
    assert node.stop("a").moves.pods == ("web",)
    assert protection.by_pod(node.state) == {}


class TestBounds:
    """A pod's protection is at most its certain request, the node's at most its memory less the reserve."""

    def burstable(self, score: int, amount: int, name: str, on: str) -> ContainerCreating:
        of = Pod(on, on, on, "shop", cgroup_parent=f"/kubepods/burstable/pod{on}")
        asked = Container(f"{on}-{name}", on, name, oom_score_adj=score)
        return ContainerCreating(of, asked, protected(minimum=amount))

    def memory(self, node: Node) -> int:
        return node.state.topology.memory_bytes

    def test_sidecars_add_nothing_to_their_pods_request(self):
        node = Node()
        tenth = self.memory(node) // 10
        for number in range(21):
            outcome = node.happen(self.burstable(900, tenth, f"c{number}", "greedy"))
        assert protection.by_pod(node.state) == {"greedy": Protection(0, tenth)}
        assert said(outcome) == [("container.admit", "pool_member")]

    def test_a_bounded_pod_has_its_bound(self):
        node = Node()
        tenth = self.memory(node) // 10
        outcome = node.happen(self.burstable(900, 2 * tenth, "app", "greedy"))
        assert figures(outcome, 1)["most_bytes"] == tenth

    def test_a_container_without_a_request_is_not_protected(self):
        node = Node()
        node.happen(self.burstable(999, 4096, "app", "greedy"))
        assert protection.by_pod(node.state) == {}

    def test_the_nodes_bound_leaves_older_pods_theirs(self):
        node = Node()
        whole = self.memory(node)
        half = whole // 2
        for on in ("first", "second", "third"):
            node.happen(self.burstable(400, half, "app", on))
        assert protection.granted(node.state, 0) == {
            "first": Protection(0, half),
            "second": Protection(0, half),
        }
        assert protection.granted(node.state, half // 2) == {
            "first": Protection(0, half),
            "second": Protection(0, half - half // 2),
        }

    def test_low_and_min_are_not_added_up(self):
        node = Node()
        whole = self.memory(node)
        for on, wish in (("a", protected(low=whole // 2)), ("b", protected(minimum=whole // 2))):
            node.happen(replace(self.burstable(400, 0, "app", on), wish=wish))
        node.happen(self.burstable(400, 4096, "app", "late"))
        assert sum(each.amount for each in protection.granted(node.state, 0).values()) == whole

    def test_an_older_pod_keeps_its_place_over_a_restart(self):
        node = Node()
        for number, on in enumerate(("old", "new"), 1):
            event = self.burstable(400, self.memory(node) // 2, "app", on)
            node.happen(event)
            node.listed[event.container.id] = as_listed(
                replace(event.container, created_at=number), node[event.container.id]
            )
        turned = node.listing()
        turned = replace(turned, pods=turned.pods[::-1])
        again = Node()
        again.happen(turned)
        assert list(protection.granted(again.state, 0)) == ["old", "new"]
        node.happen(turned)
        assert list(protection.granted(node.state, 0)) == ["old", "new"]

    def test_a_freed_amount_goes_to_the_next(self):
        node = Node()
        for on in ("first", "second"):
            node.happen(self.burstable(100, self.memory(node) * 9 // 10, "app", on))
        node.stop("first-app")
        assert protection.granted(node.state, 0) == {"second": Protection(0, self.memory(node) * 9 // 10)}
