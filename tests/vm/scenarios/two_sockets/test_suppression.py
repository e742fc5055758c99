"""Lending: the box gives way while online pods burn and comes back when they rest, and nobody beside it is touched."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.vm.load import burning
from tests.vm.node import ROOT, Container, Node, becomes, cpus, until
from tests.vm.sound import Crowd

LENDING = "reclaim: {enabled: true}\n"
NODES = (cpus("0-3"), cpus("4-7"))
CORES = tuple(cpus(f"{first}-{first + 1}") for first in range(0, 8, 2))
FLOOR = 2  # CPUs: a core has two threads
LENT = 4
GROWS = 240  # seconds: a dwell of one to eight, whose clock a late tick stops, and ticks are often late here
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
    def box(self) -> frozenset[int]:
        """What the reclaimed pods have, by their own file."""
        return cpus(self.batch.pod_cgroup("cpuset.cpus"))

    def beside(self) -> dict[str, str]:
        """Everything about the pod beside the box, and the class above both."""
        found = {f"app {file}": self.agent.cgroup(file) for file in FILES}
        found |= {f"pod {file}": self.agent.pod_cgroup(file) for file in FILES}
        return found | {f"class {file}": (ROOT / "kubepods/besteffort" / file).read_text() for file in FILES}


@pytest.fixture(scope="module")
def pods(node: Node) -> Iterator[Pods]:
    node.plugin.config.write(LENDING)
    yield Pods(
        shop=node.pod("shop"),
        batch=node.pod("batch", kube_qos="besteffort", oom=1000),
        second=node.pod("second", kube_qos="besteffort", oom=1000),
        agent=node.pod("agent", kube_qos="besteffort", namespace="kube-system", oom=1000),
    )
    node.plugin.config.write("")


def is_whole_cores(box: frozenset[int]) -> bool:
    return all(core <= box or not core & box for core in CORES)


def test_what_online_pods_leave_is_lent_in_whole_cores_of_both_nodes(pods: Pods):
    until(lambda: len(pods.box) >= LENT, "a box of two cores", GROWS)
    box = pods.box
    assert is_whole_cores(box)
    assert 0 <= len(box & NODES[1]) - len(box & NODES[0]) <= FLOOR


def test_the_common_cpuset_is_on_the_pods_and_inherited_by_their_containers(pods: Pods):
    def values(container: Container) -> list[str]:
        return [container.pod_cgroup(file) for file in BOX_FILES]

    # the box may grow between two looks: each pair is looked at anew
    until(lambda: values(pods.second) == values(pods.batch), "the same values on both pods")
    until(lambda: pods.second.cpus == pods.box, "the container on its pod's CPUs")
    assert (pods.batch.cgroup("cpuset.cpus"), pods.second.cgroup("cpuset.cpus")) == ("", "")


def test_the_box_goes_to_its_floor_and_back_and_a_system_pod_beside_it_is_left_alone(node: Node, pods: Pods):
    before = pods.beside()
    until(lambda: len(pods.box) >= LENT, "a box that has something to give", GROWS)
    with burning(pods.shop, 6):
        until(lambda: len(pods.box) == FLOOR, "the box at its floor", SHRINKS)
        assert is_whole_cores(pods.box)
        until(lambda: pods.batch.cpus == pods.box, "the container on its pod's CPUs")
        assert pods.agent.cpus == cpus("0-7")
        assert pods.beside() == before
    until(lambda: len(pods.box) >= LENT, "the box to come back", GROWS)
    assert pods.beside() == before
    assert node.plugin.audited("reclaim.suppress")
    assert node.plugin.audited("reclaim.grow")


def test_a_box_at_its_floor_lies_far_from_a_dedicated_container(node: Node, pods: Pods):
    web = node.pod("web", cpus=2, qos_class="dedicated", numa="single")
    until(lambda: not pods.box & web.cpus, "the box off its CPUs")
    with burning(pods.shop, 4):
        until(lambda: len(pods.box) == FLOOR, "the box at its floor", SHRINKS)
        at_home = next(members for members in NODES if web.cpus <= members)
        until(lambda: len(pods.box) == FLOOR and not pods.box & at_home, "the floor on the other node")
        crowd = Crowd((web,), (pods.batch, pods.second), (pods.shop, pods.agent))
        becomes(crowd.breaches, [])
    node.remove(web)


def test_what_somebody_writes_on_a_member_is_put_back_and_told(node: Node, pods: Pods):
    folder = ROOT / pods.batch.pod_path.lstrip("/")
    (folder / "cpu.weight").write_text("100")
    (folder / "io.weight").write_text("default 500")
    becomes(lambda: [pods.batch.pod_cgroup(file) for file in BOX_FILES[1:]], ["1", "default 10"])
    until(lambda: told(node, "batch").keys() >= {"io.weight", "shares"}, "both repairs in the audit")
    assert (500, 10) in told(node, "batch")["io.weight"]
    assert {after for _, after in told(node, "batch")["shares"]} == {2}


def told(node: Node, pod: str) -> dict[str, list[tuple[object, object]]]:
    """What the audit says of each knob of a pod that it found otherwise: what it was, what it is."""
    found: dict[str, list[tuple[object, object]]] = {}
    for record in node.plugin.audit("drift.repair", pod=pod):
        for name, value in record["before"].items():
            found.setdefault(name, []).append((value, record["after"][name]))
    return found
