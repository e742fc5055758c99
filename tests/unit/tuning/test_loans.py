"""Loans follow a capacity that lasts: only then the policy, the actuator and the pusher get new values."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nri_coloc.core.decisions import FactsReported, Moves
from nri_coloc.core.knobs import NO_KNOBS, Capability, Knobs
from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner, PodFacts
from nri_coloc.core.seams import Change
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.placing import change
from nri_coloc.placing.node import Node
from nri_coloc.runtime.pusher import Pusher, SpecUpdates
from nri_coloc.tuning import loans as module
from nri_coloc.tuning.loans import Loans
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit
from tests.unit.runtime.test_pusher import Runtime

GI = 1 << 30
LOAN = Knobs(shares=2048, quota=200_000, period=100_000, memory_limit=GI)
LENT = replace(
    kit.RECLAIMED,
    knobs=LOAN,
    annotated=LOAN,
    origins=(("lent-quota", "x", "2000"), ("memory-limit", "y", "1Gi")),
)
DWELL = Tuning().reclaim.amounts.dwell_s


class Rig:
    def __init__(self, tuning: Tuning | None = None) -> None:
        self.node = a_node(tuning)
        self.report, self.heard = a_report(self.node)
        self.capacity = Capacity(2000, GI, Binding.FORECAST)
        self.in_use: int | None = 100 << 20
        self.loans = Loans(self.node, lambda: self.capacity, lambda _: self.in_use, self.report)
        self.changes: list[Change] = []
        self.now = 0.0
        create(self.node, "job", LENT, 0, on="batch")

    def look(self, after: float = module.EVERY_S) -> None:
        self.now += after
        self.loans.look(self.now, (self.changes.append, self.report.changed))

    def lasts(self, cpu: int, memory: int = GI) -> None:
        self.capacity = Capacity(cpu, memory, Binding.FORECAST)
        self.look()
        self.look(DWELL)

    @property
    def granted(self) -> Knobs:
        granted: Knobs = self.node.state.containers["job"].granted
        return granted


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_capacity_that_lasts_is_shared_out_and_pushed(rig):
    rig.lasts(1000)
    assert rig.granted == Knobs(shares=1024, quota=100_000)
    assert [change.moves for change in rig.changes] == [Moves(containers=("job",))]
    assert [change.specs for change in rig.changes] == [("job",)]
    assert rig.heard.said() == [("container.update", "rebalanced")]


def told(node: Node, name: str, lent: Lent) -> None:
    """Let the companion report that the spec of a pod requests lent resources."""
    pod = node.state.pods[node.state.containers[name].container.pod_id].pod
    facts = Facts(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        owner=Owner(),
        priority=0,
        cpu_milli=0,
        memory_bytes=0,
        containers=(ContainerFacts(name, Kind.MAIN, 0, 0, lent),),
    )
    node.decide(FactsReported(PodFacts({pod.uid: facts})))


def test_a_loan_that_no_spec_requests_is_lowered_first(rig):
    create(rig.node, "other", LENT, 0, on="second")
    told(rig.node, "job", Lent())
    rig.lasts(2000, 2 * GI)
    granted = {one.id: one.granted for one in rig.node.state.containers.values()}
    assert granted == {"job": Knobs(shares=2, quota=1000), "other": NO_KNOBS}


def test_before_it_has_lasted_nothing_changes(rig):
    rig.capacity = Capacity(1000, GI, Binding.FORECAST)
    rig.look()
    rig.look(DWELL / 2)
    assert (rig.granted, rig.changes) == (NO_KNOBS, [])


def test_what_is_back_for_long_is_given_back(rig):
    rig.lasts(1000)
    rig.lasts(4000)
    assert rig.granted == NO_KNOBS
    assert len(rig.changes) == 2


def test_it_is_asked_no_oftener_than_it_is_worth(rig):
    asked = []

    def capacity() -> Capacity:
        asked.append(1)
        return Capacity(1000, GI, Binding.FORECAST)

    rig.loans._capacity = capacity
    rig.look()
    rig.look(0.1)
    assert len(asked) == 1


def test_a_capacity_that_is_not_known_takes_nothing(rig):
    rig.lasts(1000)
    rig.capacity = Capacity(0, 0, Binding.STALE)
    rig.look(DWELL)
    rig.look(DWELL)
    assert rig.granted == Knobs(shares=1024, quota=100_000)


def test_memory_stays_above_use_and_unread_limits_stay(rig):
    rig.lasts(2000, GI // 2)
    assert rig.granted == Knobs(memory_limit=GI // 2)
    other = Rig()
    other.in_use = None
    other.lasts(2000, GI // 2)
    assert other.granted == NO_KNOBS


def test_a_learning_pods_requests_take_nothing(rig):
    rig.capacity = Capacity(100, GI, Binding.LEARNING, borne_milli=7000, borne_bytes=GI)
    for _ in range(3):
        rig.look(DWELL)
    assert (rig.granted, rig.changes) == (NO_KNOBS, [])


def test_lasting_use_takes_its_part_at_once(rig):
    rig.capacity = Capacity(100, GI, Binding.LEARNING, borne_milli=1000, borne_bytes=GI)
    for _ in range(3):
        rig.look(DWELL)
    assert rig.granted == Knobs(shares=1024, quota=100_000)


def grows_while_away(rig: Rig, in_use: int | None) -> None:
    """Lower the loan's memory limit to half; before it is pushed, use becomes `in_use` bytes."""
    rig.lasts(2000, GI // 2)
    rig.in_use = in_use


def test_an_outgrown_lowered_limit_is_raised_before_its_push(rig):
    grows_while_away(rig, GI // 2)
    assert rig.loans.ease("job")
    assert rig.granted == Knobs(memory_limit=GI // 2 + (64 << 20))
    assert rig.heard.said() == [("container.update", "rebalanced")] * 2
    assert rig.heard.records[-1].extra["inputs"]["in_use_bytes"] == GI // 2


def test_one_that_has_room_is_told_as_it_was_decided(rig):
    grows_while_away(rig, GI // 4)
    assert rig.loans.ease("job")
    assert rig.granted == Knobs(memory_limit=GI // 2)


def test_one_of_a_container_that_cannot_be_read_is_not_told(rig):
    grows_while_away(rig, None)
    assert not rig.loans.ease("job")
    assert rig.granted == Knobs(memory_limit=GI // 2)


def test_who_has_the_whole_loan_is_not_even_read(rig):
    rig.in_use = None
    assert rig.loans.ease("job")
    assert rig.loans.ease("gone")


def test_an_observer_raises_no_limit_before_pushes(rig):
    grows_while_away(rig, GI)
    rig.node.tuning = Tuning(observe=True)
    assert rig.loans.ease("job")
    assert rig.granted == Knobs(memory_limit=GI // 2)


def test_a_preserved_limit_is_not_read(rig):
    grows_while_away(rig, None)
    job = rig.node.state.containers["job"]
    kept = replace(job, wish=replace(job.wish, preserve=frozenset({"memory"})))
    rig.node.state = change.with_container(rig.node.state, kept)
    assert rig.loans.ease("job")


def test_a_late_limit_is_never_below_the_use(rig):
    runtime = Runtime()
    runtime.connected = False
    rig.node.learn(Capability(cgroup=2))
    files = SimpleNamespace(remember=lambda *_: None, arrived=lambda: None, differing=lambda *_: "")
    pusher = Pusher(
        rig.node,
        rig.report,
        updates=SpecUpdates(runtime, runtime),
        loans=rig.loans,
        files=files,
        place=SimpleNamespace(pushing=lambda _: None, pushed=lambda _: None),  # this test pushes no CPUs
    )
    pusher.learned("job", LOAN)
    grows_while_away(rig, GI // 2 + (1 << 20))
    pusher._push("job")
    runtime.connected = True
    pusher._push("job")
    assert runtime.pushed == [("job", Knobs(memory_limit=GI // 2 + (65 << 20)))]


@pytest.mark.parametrize(
    ("preserve", "granted"),
    [("cpu", Knobs(memory_limit=GI // 2)), ("memory", Knobs(shares=1024, quota=100_000))],
)
def test_what_is_preserved_is_not_touched(preserve, granted):
    rig = Rig()
    create(rig.node, "job", replace(LENT, preserve=frozenset({preserve})), 0, on="batch")
    rig.lasts(1000, GI // 2)
    assert rig.granted == granted


@pytest.mark.parametrize(
    "wish", [kit.SHARED, kit.RECLAIMED, replace(LENT, handler="pod")], ids=["online", "no loan", "a VM"]
)
def test_who_was_lent_nothing_is_left_alone(wish):
    rig = Rig()
    create(rig.node, "job", wish, 0, on="batch")
    rig.lasts(1000)
    assert rig.changes == []


def test_an_observer_says_once_what_it_would_do():
    rig = Rig(Tuning(observe=True))
    rig.lasts(1000)
    rig.look()
    rig.look()
    assert rig.heard.said() == [("container.update", "rebalanced")]
    assert (rig.granted, rig.changes) == (NO_KNOBS, [])


def test_when_lending_is_switched_off_everybody_has_the_whole_loan(rig):
    rig.lasts(1000)
    rig.node.tuning = Tuning(reclaim=ReclaimTuning(enabled=False))
    rig.look()
    assert rig.granted == NO_KNOBS
    rig.look()
    assert len(rig.changes) == 2
