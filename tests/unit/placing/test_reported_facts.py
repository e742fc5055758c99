"""The companion's facts move a pod's memory protection: down to any request, up to the requests that scores prove."""

from dataclasses import replace

from nri_coloc.core.decisions import ContainerCreating, FactsReported, Outcome
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import Facts, Owner, PodFacts
from nri_coloc.core.reasons import is_of_lending
from nri_coloc.core.workload import Container, Pod
from nri_coloc.placing import protection
from tests.unit.placing.kit import SHARED, Node, said

POD = Pod("web", "u1", "web", "shop", cgroup_parent="/kubepods/burstable/podweb")


class Protected:
    """A node with a Burstable pod whose containers, by their scores, ask for all of their memory."""

    def __init__(self, *scores: int) -> None:
        self.node = Node()
        self.part = self.node.state.topology.memory_bytes // 1000
        for number, score in enumerate(scores):
            own = self.node.state.topology.memory_bytes * (1000 - score) // 1000
            wish = replace(SHARED, knobs=Knobs(memory_min=own))
            asked = Container(f"web-{number}", "web", f"c{number}", oom_score_adj=score)
            self.node.happen(ContainerCreating(POD, asked, wish))

    def told(self, *requests: int, name: str = "web") -> Outcome:
        """Report the pod's memory request in thousandths of the node; without one, report no pod."""
        found = [
            Facts(
                uid="u1",
                namespace="shop",
                name=name,
                owner=Owner(),
                priority=0,
                cpu_milli=0,
                memory_bytes=self.part * each,
            )
            for each in requests
        ]
        return self.node.happen(FactsReported(PodFacts({each.uid: each for each in found})))

    @property
    def thousandths(self) -> int:
        """Return the pod's protection, thousandths of the node's memory."""
        return round(protection.of_pod(self.node.state, "web").min / self.part)


def test_a_request_of_several_containers_is_protected():
    pod = Protected(900, 800)
    assert pod.thousandths == 200
    pod.told(300)
    assert pod.thousandths == 300


def test_a_lower_request_lowers_the_protection():
    pod = Protected(800)
    pod.told(50)
    assert pod.thousandths == 50


def test_equal_scores_prove_one_request():
    pod = Protected(900, 900, 800)
    pod.told(900)
    assert pod.thousandths == 300


def test_facts_of_another_pod_do_not_count():
    pod = Protected(900, 800)
    pod.told(300, name="api")
    assert pod.thousandths == 200


def test_facts_before_the_sandbox_count_at_creation():
    pod = Protected()
    pod.told(50)
    asked = Container("c", "web", "c", oom_score_adj=800)
    wish = replace(SHARED, knobs=Knobs(memory_min=200 * pod.part))
    outcome = pod.node.happen(ContainerCreating(POD, asked, wish))
    assert pod.thousandths == 50
    assert outcome.decisions[-1].reason == "protected"


def test_a_change_is_recorded_with_its_figures():
    pod = Protected(900, 800)
    outcome = pod.told(250)
    (decision,) = outcome.decisions
    assert said(outcome) == [("pod.limit", "pod_facts")]
    assert outcome.moves.pods == ("web",)
    assert decision.because == "memory protection changed: the companion reported the pod's memory request"
    assert dict(decision.inputs or {})["told_request_bytes"] == 250 * pod.part


def test_equal_protection_is_no_record():
    pod = Protected(900, 800)
    pod.told(400)
    assert pod.told(401).decisions == ()


def test_a_pod_without_facts_has_its_certain_request():
    pod = Protected(900, 800)
    pod.told(300)
    outcome = pod.told()
    assert pod.thousandths == 200
    assert "no longer reports" in outcome.decisions[0].because


def test_records_of_facts_push_out_no_admission():
    (decision,) = Protected(800).told(50).decisions
    assert is_of_lending(decision.event, decision.reason)
