"""Events on a node, case by case: the situation, the event, and then the CPUs and reasons of each container.

The table below is meant to be read. Each case begins on an idle machine, has a few events (`so far`), then one more
event, and lists the CPUs afterwards. Machines: "8cpu" has cores 0-1, 2-3, 4-5, 6-7 on two sockets and memory nodes;
"4node" four nodes of four CPUs; "2cpu" two cores without threads.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import ISOLATED, Numa, Placement, Resources
from nri_coloc.placing import reclaim_cgroups
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, SYSTEM, Node, asking, audit, machine, said

Happening = Callable[[Node], Outcome]


@dataclass(frozen=True)
class Case:
    """Hold one case of the table.

    where: CPUs of containers and pools by name afterwards.
    why: reasons of the decisions, in order.
    """

    story: str
    event: Happening
    where: dict[str, str]
    why: list[str]
    so_far: tuple[Happening, ...] = ()
    machine: str = "8cpu"
    tuning: Tuning = field(default_factory=Tuning)
    moved: str = ""


def web(milli: int = 2000, **wish: Any) -> Happening:
    """Return the creation of a dedicated container `web`; its pod has the same name."""
    return lambda node: node.create("web", milli, replace(DEDICATED, **wish), on="web")


def db(milli: int = 2000) -> Happening:
    return lambda node: node.create("db", milli, on="db")


def sidecar(milli: int = 100) -> Happening:
    return lambda node: node.create("log", milli, on="web")


def online(node: Node) -> Outcome:
    return node.create("shop", 500, SHARED, on="shop")


def batch(node: Node) -> Outcome:
    return node.create("job", 0, RECLAIMED, on="job")


def agent(node: Node) -> Outcome:
    return node.create("agent", 100, SYSTEM, on="agent")


def ends(name: str) -> Happening:
    return lambda node: node.stop(name)


def restart(node: Node) -> Outcome:
    """Return the outcome of a restart: the plugin has no memory, and the runtime lists everything."""
    fresh = Node(tuning=node.tuning, state=Node("8cpu", node.tuning).state)
    outcome = fresh.happen(node.listing())
    node.state = fresh.state
    return outcome


CASES = (
    Case(
        "an online container comes: it shares every CPU with its like",
        online,
        {"shop": "0-7", "share": "0-7"},
        ["pool_member"],
    ),
    Case(
        "a batch container runs in the reclaim pool, which has the CPUs of share until CPUs are lent",
        batch,
        {"job": "0-7", "reclaim": "0-7"},
        ["box_member", "box_member"],  # of the container, and of its pod's cgroup
    ),
    Case(
        "a node agent has the reserved CPUs, no other container has them",
        agent,
        {"agent": "0-7", "shop": "2-7", "share": "2-7", "reserved": "0-1"},
        ["pool_member"],
        so_far=(online,),
        tuning=Tuning(reserved=0b11),
    ),
    Case(
        "a dedicated container takes a whole core; all other containers leave it, agents too",
        web(),
        {"web": "0-1", "shop": "2-7", "job": "2-7", "agent": "2-7", "system": "2-7"},
        ["whole_core", "cpus_taken", "cpus_taken", "cpus_taken"],
        so_far=(online, batch, agent),
        moved="shop agent + job",
    ),
    Case(
        "a second one takes the next core of the same node: what stays free stays whole",
        db(),
        {"web": "0-1", "db": "2-3", "share": "4-7"},
        ["whole_core", "cpus_taken"],
        so_far=(web(),),
    ),
    Case(
        "a third needs more than the first node has left: it takes the other node whole",
        lambda node: node.create("big", 4000, on="big"),
        {"big": "4-7", "share": "2-3"},
        ["whole_node", "cpus_taken"],
        so_far=(web(),),
    ),
    Case(
        "no node holds the request: whole cores of both",
        web(5000),
        {"web": "0-4", "share": "5-7"},
        ["across_nodes", "cpus_taken"],
    ),
    Case(
        "an odd CPU is taken from a broken core, so that whole ones stay whole",
        db(1000),
        {"web": "0-2", "db": "3", "share": "4-7"},
        ["threads", "cpus_taken"],
        so_far=(web(3000),),
    ),
    Case(
        "everything is asked for: the last CPU of share is never taken, it runs in share",
        web(8000),
        {"web": "0-7", "dedicated": ""},
        ["no_free_cpus"],
    ),
    Case(
        "of a machine of two CPUs one can be owned, not both",
        db(1000),
        {"web": "0", "db": "1", "share": "1"},
        ["no_free_cpus"],
        so_far=(web(1000),),
        machine="2cpu",
    ),
    Case(
        "bound to one memory node, it gets CPUs and memory there",
        web(2000, numa=Numa.SINGLE, numa_ids=0b10),
        {"web": "4-5"},
        ["whole_core", "cpus_taken"],
    ),
    Case(
        "a whole node without a request for it is denied; the container is bound to one node",
        web(3000, numa=Numa.EXCLUSIVE),
        {"web": "0-2"},
        ["threads", "not_allowed", "cpus_taken"],
    ),
    Case(
        "spread: the nodes take turns",
        web(2000, placement=Placement.SPREAD),
        {"web": "0,4"},
        ["across_nodes", "cpus_taken"],
    ),
    Case(
        "a sidecar of a dedicated pod runs on its main container's CPUs",
        sidecar(),
        {"log": "0-1", "share": "2-7"},
        ["follows_main"],
        so_far=(web(),),
    ),
    Case(
        "a sidecar that comes first runs in share until the main container comes",
        web(),
        {"log": "0-1", "web": "0-1", "share": "2-7"},
        ["whole_core", "main_came", "cpus_taken"],
        so_far=(sidecar(),),
        moved="log",
    ),
    Case(
        "the main container ends: the sidecar runs in share",
        ends("web"),
        {"log": "0-7", "dedicated": ""},
        ["stopped", "main_gone", "cpus_returned"],
        so_far=(web(), sidecar()),
        moved="log",
    ),
    Case(
        "a dedicated container ends: its core is everybody's again",
        ends("web"),
        {"shop": "0-7", "job": "0-7"},
        ["stopped", "cpus_returned", "cpus_returned"],
        so_far=(online, batch, web()),
        moved="shop + job",
    ),
    Case(
        "its pod is removed: the same, for all of its containers at once",
        lambda node: node.remove_pod("web"),
        {"share": "0-7"},
        ["removed", "removed", "cpus_returned"],
        so_far=(web(), sidecar()),
    ),
    Case(
        "an online container in a batch pod: the pod leaves the reclaim cgroups, its batch container does not",
        lambda node: node.create("api", 500, SHARED, on="job"),
        {"api": "0-7", "job": "0-7"},
        ["pool_member", "pool_member"],  # of the container, and of the pod's cgroup
        so_far=(batch,),
        moved="job + job",
    ),
    Case(
        "the kubelet sets CPUs: ours hold",
        lambda node: node.update("shop", Resources(cpus="0")),
        {"shop": "2-7"},
        ["kubelet_update"],
        so_far=(online, web()),
    ),
    Case(
        "the kubelet resizes a dedicated container up: it grows beside what it has, the others leave",
        lambda node: node.update("web", Resources(shares=4096)),
        {"web": "0-3", "shop": "4-7"},
        ["grown", "cpus_taken"],
        so_far=(online, web()),
        moved="shop web",
    ),
    Case(
        "the kubelet resizes a dedicated container down: what it gives back is everybody's",
        lambda node: node.update("web", Resources(shares=1024)),
        {"web": "0", "shop": "1-7"},
        ["shrunk", "cpus_returned"],
        so_far=(online, web()),
        moved="web shop",
    ),
    Case(
        "the kubelet resizes beyond what is free: the old set stays, and the audit says why",
        lambda node: node.update("web", Resources(shares=8192)),
        {"web": "0-1", "shop": "2-7"},
        ["resize_unmet"],
        so_far=(online, web()),
    ),
    Case(
        "the kubelet resizes a shared container: no container moves",
        lambda node: node.update("shop", Resources(shares=4096)),
        {"shop": "2-7"},
        ["kubelet_update"],
        so_far=(online, web()),
    ),
    Case(
        "a container starts that we were never asked about: it is placed now, by file",
        lambda node: node.start("web", on="web", milli=1000),
        {"web": "0"},
        ["placed_at_start", "cpus_taken"],
    ),
    Case(
        "the operator reserves a core that is owned: its owner gets another one",
        lambda node: node.reconfigure(Tuning(reserved=0b11)),
        {"web": "2-3", "shop": "4-7", "reserved": "0-1"},
        ["reconfigured", "reconfigured"],
        so_far=(online, web()),
        moved="shop web",
    ),
    Case(
        "a start failed and the kubelet tries again: the next attempt has the CPUs of the dead one",
        lambda node: node.attempt("web-1", "web", 7000),
        {"web-1": "0-6", "share": "7"},
        ["superseded", "cpus_returned", "across_nodes", "cpus_taken"],
        so_far=(lambda node: node.attempt("web-0", "web", 7000),),
    ),
    Case(
        "a container that found no free CPU gets its own when there are some",
        lambda node: node.free(),
        {"web": "0-1", "shop": "2-7"},
        ["cpus_freed", "cpus_taken"],
        so_far=(online, db(7000), lambda node: node.run("web", 2000, on="web"), ends("db")),
        moved="shop web",
    ),
    Case(
        "CPUs that were offline are back: the dedicated container has CPUs of its own again",
        lambda node: node.free(),
        {"web": "0-1", "shop": "2-7"},
        ["cpus_freed", "cpus_taken"],
        so_far=(
            online,
            lambda node: node.run("web", 2000, on="web"),
            lambda node: node.reconfigure(topology=machine("1cpu")),
            lambda node: node.reconfigure(topology=machine("8cpu")),
        ),
        moved="shop web",
    ),
    Case(
        "the plugin restarts: containers keep their CPUs by their records",
        restart,
        {"web": "0-1", "db": "2-3", "log": "0-1", "shop": "4-7"},
        ["restored", "restored", "pool_member", "follows_main", "reconfigured"],
        so_far=(online, web(), db(), sidecar()),
        moved="shop web db log",
    ),
    Case(
        "the runtime lists only known containers: nothing changes",
        lambda node: node.synchronize(),
        {"web": "0-1", "shop": "2-7"},
        [],
        so_far=(online, web()),
        moved="shop web",
    ),
    Case(
        "it is to be bound to a node, but the tightest has its memory promised: the next one with memory",
        web(numa=Numa.SINGLE, knobs=Knobs(memory_limit=10 << 30)),
        {"db": "0-1", "web": "4-5"},
        ["whole_core", "cpus_taken"],
        so_far=(
            lambda node: node.create(
                "db",
                wish=replace(DEDICATED, numa=Numa.SINGLE),
                on="db",
                resources=asking(2000, memory_limit=10 << 30),
            ),
        ),
    ),
    Case(
        "no node has so much memory: its CPUs are of one node, its memory may lie anywhere",
        web(numa=Numa.SINGLE, knobs=Knobs(memory_limit=40 << 30)),
        {"web": "0-1"},
        ["memory_unbound", "cpus_taken"],
    ),
    Case(
        "isolated CPUs are for containers that ask for them",
        web(pool=ISOLATED),
        {"web": "2-3", "db": "0-1", "share": "4-5,7"},
        ["whole_core"],
        so_far=(db(),),
        machine="isolated",
    ),
    Case(
        "on a hybrid machine the fast cores go first",
        web(4000),
        {"web": "0-3", "share": "4-23"},
        ["whole_cores", "cpus_taken"],
        machine="hybrid",
    ),
    Case(
        "what the fast cores cannot hold is had of the small ones, not of both",
        web(6000),
        {"db": "0-11", "web": "16-21", "share": "12-15,22-23"},
        ["whole_cores", "cpus_taken"],
        so_far=(db(12000),),
        machine="hybrid",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_case(case):
    node = Node(case.machine, case.tuning)
    for earlier in case.so_far:
        earlier(node)
    outcome = case.event(node)
    assert [reason for _, reason in said(outcome)] == case.why
    assert {name: where(node, name) for name in case.where} == case.where
    containers, _, pods = case.moved.partition(" + ")
    assert set(outcome.moves.containers) == set(containers.split())
    if pods:
        assert set(outcome.moves.pods) == set(pods.split())


def where(node: Node, name: str) -> str:
    return node.cpus(name) if name in node.state.containers else node.pool(name)


class TestTheDesignsExample:
    """Test DESIGN 4.8 to the letter: pod shop/web, container app, 1.5 CPUs, on an idle node of eight.

    Its `mems` is "0" although the container is not bound: only node 0 of this machine has memory.
    """

    FIGURES: ClassVar[dict[str, Any]] = {
        "request_milli": 1500,
        "n": 2,
        "free": "0-7",
        "node": 0,
        "node_free": 4,
    }

    def played(self) -> tuple[Node, Outcome]:
        node = Node("node-without-memory")
        node.create("one", 500, SHARED, on="one")
        node.create("two", 500, SHARED, on="two")
        spec = Resources(shares=1536, quota=150_000, period=100_000)
        return node, node.create("app", on="web", resources=spec)

    def test_the_reply(self):
        node, _ = self.played()
        assert node["app"].knobs == Knobs(cpus="0-1")

    def test_the_two_sharers(self):
        node, outcome = self.played()
        assert outcome.moves.containers == outcome.waits_for.containers == ("one", "two")
        assert node.cpus("one") == node.cpus("two") == "2-7"

    def test_the_audit(self):
        _, outcome = self.played()
        record = audit(outcome)[0]
        assert (record.event.value, record.namespace, record.pod) == ("container.admit", "shop", "web")
        assert (record.container, record.class_, record.pool) == ("app", "dedicated", "dedicated")
        assert (record.before, record.after) == ({}, {"cpus": "0-1"})
        assert record.reason.value == "whole_core"
        assert self.FIGURES.items() <= record.extra["inputs"].items()

    def test_the_state(self):
        node, _ = self.played()
        assert (node["app"].qos.value, node["app"].pool) == ("dedicated", "dedicated")
        assert (node.cpus("app"), node.state.mems_of(node["app"])) == ("0-1", 0b1)
        assert node["app"].exclusive

    def test_the_pools(self):
        node, _ = self.played()
        pools = {name: node.pool(name) for name in ("dedicated", "share", "reclaim")}
        assert pools == {"dedicated": "0-1", "share": "2-7", "reclaim": "2-7"}


def test_a_reclaimed_pod_has_the_pools_cpus_from_its_start():
    node = Node()
    node.start_pod("job")
    assert reclaim_cgroups.knobs(node.state, "job") == Knobs(cpus="0-7", shares=2)
    node.create("web", 2000, on="web")
    assert reclaim_cgroups.knobs(node.state, "job") == Knobs(cpus="2-7", shares=2)
