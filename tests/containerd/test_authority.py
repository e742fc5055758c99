"""Own CPUs depend on the values that the kubelet wrote for the pod, and on nothing that a tenant may write."""

import pytest

from tests.rig import kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.workloads import NODE_CPUS, QOS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load]

EVERY_CPU = ",".join(map(str, sorted(NODE_CPUS)))


def test_a_limit_gets_no_cpus(daemon: Daemon, cri: Cri):
    pod = cri.run_pod("web", annotations={QOS: "dedicated"}, shares=2)
    web = workloads.add(cri, pod, "app", quota=6 * workloads.PERIOD, period=workloads.PERIOD)
    assert (web.first_cpus(), daemon.container(web.id)["class"]) == (NODE_CPUS, "shared")
    denied = daemon.audited("annotation.denied", container_id=web.id)
    assert (denied["key"], denied["value"], denied["used"]) == (QOS, "dedicated", "shared")


def test_a_variable_takes_no_owners_cpus(daemon: Daemon, cri: Cri):
    db = workloads.dedicated(cri, "db")
    owned = db.first_cpus()
    pod = cri.run_pod("thief", cgroup_parent=kubepods.BESTEFFORT, shares=2)
    claim = {"DRA_CPUSET_x": EVERY_CPU}
    made = cri.create_container(pod, "app", command=workloads.COMMAND, env=claim, shares=2, cpus=EVERY_CPU)
    thief = workloads.Workload(cri, pod, made).start()
    assert (thief.first_cpus(), db.cpus) == (NODE_CPUS - owned, owned)
    assert daemon.audited("annotation.denied", container_id=thief.id)["key"] == "DRA_CPUSET_x"


def test_a_pods_own_cgroup_tells_its_request(daemon: Daemon, cri: Cri):
    pod = cri.run_pod("web", annotations={QOS: "dedicated"}, shares=512)
    early = workloads.add(cri, pod, "early", request=1)
    assert (early.first_cpus(), daemon.container(early.id)["class"]) == (NODE_CPUS, "shared")
    kubepods.weigh(pod.cgroup, 1025)
    late = workloads.add(cri, pod, "late", request=1)
    assert (len(late.first_cpus()), daemon.container(late.id)["class"]) == (1, "dedicated")
