"""Costs that a pod's author can cause by annotations: the daemon registers and answers all the same."""

from collections.abc import Callable

import pytest

from tests.rig import tenants, workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

PODS = 12
CONTAINERS = 3


def test_pods_of_foreign_json_cost_no_registration(
    containerd: Containerd, own_daemon: Callable[..., Daemon], cri: Cri
):
    daemon, ids = own_daemon(), set()
    for number in range(PODS):
        pod = cri.run_pod(f"greedy-{number}", annotations=tenants.foreign())
        ids |= {workloads.add(cri, pod, f"c{each}", started=False).id for each in range(CONTAINERS)}
    containerd.kill()
    daemon.wait_lost()
    containerd.start()
    daemon.wait_back()
    assert {each["id"] for each in daemon.state()["containers"]} == ids
    assert daemon.audited("annotation.invalid", key="*")
    assert workloads.dedicated(cri).first_cpus() < NODE_CPUS
