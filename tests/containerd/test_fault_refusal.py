"""The kernel refuses to write one cgroup: other containers are placed, the refusal is reported and later repaired."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.rig import cgroups, disk
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD, Workload

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
REFUSED: Final = 'nri_coloc_write_failures_total{{file="{}"}}'


@dataclass(frozen=True, slots=True)
class Refusal:
    """Hold a controller whose files of one pod cannot be written, and a configuration that writes there."""

    controller: str
    file: str
    qos: str
    config: str
    arrived: Callable[[Workload], bool]


V2: Final = cgroups.is_v2()
REFUSALS: Final = (
    Refusal(
        "cpu",
        "cpu.max.burst" if V2 else "cpu.cfs_burst_us",
        "shared",
        "classes: {shared: {cpuBurst: 50}}\n",
        lambda stuck: cgroups.burst(stuck.cgroup) == PERIOD // 20,  # half of its quota of a tenth of a CPU
    ),
    Refusal(
        "blkio",
        "io.bfq.weight" if V2 else "blkio.bfq.weight",
        "reclaimed",
        "classes: {reclaimed: {ioWeight: 50}}\n",
        lambda stuck: cgroups.bfq_weight(stuck.pod.cgroup) == 50,
    ),
    Refusal(
        "memory",
        "memory.max" if V2 else "memory.limit_in_bytes",
        "reclaimed",
        "reclaim: {enabled: true}\n",
        lambda stuck: cgroups.memory_limit(stuck.pod.cgroup) is not None,
    ),
)


@pytest.mark.invariant(1, 4, 8)
@pytest.mark.parametrize("qos", ["shared", "reclaimed"])
def test_a_cgroup_that_cannot_be_written_is_told_and_made_good(
    own_daemon: OwnDaemon, inspector: Inspector, qos: str
):
    daemon = own_daemon(config="runtime:\n  updatesPerReply: 0\n")
    stuck, neighbour = inspector.run("stuck", qos), inspector.run("neighbour", "shared")
    wait_until(lambda: not inspector.breaches(), 30, "all containers to be in place")
    inspector.forget(stuck)
    group = stuck.pod.cgroup if qos == "reclaimed" else stuck.cgroup
    with disk.read_only([cgroups.file(group, "cpuset", "cpuset.cpus").parent]):
        web = inspector.run("web", "dedicated")
        inspector.wait_until_sound()  # for every container except the stuck one
        assert stuck.cpus == NODE_CPUS
        assert neighbour.cpus == NODE_CPUS - (web.cpus or NODE_CPUS)
        wait_until(lambda: daemon.metric(REFUSED.format("cpuset.cpus")), 30, "the refusal to be counted")
        assert daemon.audited("container.late", container_id=web.id)["reason"] == "too_late"
        assert daemon.audited("write.failed", saying=group)
    inspector.watch(stuck, qos)
    inspector.wait_until_sound()
    assert daemon.metric("nri_coloc_reconnects_total") == 0


@pytest.mark.invariant(1, 6, 7, 8)
@pytest.mark.parametrize("refusal", REFUSALS, ids=[one.controller for one in REFUSALS])
def test_an_unwritable_value_costs_no_placement_and_arrives_later(
    own_daemon: OwnDaemon, inspector: Inspector, refusal: Refusal
):
    daemon = own_daemon()
    stuck, neighbour = inspector.run("stuck", refusal.qos), inspector.run("neighbour", "shared")
    inspector.wait_until_sound()
    folder = cgroups.file(stuck.pod.cgroup, refusal.controller, refusal.file).parent
    with disk.read_only([folder]):
        daemon.config.write(refusal.config)
        wait_until(lambda: daemon.metric(REFUSED.format(refusal.file)), 120, "the refusal to be counted")
        assert daemon.audited("write.failed", saying=stuck.pod.cgroup)
        web = inspector.run("web", "dedicated")
        inspector.wait_until_sound()
        assert neighbour.cpus == NODE_CPUS - (web.cpus or NODE_CPUS)
        assert not refusal.arrived(stuck)
    inspector.forget(stuck)  # its value now follows the configuration
    wait_until(lambda: refusal.arrived(stuck), 120, "the value to arrive")
    inspector.wait_until_sound()
    assert daemon.metric("nri_coloc_reconnects_total") == 0


@pytest.mark.invariant(1, 7, 8)
def test_a_cgroup_below_a_neighbours_follows_it_off_the_cpus(own_daemon: OwnDaemon, inspector: Inspector):
    """On v1 the kernel refuses to shrink a set below a child's (EBUSY); on v2 it shrinks the child's by itself."""
    own_daemon()
    neighbour = inspector.run("neighbour", "shared")
    nested = cgroups.file(neighbour.cgroup, "cpuset", "cpuset.cpus").parent / "nested"
    nested.mkdir()
    try:
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (nested / name).exists():
                (nested / name).write_text((nested.parent / name).read_text())
        inspector.run("web", "dedicated")
        inspector.wait_until_sound()
        below = cgroups.effective_cpus(f"{neighbour.cgroup}/nested")
        assert below
        assert below <= (neighbour.cpus or NODE_CPUS)
    finally:
        nested.rmdir()
