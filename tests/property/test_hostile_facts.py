"""With any report of a stolen companion, nothing exceeds the requests that the node proves, and no other pod loses."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.decisions import ContainerCreating, FactsReported
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner, PodFacts
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import Container, Pod, Resources
from nri_coloc.placing import pools, protection
from nri_coloc.placing.node import step
from nri_coloc.placing.protection import NONE
from nri_coloc.pods import annotations
from nri_coloc.pressure import lent
from nri_coloc.sim import machines

MACHINE = machines.topology(machines.MACHINES["8cpu"])
NODE_BYTES = MACHINE.memory_bytes
TUNING = Tuning()


@dataclass(frozen=True)
class Burstable:
    """A pod whose containers all ask for the protection of their whole requests, thousandths of the node's memory."""

    qos: str
    mains: list[int]
    sidecars: list[int]

    @property
    def requested(self) -> int:
        return sum(NODE_BYTES * each // 1000 for each in (*self.mains, *self.sidecars))

    def pod(self, name: str) -> Pod:
        asked = {"coloc.nri.io/qos-class": self.qos, "coloc.nri.io/memory-min": "100%"}
        return Pod(
            id=name,
            uid=name,
            name=name,
            namespace="shop",
            labels={},
            annotations=asked,
            cgroup_parent=f"/kubepods/burstable/pod{name}",
            cpu_request=1000,
        )

    def containers(self, name: str) -> list[Container]:
        """Return the containers with the scores of pkg/kubelet/qos/policy.go."""
        of_mains = [score(each) for each in self.mains]
        of_sidecars = [min(score(each), *of_mains) for each in self.sidecars]
        return [
            Container(f"{name}-{n}", name, f"c{n}", oom_score_adj=each, resources=Resources(1024))
            for n, each in enumerate([*of_mains, *of_sidecars])
        ]


def score(thousandths: int) -> int:
    requested = NODE_BYTES * thousandths // 1000
    return min(max(1000 - 1000 * requested // NODE_BYTES, 3), 999)


REQUESTS = st.sampled_from((0, 7, 50, 51))
PODS = st.lists(
    st.builds(
        Burstable,
        st.sampled_from(("shared", "shared", "dedicated", "reclaimed")),
        st.lists(REQUESTS, min_size=1, max_size=3),
        st.lists(REQUESTS, max_size=3),
    ),
    min_size=1,
    max_size=3,
)
AMOUNTS = st.sampled_from((NODE_BYTES, 2**63 - 1)) | st.integers(0, NODE_BYTES)
LENT = st.builds(Lent, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
CONTAINERS = st.lists(
    st.builds(
        ContainerFacts,
        st.sampled_from(["c0", "c1", "other"]),
        st.sampled_from(list(Kind)),
        AMOUNTS,
        AMOUNTS,
        LENT,
    ),
    max_size=3,
).map(tuple)
ONE = st.tuples(AMOUNTS, AMOUNTS, CONTAINERS, st.integers(-(2**31), 2**31 - 1))
FACTS = st.fixed_dictionaries({"p0": ONE}, optional={"p1": ONE, "p2": ONE, "unknown": ONE})


def running(pods: list[Burstable]) -> NodeState:
    state = pools.initial(MACHINE, TUNING)
    for number, each in enumerate(pods):
        pod = each.pod(f"p{number}")
        for container in each.containers(pod.id):
            wish = annotations.resolve(pod, container, TUNING, NODE_BYTES)
            state = step(state, ContainerCreating(pod, container, wish), TUNING).state
    return state


def reported(found: dict[str, tuple[int, int, tuple[ContainerFacts, ...], int]]) -> FactsReported:
    facts = {
        uid: Facts(
            uid=uid,
            namespace="shop",
            name=uid,
            owner=Owner(),
            priority=priority,
            cpu_milli=milli,
            memory_bytes=memory,
            containers=containers,
        )
        for uid, (milli, memory, containers, priority) in found.items()
    }
    return FactsReported(PodFacts(facts))


@given(PODS, FACTS)
def test_no_facts_exceed_proven_requests(pods, found):
    before = running(pods)
    after = step(before, reported(found), TUNING).state
    assert (after.containers, after.pools, after.owners) == (before.containers, before.pools, before.owners)
    granted = protection.granted(after, 0)
    for number, each in enumerate(pods):
        assert granted.get(f"p{number}", NONE).amount <= each.requested


@given(PODS, FACTS)
def test_facts_take_nothing_from_other_pods(pods, found):
    before = running(pods)
    after = step(before, reported(found), TUNING).state
    had, has = protection.granted(before, 0), protection.granted(after, 0)
    others = had.keys() - found.keys()
    assert {k: has[k] for k in others} == {k: had[k] for k in others}


@given(PODS, FACTS)
def test_an_empty_list_restores_the_bounds(pods, found):
    before = running(pods)
    after = step(step(before, reported(found), TUNING).state, reported({}), TUNING).state
    assert protection.granted(after, 0) == protection.granted(before, 0)


@given(PODS, FACTS)
def test_facts_lend_no_pod_beyond_its_equal_part(pods, found):
    before = running(pods)
    after = step(before, reported(found), TUNING).state
    for pod_id in after.box:
        assert 0 <= lent.memory_bytes(after, pod_id) <= NODE_BYTES // len(after.box)
        equal_milli = 1000 * MACHINE.online.bit_count() // len(after.box)
        assert lent.cpu_milli(after, pod_id) <= max(lent.cpu_milli(before, pod_id), equal_milli)
