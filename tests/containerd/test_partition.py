"""Pools sized by load on a real kernel: they are apart from each other, and the loads are real.

Two CPUs can show no more. The simulated node, which has more CPUs, shows which sizes follow from which load.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.rig import cgroups, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
PARTITION: Final = "pools: {share: {band: [40, 60]}}\nreclaim: {sharing: partition}\n"
BURN: Final = ("/bin/sh", "-c", "exec yes > /dev/null")
SOON_S: Final = 120
SIBLINGS: Final = Path("/sys/devices/system/cpu")


def cores() -> set[str]:
    """Return the cores of this machine, each as a list of its CPUs."""
    return {(SIBLINGS / f"cpu{cpu}/topology/thread_siblings_list").read_text() for cpu in NODE_CPUS}


def sizes(daemon: Daemon) -> tuple[frozenset[int], ...]:
    """Return the CPUs of the pools of online and of reclaimed pods, as the daemon reports them."""
    pools = daemon.state()["pools"]
    return tuple(cgroups.members(pools[name]["cpus"]) for name in ("share", "reclaim"))


def are_apart(web: Workload, batch: Workload) -> bool:
    """Return whether each CPU belongs to one of the two pods; if there is only one core, both share it."""
    online, offline = web.cpus, cgroups.cpus(batch.pod.cgroup)
    if not online or not offline or online | offline != NODE_CPUS:
        return False
    return not online & offline if len(cores()) > 1 else online == offline == NODE_CPUS


def test_online_and_offline_pods_have_separate_measured_cpus(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=PARTITION)
    batch = workloads.reclaimed(cri)
    web = workloads.run(cri, "web", command=BURN, shares=1024)
    wait_until(lambda: are_apart(web, batch), SOON_S, "CPUs of their own")
    wait_until(lambda: cgroups.allowed_cpus(cri.pid(web.id)) == web.cpus, SOON_S, "its process on its CPUs")
    wait_until(
        lambda: cgroups.allowed_cpus(cri.pid(batch.id)) == cgroups.cpus(batch.pod.cgroup) == batch.cpus,
        SOON_S,
        "the reclaimed pod's process on its CPUs",
    )
    wait_until(
        lambda: daemon.metric('nri_coloc_pool_load_cpus{pool="share"}') > 0.3, SOON_S, "the burner's load"
    )
    wait_until(lambda: cgroups.members(web.spec_cpus) == web.cpus, SOON_S, "the runtime's record of it")
    wait_until(lambda: sizes(daemon) == (web.cpus, batch.cpus), SOON_S, "the same in the daemon's state")
    assert len(cores()) == 1 or daemon.audited("pool.resize", pool="share", reason="tier_load")


def test_an_observer_changes_nothing(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=f"mode: observe\n{PARTITION}")
    batch, web = workloads.reclaimed(cri), workloads.shared(cri)
    before = (web.cpus, cgroups.cpus(batch.pod.cgroup))
    if len(cores()) > 1:
        wait_until(lambda: daemon.audit("pool.resize"), SOON_S, "what it would do")
    assert (web.cpus, cgroups.cpus(batch.pod.cgroup)) == before
