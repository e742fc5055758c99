"""CPUs that go offline and online again: no container uses them meanwhile, and each gets them back afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vm.node import Container, Node, becomes, cpus, until

ALL = cpus("0-7")


@dataclass
class Pods:
    web: Container  # dedicated, two CPUs
    shop: Container  # shared
    batch: Container  # reclaimed

    def others(self) -> list[frozenset[int]]:
        """Return the CPUs of each container except the dedicated one."""
        return [self.shop.cpus, self.batch.cpus]


@pytest.fixture(scope="module")
def pods(node: Node) -> Pods:
    found = Pods(
        web=node.pod("web", cpus=2, qos_class="dedicated"),
        shop=node.pod("shop", cpus=0.5),
        batch=node.pod("batch", kube_qos="besteffort", oom=1000),
    )
    becomes(found.others, [ALL - found.web.cpus] * 2)
    return found


@contextmanager
def offline(cpu: int) -> Iterator[None]:
    """Take a CPU offline while the block lasts."""
    file = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    file.write_text("0")
    try:
        yield
    finally:
        file.write_text("1")


def test_an_offline_shared_cpu_is_nobodys_until_it_returns(node: Node, pods: Pods):
    owned, gone = pods.web.cpus, max(ALL - pods.web.cpus)
    with offline(gone):
        becomes(lambda: cpus(pods.shop.cgroup("cpuset.cpus")), ALL - owned - {gone})
        becomes(lambda: cpus(pods.batch.pod_cgroup("cpuset.cpus")), ALL - owned - {gone})
        late = node.pod("late", cpus=0.5)
        assert late.cpus == ALL - owned - {gone}
        assert pods.web.cpus == owned
    becomes(lambda: [*pods.others(), late.cpus], [ALL - owned] * 3)
    assert pods.web.cpus == owned
    node.remove(late)


def test_a_dedicated_container_gets_another_cpu_for_an_unplugged(pods: Pods):
    gone = max(pods.web.cpus)
    with offline(gone):
        until(lambda: len(pods.web.cpus) == 2 and gone not in pods.web.cpus, "another CPU of its own")
        becomes(pods.others, [ALL - pods.web.cpus - {gone}] * 2)
    becomes(lambda: [*pods.others()], [ALL - pods.web.cpus] * 2)
    assert len(pods.web.cpus) == 2
