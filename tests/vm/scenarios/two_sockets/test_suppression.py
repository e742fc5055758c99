"""Lending: the reclaim pool shrinks while online pods burn, lies where it should, and changes no other pod.

If a scenario needs a pool of some size, it orders that size (`lending`). That the pool grows by itself when online use
falls is shown where ticks are in time: on the simulated node and on the real containerd.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.vm.load import burning
from tests.vm.node import ROOT, Container, Node, becomes, cpus, lending, until
from tests.vm.sound import Crowd

LENDING = "reclaim: {enabled: true}\n"
NODES = (cpus("0-3"), cpus("4-7"))
CORES = tuple(cpus(f"{first}-{first + 1}") for first in range(0, 8, 2))
FLOOR = 2  # CPUs: a core has two threads
LENT = 4
SHRINKS = 120
BOX_FILES = ("cpuset.cpus", "cpu.weight", "io.weight")
FILES = ("cpuset.cpus", "cpuset.mems", "cpu.weight", "cpu.max", "io.weight", "memory.high", "memory.max")


@dataclass
class Pods:
    shop: Container  # shared, without a limit
    batch: Container  # reclaimed
    second: Container  # reclaimed
    agent: Container  # system, and BestEffort as the reclaimed ones

    @property
    def pool(self) -> frozenset[int]:
        """The CPUs of the reclaim pool, by a reclaimed pod's own file."""
        return cpus(self.batch.pod_cgroup("cpuset.cpus"))

    def beside(self) -> dict[str, str]:
        """Return every value of the system pod, and of the class above it and the reclaimed pods."""
        found = {f"app {file}": self.agent.cgroup(file) for file in FILES}
        found |= {f"pod {file}": self.agent.pod_cgroup(file) for file in FILES}
        return found | {f"class {file}": (ROOT / "kubepods/besteffort" / file).read_text() for file in FILES}


@pytest.fixture(scope="module")
def pods(node: Node) -> Iterator[Pods]:
    node.plugin.config.write(lending(LENT))
    yield Pods(
        shop=node.pod("shop"),
        batch=node.pod("batch", kube_qos="besteffort", oom=1000),
        second=node.pod("second", kube_qos="besteffort", oom=1000),
        agent=node.pod("agent", kube_qos="besteffort", namespace="kube-system", oom=1000),
    )
    node.plugin.config.write("")


def is_whole_cores(pool: frozenset[int]) -> bool:
    return all(core <= pool or not core & pool for core in CORES)


def test_whole_cores_of_both_nodes_are_lent(pods: Pods):
    until(lambda: len(pods.pool) == LENT, "a reclaim pool of two cores")
    pool = pods.pool
    assert is_whole_cores(pool)
    assert len(pool & NODES[0]) == len(pool & NODES[1])


def test_containers_inherit_the_cpuset_of_their_pods(pods: Pods):
    def values(container: Container) -> list[str]:
        return [container.pod_cgroup(file) for file in BOX_FILES]

    until(lambda: values(pods.second) == values(pods.batch), "the same values on both pods")
    until(lambda: pods.second.cpus == pods.pool, "the container on its pod's CPUs")
    assert (pods.batch.cgroup("cpuset.cpus"), pods.second.cgroup("cpuset.cpus")) == ("", "")


def test_a_burst_shrinks_the_pool_and_changes_no_other_pod(node: Node, pods: Pods):
    until(lambda: len(pods.pool) == LENT, "a reclaim pool of two cores")
    before = pods.beside()
    node.plugin.config.write(LENDING)  # from here on its size follows the load
    with burning(pods.shop, 6):
        until(lambda: len(pods.pool) == FLOOR, "the reclaim pool to reach its floor", SHRINKS)
        assert is_whole_cores(pods.pool)
        until(lambda: pods.batch.cpus == pods.pool, "the container on its pod's CPUs")
        assert pods.agent.cpus == cpus("0-7")
        assert pods.beside() == before
    until(lambda: shrinkings(node), "a record of the smaller pool")
    node.plugin.config.write(lending(LENT))
    until(lambda: len(pods.pool) == LENT, "the ordered size again")
    assert pods.beside() == before


def shrinkings(node: Node) -> list[object]:
    """Return the records of a reclaim pool at its floor; a pool that is sized anew under a load has another event."""
    records = [each for event in ("reclaim.suppress", "pool.resize") for each in node.plugin.audit(event)]
    return [each for each in records if len(cpus(each["after"].get("cpus", ""))) == FLOOR]


def test_the_floor_lies_far_from_a_dedicated_container(node: Node, pods: Pods):
    web = node.pod("web", cpus=2, qos_class="dedicated", numa="single")
    until(lambda: not pods.pool & web.cpus, "the reclaim pool to leave its CPUs")
    node.plugin.config.write(lending(FLOOR))
    at_home = next(members for members in NODES if web.cpus <= members)
    until(lambda: len(pods.pool) == FLOOR and not pods.pool & at_home, "the floor on the other node")
    crowd = Crowd((web,), (pods.batch, pods.second), (pods.shop, pods.agent))
    becomes(crowd.breaches, [])
    node.remove(web)


def test_foreign_writes_are_repaired_and_audited(node: Node, pods: Pods):
    folder = ROOT / pods.batch.pod_path.lstrip("/")
    (folder / "cpu.weight").write_text("100")
    (folder / "io.weight").write_text("default 500")
    becomes(lambda: [pods.batch.pod_cgroup(file) for file in BOX_FILES[1:]], ["1", "default 10"])
    until(lambda: told(node, "batch").keys() >= {"io.weight", "shares"}, "both repairs in the audit")
    assert (500, 10) in told(node, "batch")["io.weight"]
    assert {after for _, after in told(node, "batch")["shares"]} == {2}


def told(node: Node, pod: str) -> dict[str, list[tuple[object, object]]]:
    """Return each repaired knob of a pod in the audit, with the values before and after each repair."""
    found: dict[str, list[tuple[object, object]]] = {}
    for record in node.plugin.audit("drift.repair", pod=pod):
        for name, value in record["before"].items():
            found.setdefault(name, []).append((value, record["after"][name]))
    return found
