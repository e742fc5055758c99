"""A real runtime starts reclaimed containers whose specifications name CPUs that their pods lack."""

import pytest

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, pytest.mark.usefixtures("daemon")]

NAMED = ",".join(map(str, sorted(NODE_CPUS)))
"""All CPUs, as the kubelet's static CPU manager names them."""


def test_a_named_set_starts_and_runs_on_the_pool(daemon: Daemon, cri: Cri):
    web = workloads.dedicated(cri)
    pool = NODE_CPUS - web.first_cpus()
    batch = workloads.run(cri, "batch", parent=kubepods.BESTEFFORT, oom=1000, cpus=NAMED)
    assert batch.first_cpus() == pool
    becomes(lambda: (cgroups.cpus(batch.pod.cgroup), batch.cpus), (pool, pool))
    assert daemon.audit("drift.repair", container_id=batch.id) == []


def test_a_running_container_keeps_to_the_pool_meanwhile(cri: Cri):
    first = workloads.run(cri, "batch", parent=kubepods.BESTEFFORT, oom=1000, cpus=NAMED)
    second = workloads.add(cri, first.pod, "second", cpus=NAMED, started=False)
    web = workloads.dedicated(cri)
    pool = NODE_CPUS - web.first_cpus()
    becomes(lambda: first.cpus, pool)
    second.start()
    assert second.first_cpus() == pool
    becomes(lambda: cgroups.cpus(first.pod.cgroup), pool)
