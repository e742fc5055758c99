"""pressure.starved_pods: records of reclaimed pods that wait for CPU, and the pods that are moved away."""

from typing import Any

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Headroom
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner, PodFacts
from nri_coloc.core.readings import GroupReading, NodeReading, Picture
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace, Pools
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Pod, QoSClass, Wish
from nri_coloc.placing.node import Node
from nri_coloc.pressure.starved_pods import HOLDS_S, StarvedPods

POD = Pod("p", uid="u", name="batch", namespace="shop", cgroup_parent="/kubepods/besteffort/podu")
TOPOLOGY = Topology.build([CPU(n) for n in range(8)])


class Rig:
    """A node with one reclaimed pod; `minute` takes a whole snapshot, `found` has the records."""

    def __init__(self, qos=QoSClass.RECLAIMED, kernel="PSI"):
        member = Assignment(Container("c", "p", "app"), qos, "reclaim", knobs=Knobs(shares=2048))
        state = NodeState(TOPOLOGY, Pools(), {"p": PodPlace(POD)}, Crowd.of((member,)))
        self.node = Node(state, Tuning(), 1 << 30)
        self.found: list[Any] = []
        self.picture: Picture | None = None
        self.headroom = Headroom(cpu_milli=8000)
        self._kernel = kernel
        self._at = self._used_us = self._waited_us = 0.0
        self._throttled_us = 0
        self.pods = StarvedPods(self.node, self, picture=lambda: self.picture, headroom=lambda: self.headroom)

    def request(self, cpu_milli, knobs, origins=()):
        """Let the companion report a request of lent CPU in the pod's spec."""
        spec = ContainerFacts("app", Kind.MAIN, 0, 0, Lent(cpu_milli=cpu_milli))
        facts = Facts(
            "u", "shop", "batch", Owner(), priority=0, cpu_milli=0, memory_bytes=0, containers=(spec,)
        )
        state = self.node.state
        wish = Wish(QoSClass.RECLAIMED, origins=origins)
        member = replace(state.containers["c"], wish=wish, knobs=knobs)
        self.node.state = replace(state, containers=Crowd.of((member,)), facts=PodFacts({"u": facts}))

    def decided(self, decisions, state, previous):
        self.found += decisions

    def minute(self, used_milli, waited, throttled=0.0):
        self._at += 60
        self._throttled_us += round(throttled * 60e6)
        self._used_us += used_milli * 60_000
        self._waited_us += waited * 60e6
        self._take(self._container())
        self.pods.look()

    def _container(self):
        us = round(self._waited_us)
        if self._kernel == "PSI":
            return GroupReading(2, self._at, cpu_stall_us=us, throttled_us=self._throttled_us)
        return GroupReading(2, self._at, run_delay_us=us)

    def between(self):
        """Take a snapshot of amounts only."""
        self._take(GroupReading(2, self._at))
        self.pods.look()

    def _take(self, container):
        pod = GroupReading(1, self._at, usage_us=round(self._used_us))
        self.picture = Picture(self._at, NodeReading(self._at), pods={"p": pod}, containers={"c": container})


@pytest.mark.parametrize("kernel", ["PSI", "run-queue delay"])
def test_a_starved_pod_is_recorded(kernel):
    rig = Rig(kernel=kernel)
    for _ in range(4):
        rig.minute(used_milli=5, waited=0.9)
        rig.between()
    [said] = rig.found
    assert (said.event, said.reason, said.pod_id) == (AuditEvent.POD_STARVED, Reason.WITHOUT_CPU, "p")
    assert (said.inputs["used_milli"], said.inputs["granted_milli"]) == (5, 2000)
    assert (said.inputs["waited"], said.inputs["starved_s"]) == (0.9, 180)


def test_a_loan_counts_as_far_as_the_spec_requests_it():
    rig = Rig()
    rig.request(300, knobs=Knobs(shares=2048), origins=(("lent-shares", "theirs", "2000"),))
    for _ in range(4):
        rig.minute(used_milli=5, waited=0.9)
    assert [said.inputs["granted_milli"] for said in rig.found] == [300]


def test_a_request_of_the_spec_alone_is_a_grant():
    rig = Rig()
    rig.request(4000, knobs=Knobs())
    for _ in range(4):
        rig.minute(used_milli=150, waited=0.9)
    assert [said.inputs["granted_milli"] for said in rig.found] == [4000]


def test_a_false_request_is_an_equal_part_at_most():
    rig = Rig()
    rig.request(1 << 40, knobs=Knobs())
    for _ in range(4):
        rig.minute(used_milli=150, waited=0.9)
    assert [said.inputs["granted_milli"] for said in rig.found] == [8000]


def test_a_suppressed_pod_is_recorded():
    rig = Rig()
    rig.headroom = Headroom(cpu_milli=300)
    for _ in range(11):
        rig.minute(used_milli=900, waited=0.9)
    assert [said.reason for said in rig.found] == [Reason.SUPPRESSED]


def test_a_starved_and_suppressed_pod_has_both_records():
    rig = Rig()
    rig.headroom = Headroom(cpu_milli=300)
    rig.minute(used_milli=900, waited=0.9)
    rig.minute(used_milli=900, waited=0.9)
    for _ in range(9):
        rig.minute(used_milli=5, waited=0.9)
    assert [said.reason for said in rig.found[-2:]] == [Reason.WITHOUT_CPU, Reason.SUPPRESSED]


def test_a_pod_that_its_own_quota_holds_back_lacks_nothing():
    rig = Rig()
    for _ in range(5):
        rig.minute(used_milli=5, waited=0.9, throttled=0.9)
    assert rig.found == []


def test_an_online_pod_is_not_judged():
    rig = Rig(qos=QoSClass.SHARED)
    for _ in range(5):
        rig.minute(used_milli=5, waited=0.9)
    assert rig.found == []


def test_the_same_snapshot_counts_once():
    rig = Rig()
    rig.minute(used_milli=5, waited=0.9)
    rig.minute(used_milli=5, waited=0.9)
    for _ in range(9):
        rig.pods.look()
    assert rig.found == []


def test_a_moved_pod_had_its_record_before():
    rig = Rig()
    for _ in range(5):
        rig.minute(used_milli=5, waited=0.9)
        assert not rig.pods.moved.pods or rig.found
    assert not rig.pods.moved.pods
    rig.minute(used_milli=5, waited=0.9)
    assert rig.pods.moved.pods == {"p"}


@pytest.mark.parametrize(
    ("began_s", "age_s", "moved"),
    [(0.0, 1.0, {"p"}), (61.0, 1.0, set()), (0.0, HOLDS_S, set())],
    ids=["fresh", "starved for less since then", "stale"],
)
def test_an_old_verdict_moves_no_pod(began_s, age_s, moved):
    rig = Rig()
    for _ in range(6):
        rig.minute(used_milli=5, waited=0.9)
    found = rig.pods.moved
    assert found.since(began_s, found.at + age_s) == moved


@pytest.mark.parametrize(
    "reclaim", [ReclaimTuning(lend=0), ReclaimTuning(paused="for a test")], ids=["schedule", "operator"]
)
def test_a_pod_is_meant_to_wait_while_lending_is_off(reclaim):
    rig = Rig()
    rig.node.tuning = Tuning(reclaim=reclaim)
    for _ in range(9):
        rig.minute(used_milli=5, waited=0.9)
    assert (rig.found, rig.pods.moved.pods) == ([], frozenset())
