"""hooks/translation.py: a container's DRA_CPUSET_ variables become a claim, or are denied."""

from dataclasses import replace

import pytest

from nri_coloc._pb import told_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import NO_KNOBS
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import KEPT_BY_DRA, QoSClass, Wish
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Call, Hook
from nri_coloc.placing import record
from tests.rig.told import entry
from tests.unit.parts import Requests, a_node, a_translator, create, listed
from tests.unit.placing.kit import DEDICATED

DRIVER = Tuning(dra_driver=True)


class Claiming:
    """A pod whose container has a claim, and the same CPUs in its spec."""

    def __init__(
        self,
        cpus: str = "4-5",
        shares: int = 2048,
        tuning: Tuning = DRIVER,
        level: str = "burstable",
        *,
        pod_milli: int = 0,
        asks: str = "",
    ) -> None:
        self.requests = Requests({"p": pod_milli or shares * 1000 // 1024})
        self.translator = a_translator(tuning, self.requests)
        self.tuning, self.node = tuning, a_node(tuning)
        self.pod = told_pb2.PodSandbox(id="p", name="web", namespace="shop", uid="u")
        self.pod.linux.cgroup_parent = f"/kubepods/{level}/podu"
        if asks:
            self.pod.annotations.append(entry("coloc.nri.io/qos-class", asks))
        self.container = self.claim("c", cpus, shares)
        self.node.decide(self.translator.pod_started(self.hook(HookKind.RUN_POD_SANDBOX), tuning))

    def claim(self, name: str, cpus: str, shares: int) -> told_pb2.Container:
        container = told_pb2.Container(
            id=name, pod_sandbox_id="p", name=name, env=[f"DRA_CPUSET_x={cpus}".encode()]
        )
        container.linux.resources.cpu.cpus = cpus
        container.linux.resources.cpu.shares.value = shares
        return container

    def hook(self, kind: HookKind, container: told_pb2.Container | None = None) -> Hook:
        return Hook(Call(1, kind.value, 0), kind, self.pod, container, None)

    def create(self, container: told_pb2.Container | None = None) -> Outcome:
        hook = self.hook(HookKind.CREATE_CONTAINER, container or self.container)
        return self.node.decide(self.translator.creating(hook, self.node.state, self.tuning))

    def update(self, shares: int, container: told_pb2.Container | None = None) -> Outcome:
        """Resize a container; the kubelet writes the pod's cgroup later."""
        asked = container or self.container
        wanted = told_pb2.LinuxResources()
        wanted.cpu.shares.value = shares
        hook = self.hook(HookKind.UPDATE_CONTAINER, asked)._replace(resources=wanted)
        event = self.translator.updating(hook, self.node.state, self.tuning)
        asked.linux.resources.cpu.shares.value = shares
        return self.node.decide(event)

    def resize_pod(self, milli: int) -> None:
        self.requests.by_pod["p"] = milli
        hook = self.hook(HookKind.UPDATE_POD_SANDBOX)
        event = self.translator.pod_resized(hook, self.node.state, self.tuning)
        if event is not None:
            self.node.decide(event)

    def listed(self, state: NodeState | None = None) -> Wish:
        """Return the wish after a list; without a state, the daemon has just started."""
        known = a_node().state if state is None else state
        told = listed(self.translator, [self.pod], [self.container])
        found = self.translator.synchronized(told.pods, told.containers, known, self.tuning)
        return found.containers[0][1]

    def owners(self) -> dict[str, str]:
        return {name: cpuset.render(cpus) for name, cpus in self.node.state.owners.items()}


def findings(wish: Wish) -> list[tuple[str, str, str, str]]:
    return [(f.kind.value, f.key, f.value, f.used) for f in wish.findings]


def test_cpus_of_the_driver_are_left_alone():
    claiming = Claiming()
    owned = claiming.create().state.containers["c"]
    assert (owned.qos, owned.hands_off, owned.wish.findings) == (QoSClass.DEDICATED, True, ())
    assert owned.wish.preserve == frozenset({"cpu", KEPT_BY_DRA})
    assert owned.wish.because == "the DRA CPU driver has pinned it to CPUs 4-5"
    assert (owned.wish.knobs, claiming.owners()) == (NO_KNOBS, {"c": "4-5"})


@pytest.mark.parametrize("tuning", [Tuning(), DRIVER], ids=["default", "with-a-driver"])
def test_a_best_effort_pod_takes_no_cpus(tuning):
    """The kubelet's static CPU manager writes its default set into every spec."""
    claiming = Claiming("0-7", 2, tuning, "besteffort")
    create(claiming.node, "db", DEDICATED, 4000, "db")
    before = claiming.node.state
    outcome = claiming.create()
    assert (claiming.owners(), outcome.state.pools) == ({"db": "0-3"}, before.pools)
    assert outcome.moves.containers == ()
    wish = outcome.state.containers["c"].wish
    assert (wish.qos, findings(wish)) == (
        QoSClass.RECLAIMED,
        [("annotation.denied", "DRA_CPUSET_x", "0-7", "class reclaimed")],
    )


def test_of_two_containers_with_one_claim_one_owns_it():
    claiming = Claiming(shares=4096)
    claiming.create()
    second = claiming.create(claiming.claim("d", "4-5", 2048)).state.containers["d"]
    assert (claiming.owners(), second.qos, second.hands_off) == ({"c": "4-5"}, QoSClass.SHARED, False)
    assert findings(second.wish) == [("annotation.denied", "DRA_CPUSET_x", "4-5", "class shared")]


def test_cpus_that_we_pushed_are_no_claim():
    claiming = Claiming("0-7", 8192)
    claiming.container.linux.resources.cpu.cpus = ""
    first = claiming.listed()  # adopted: the spec names no CPUs, and the daemon pushes its own
    claiming.container.linux.resources.cpu.cpus = "0-7"
    second = claiming.listed()
    assert (first.qos, first.findings) == (QoSClass.SHARED, ())
    assert (second.qos, findings(second)) == (
        QoSClass.SHARED,
        [("annotation.denied", "DRA_CPUSET_x", "0-7", "class shared")],
    )


def test_a_restart_keeps_a_claim_that_a_record_tells():
    claiming = Claiming()
    owned = claiming.create().state.containers["c"]
    claiming.container.annotations.append(entry("coloc.nri.io/record", record.write(owned)))
    assert claiming.listed().preserve == frozenset({"cpu", KEPT_BY_DRA})
    claiming.tuning = Tuning()
    assert claiming.listed().qos is QoSClass.SHARED


def test_a_start_keeps_the_decision_of_the_creation():
    claiming = Claiming()
    owned = claiming.create().state.containers["c"]
    hook = claiming.hook(HookKind.START_CONTAINER, claiming.container)
    assert claiming.translator.starting(hook, claiming.node.state, DRIVER, running=False).wish == owned.wish


@pytest.mark.parametrize("shares", [2, 1024])
def test_a_denied_claim_is_said_alike_later(shares):
    claiming = Claiming(shares=shares)
    denied = claiming.create().state.containers["c"].wish
    assert len(denied.findings) == 1
    containers, _ = claiming.translator.wishes_again(claiming.node.state, DRIVER)
    assert containers["c"] == denied
    assert claiming.listed(claiming.node.state) == denied


def test_a_request_is_read_again_before_a_claim_is_denied():
    claiming = Claiming()
    requests = Requests({"p": 2000})
    claiming.translator = a_translator(DRIVER, requests)
    place = claiming.node.state.pods["p"]
    stale = replace(place, pod=replace(place.pod, cpu_request=1000))
    claiming.node.state = replace(claiming.node.state, pods={"p": stale})
    claiming.create()
    assert (claiming.owners(), requests.reads) == ({"c": "4-5"}, 1)


def test_a_variable_without_cpus_in_the_spec_says_nothing():
    claiming = Claiming()
    claiming.container.linux.resources.cpu.cpus = ""
    wish = claiming.create().state.containers["c"].wish
    assert (wish.qos, wish.findings) == (QoSClass.SHARED, ())


@pytest.mark.parametrize(
    ("asks", "shares", "owns"),
    [("", 1025, "4-5"), ("", 1024, ""), ("dedicated", 1024, "4"), ("dedicated", 512, "")],
    ids=["covered", "of another class", "one of its CPUs", "below one CPU"],
)
def test_a_smaller_request_ends_an_uncovered_claim(asks, shares, owns):
    claiming = Claiming(asks=asks)
    claiming.create()
    outcome = claiming.update(shares)
    now = outcome.state.containers["c"]
    assert claiming.owners().get("c", "") == owns
    assert now.hands_off is (owns == "4-5")
    assert (now.id in outcome.moves.containers) is not now.hands_off
    assert now.original.cpus == (None if now.hands_off else "4-5")
    assert bool(now.wish.findings) is not now.hands_off


def test_an_ended_claim_is_said_once():
    claiming = Claiming()
    claiming.create()
    said = [each.event.value for each in claiming.update(1024).decisions]
    assert said.count("annotation.denied") == 1
    assert "annotation.denied" not in [each.event.value for each in claiming.update(1025).decisions]
    known = claiming.node.state.containers["c"].wish
    containers, _ = claiming.translator.wishes_again(claiming.node.state, DRIVER)
    assert containers["c"] == claiming.listed(claiming.node.state) == known


def test_a_claim_outlasts_smaller_requests_beside_it():
    claiming = Claiming(pod_milli=4000)
    other = claiming.claim("d", "2-3", 2048)
    claiming.create()
    claiming.create(other)
    claiming.update(1024, other)
    assert claiming.owners() == {"c": "4-5"}
    claiming.resize_pod(3000)
    assert claiming.owners() == {"c": "4-5"}


def test_a_missed_resize_ends_a_claim():
    claiming = Claiming()
    claiming.create()
    claiming.container.linux.resources.cpu.shares.value = 1024
    assert claiming.listed(claiming.node.state).qos is QoSClass.SHARED


def test_a_smaller_request_of_the_pod_ends_a_claim():
    claiming = Claiming()
    claiming.create()
    claiming.resize_pod(1000)
    assert claiming.owners() == {}
