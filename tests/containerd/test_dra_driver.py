"""Beside a plugin that names the CPUs of every container, as the DRA CPU driver does, each class has its CPUs."""

from collections.abc import Callable

import pytest

from tests.rig import cgroups, kubepods, rival, workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.rival import Rival
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load]

PINNED = {rival.PIN: ",".join(map(str, sorted(NODE_CPUS)))}


@pytest.mark.parametrize("index", ["00", "90"])
def test_each_class_starts_and_has_its_cpus(
    containerd: Containerd, own_daemon: Callable[..., Daemon], cri: Cri, index: str
):
    daemon = own_daemon(config="runtime: {draCPUDriver: true}\n")
    with Rival(containerd.nri_socket, index):
        web = workloads.run(cri, "web", "dedicated", request=1, annotations=PINNED)
        neighbour = workloads.run(cri, "neighbour", request=0.1, annotations=PINNED)
        batch = workloads.run(cri, "batch", parent=kubepods.BESTEFFORT, oom=1000, annotations=PINNED)
        own = cgroups.members(daemon.container(web.id)["cpus"])
        assert len(own) == 1
        assert web.first_cpus() == own
        becomes(lambda: (web.cpus, neighbour.cpus, batch.cpus), (own, NODE_CPUS - own, NODE_CPUS - own))
        wait_until(lambda: cgroups.members(web.spec_cpus) == own, 30, "the specification to follow")
