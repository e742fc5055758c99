"""The daemon is killed while the reclaim pool is large: the values that it leaves protect online pods (decision 28).

No part of the product reads values in between: cgroup files are read straight from the simulated tree, use from its
counters. Then the next process takes over.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.memory.worker import LEAST
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import (
    Lasting,
    assert_unhurt,
    daemon_of,
    dedicated,
    file,
    reclaimed,
    served,
)
from tests.rig.waiting import poll, wait_until

CONFIG = """
classes: {shared: {cpuBurst: 50}}
reclaim: {enabled: true, features: [quota-burst]}
"""
CPUS = 8
OWNED = 2
QUOTA = 100_000
MB = 1 << 20
SOON_S = 45
"""Some turns of the slow loop, on a machine with something else to do."""

COUNTERS = (
    "cpuacct.usage",
    "cpu.stat",
    ".pressure",
    "memory.stat",
    "memory.current",
    "memory.usage_in_bytes",
)


class Rig:
    """Run a node with a large reclaim pool, an online container with a raised quota, and a dedicated container."""

    def __init__(self, lasting: Lasting) -> None:
        self.node, self.daemon = lasting
        self.v1 = self.node.tree.version == 1
        self.owner = dedicated(self.node, "db", OWNED * 1000)
        self.limited = self.run_limited()
        front = self.node.run_pod(PodRequest("front", shares=4096))
        self.free = self.node.run_container(front, ContainerRequest("app", native(4000)))
        self.batch = reclaimed(self.node, "batch")
        self.node.set_memory(self.batch, Held(anon=512 * MB))
        for container, demand in ((self.limited, 2.0), (self.free, 0.2), (self.batch, CPUS)):
            self.node.set_demand(container, demand)

    def run_limited(self) -> str:
        protect = {"coloc.nri.io/memory-min": str(MB)}
        pod = self.node.run_pod(PodRequest("web", annotations=protect, shares=512))
        name, rest = self.quota_file
        self.node.tree.write(self.node.runtime.pods[pod].cgroup, name, f"{QUOTA}{rest}")
        request = ContainerRequest("app", native(500, 1000), oom_score_adj=500)
        return self.node.run_container(pod, request)

    @property
    def quota_file(self) -> tuple[str, str]:
        return ("cpu.cfs_quota_us", "") if self.v1 else ("cpu.max", " 100000")

    def pod(self, container: str) -> str:
        return self.node.runtime.containers[container].pod.id

    def number(self, owner: str, v1: str, v2: str) -> int:
        """Return the first number of a file; 0 if it holds none."""
        word = (file(self.node, owner, v1 if self.v1 else v2) or "0").split()[0]
        return int(word) if word.isdigit() else 0

    def quota(self, owner: str) -> int:
        return self.number(owner, "cpu.cfs_quota_us", "cpu.max")

    def box(self) -> int:
        """Return the CPUs of the reclaim pool, by its pod's own file."""
        return cpuset.parse(file(self.node, self.pod(self.batch), "cpuset.cpus") or "")

    def walled(self) -> int:
        found = self.number(self.pod(self.batch), "memory.limit_in_bytes", "memory.max")
        return found if found < 1 << 50 else 0

    def is_caught(self) -> bool:
        """Kill the daemon at a moment at which `has_all` is true, and return whether it was.

        The daemon is stopped for the reading, and continued if the answer is no.
        """
        os.kill(self.daemon.pid, signal.SIGSTOP)
        caught = self.has_all()
        if caught:
            self.daemon.kill()
        else:
            os.kill(self.daemon.pid, signal.SIGCONT)
        return caught

    def has_all(self) -> bool:
        """Return whether the reclaim pool is large and bounded, and the quota raised, at this moment."""
        raised = self.quota(self.limited) > QUOTA and self.quota(self.pod(self.limited)) > QUOTA
        return self.box().bit_count() >= CPUS - OWNED - 2 and self.walled() > 0 and raised

    def used_us(self, container: str) -> int:
        if self.v1:
            return int(file(self.node, container, "cpuacct.usage") or 0) // 1000
        return int((file(self.node, container, "cpu.stat") or "x 0").split()[1])

    def controls(self) -> dict[str, str]:
        """Return every control file of every cgroup, except the counters."""
        root = Path(self.node.host_root) / "sys/fs/cgroup"
        return {
            str(path): path.read_text()
            for path in root.rglob("kubepods/**/*")
            if path.is_file() and not path.name.endswith(COUNTERS)
        }


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request: pytest.FixtureRequest, tmp_path) -> Iterator[Rig]:
    with Node(tmp_path, "8cpu", cgroup=request.param) as node:
        node.start_clock()
        with daemon_of(node, config=CONFIG) as daemon:
            rig = Rig(Lasting(node, served(daemon)))
            wait_until(lambda: rig.box().bit_count() >= CPUS - OWNED - 2, SOON_S, "a large box")
            wait_until(lambda: rig.quota(rig.limited) > QUOTA, SOON_S, "a raised quota")
            wait_until(lambda: rig.walled() > 0, SOON_S, "a memory limit of the reclaim cgroups")
            yield rig


def online_share(rig: Rig) -> float:
    """Return the CPUs that a container gets, over a second or two; it wants all of the node's."""
    workload = rig.node.workload
    with workload._lock:  # the time that passed and the use in it belong together
        began, first = workload._last, rig.used_us(rig.free)
    wait_until(lambda: workload._last - began > 1.5, 20, "time to pass")
    with workload._lock:
        return (rig.used_us(rig.free) - first) / ((workload._last - began) * 1e6)


def test_remaining_values_protect_online_pods_until_the_next_daemon(rig):
    node = rig.node
    wait_until(rig.is_caught, SOON_S, "all of it at once")
    node.tree.settle()  # the simulated kernel's part of it, which comes a moment later
    left = rig.controls()
    box = rig.box()
    # reclaim pool: its last size, never a dedicated CPU, the least weight there is, memory between a floor and its hard
    # limit
    assert box.bit_count() >= CPUS - OWNED - 2
    assert not box & node.cpus(rig.owner)
    assert rig.number(rig.pod(rig.batch), "cpu.shares", "cpu.weight") == (2 if rig.v1 else 1)
    assert LEAST <= rig.walled() < 64 << 30
    # online: never less than its own; a raised quota is bounded, and in the files only
    assert QUOTA < rig.quota(rig.limited) <= 3 * QUOTA
    assert rig.quota(rig.pod(rig.limited)) >= rig.quota(rig.limited)
    assert rig.number(rig.limited, "cpu.cfs_burst_us", "cpu.max.burst") <= rig.quota(rig.limited)
    assert node.runtime.containers[rig.limited].resources.cpu.quota.value == QUOTA
    # a full node: online pods have nearly all of it, and no process writes anything
    node.set_demand(rig.free, CPUS)
    assert online_share(rig) >= CPUS - OWNED - 3, "all but what the other one's raised quota lets it have"
    assert not poll(lambda: rig.controls() != left, 1)
    rig.daemon.start()
    served(rig.daemon)
    wait_until(lambda: rig.box().bit_count() <= 2, SOON_S, "the reclaim pool at its floor")
    wait_until(
        lambda: [rig.quota(k) for k in (rig.limited, rig.pod(rig.limited))] == [QUOTA] * 2,
        SOON_S,
        "the kubelet's own quotas",
    )
    assert not rig.box() & node.cpus(rig.owner)
    assert_unhurt(rig.daemon)
