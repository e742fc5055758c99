"""Lent amounts of containers follow the amounts that can be lent: pushed seldom, once each, and read back."""

import json
from collections.abc import Iterator

import pytest

from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest
from tests.integration.harness import Lasting, assert_unhurt, daemon_of, file, served, shared
from tests.rig import brief_daemon
from tests.rig.daemon import Daemon
from tests.rig.waiting import poll, wait_until

GIB = 1 << 30
LENDING = "reclaim: {enabled: true}\n"
SPEC = "node.koordinator.sh/extended-resource-spec"
LENT_MILLI = 3000
SOON_S = 60
"""The dwell and some looks, on a machine with something else to do."""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request: pytest.FixtureRequest, tmp_path) -> Iterator[Lasting]:
    with Node(tmp_path, "8cpu", cgroup=request.param) as node:
        node.start_clock()
        with daemon_of(node, config=LENDING, program=brief_daemon.PROGRAM) as daemon:
            yield Lasting(node, served(daemon))


def lent(node: Node, name: str, memory: int = 0, **annotations: str) -> str:
    """Run a reclaimed container that was lent three CPUs and wants more.

    memory: bytes that it was lent; 0: none.
    """
    amounts = {
        "requests": {"kubernetes.io/batch-cpu": LENT_MILLI},
        "limits": {"kubernetes.io/batch-cpu": LENT_MILLI}
        | ({"kubernetes.io/batch-memory": memory} if memory else {}),
    }
    told = {SPEC: json.dumps({"containers": {"app": amounts}}), **annotations}
    pod = node.run_pod(PodRequest(name, "shop", KubeQoS.BEST_EFFORT, told))
    container = node.run_container(pod, ContainerRequest("app", Resources(shares=2)))
    node.set_demand(container, 8)
    return container


def in_spec(node: Node, container: str) -> tuple[int, int]:
    """Return shares and quota of the runtime's spec."""
    cpu = node.runtime.containers[container].resources.cpu
    return int(cpu.shares.value), int(cpu.quota.value)


def in_file(node: Node, container: str) -> int:
    """Return the quota of the container's cgroup."""
    text = file(node, container, "cpu.cfs_quota_us" if node.tree.version == 1 else "cpu.max") or "0"
    return int(text.split()[0])


def pushes(node: Node) -> int:
    return sum(told.kind is HookKind.UPDATE_CONTAINER for told in node.runtime.trace)


def test_loans_shrink_with_capacity_by_one_push_each(rig):
    node, daemon = rig
    jobs = [lent(node, "one"), lent(node, "other")]
    assert [in_spec(node, job) for job in jobs] == [(1024, LENT_MILLI * 100)] * 2
    web = shared(node, "web", 6000)
    for demand in (2.0, 4.0, 6.0):  # three capacities within one dwell: only the last one is worth a push
        node.set_demand(web, demand)
    wait_until(lambda: all(in_spec(node, job)[1] < LENT_MILLI * 90 for job in jobs), SOON_S, "less for both")
    wait_until(
        lambda: all(in_file(node, job) == in_spec(node, job)[1] for job in jobs), SOON_S, "their files"
    )
    now = [in_spec(node, job) for job in jobs]
    assert now[0] == pytest.approx(now[1], rel=0.01), "equal loans give alike"
    assert not poll(
        lambda: pushes(node) > len(jobs) or [in_spec(node, job) for job in jobs] != now,
        2 * brief_daemon.EVERY_S,
    )
    told = [each for each in daemon.audit("container.update") if each["reason"] == "rebalanced"]
    assert sorted(str(each["container_id"]) for each in told) == sorted(jobs)
    assert all(each["inputs"]["capacity_milli"] < each["inputs"]["lent_milli"] for each in told)
    assert daemon.audit("push.failed") == []
    assert_unhurt(daemon)


@pytest.mark.parametrize("rig", [2], ids=["v2"], indirect=True)
def test_while_the_capacity_bears_all_loans_nothing_is_pushed(rig):
    node, daemon = rig
    job = lent(node, "one")
    before = in_spec(node, job)
    wait_until(lambda: daemon.capacity()["cpu_milli"] > LENT_MILLI, SOON_S, "a capacity")
    assert not poll(lambda: pushes(node) > 0, brief_daemon.DWELL_S + brief_daemon.EVERY_S + 1)
    assert (in_spec(node, job), in_file(node, job)) == (before, LENT_MILLI * 100)


@pytest.mark.parametrize("rig", [2], ids=["v2"], indirect=True)
def test_a_greedy_loan_takes_no_memory_from_another(rig):
    node, daemon = rig
    job = lent(node, "one", GIB)
    greedy = lent(node, "greedy", 1 << 44, **{"coloc.nri.io/priority": "1000000000"})
    wait_until(lambda: in_spec_of_memory(node, greedy) < 1 << 44, SOON_S, "no more than the node can lend")
    assert not poll(lambda: in_spec_of_memory(node, job) != GIB, brief_daemon.EVERY_S + 1)
    assert_unhurt(daemon)


def test_waiting_memory_limit_stays_above_the_use(rig):
    node, daemon = rig
    job = lent(node, "one", 20 * GIB)
    web = shared(node, "web", 1000)
    node.set_memory(job, Held(anon=GIB))
    node.set_memory(web, Held(anon=20 * GIB))
    with node.runtime.lock:
        wait_until(lambda: decided(daemon), SOON_S, "a lowered limit")
        held = decided(daemon)[-1] + GIB
        node.set_memory(
            job, Held(anon=held)
        )  # within a tenth of the loan: a smaller difference changes nothing
        wait_until(lambda: decided(daemon)[-1] > held, SOON_S, "a raised one")
        assert in_spec_of_memory(node, job) == 20 * GIB
    wait_until(lambda: in_spec_of_memory(node, job) < 20 * GIB, SOON_S, "the push")
    assert not poll(lambda: in_spec_of_memory(node, job) <= held, 1)
    assert daemon.audit("push.failed") == []
    assert_unhurt(daemon)


def decided(daemon: Daemon) -> list[int]:
    """Return the decided memory limits, from the audit."""
    records = daemon.audit("container.update", reason="rebalanced")
    return [one["after"]["memory.limit"] for one in records if "memory.limit" in one["after"]]


def in_spec_of_memory(node: Node, container: str) -> int:
    return int(node.runtime.containers[container].resources.memory.limit.value)
