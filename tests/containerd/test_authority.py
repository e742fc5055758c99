"""Own CPUs depend on the values that the kubelet wrote for the pod, and on nothing that a tenant may write."""

from collections.abc import Callable

import pytest

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, QOS, Workload

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load]

EVERY_CPU = ",".join(map(str, sorted(NODE_CPUS)))
WITH_DRIVER = "runtime: {draCPUDriver: true}\n"

OwnDaemon = Callable[..., Daemon]


def claiming(cri: Cri, name: str, claim: str, *, cpus: str, milli: int, parent: str = "") -> Workload:
    """Run a pod whose container carries a claim of the DRA CPU driver.

    cpus: the CPUs that its specification names.
    milli: its CPU request, and its pod's.
    """
    shares = max(milli * 1024 // 1000, 2)
    pod = cri.run_pod(name, cgroup_parent=parent or kubepods.BURSTABLE, shares=shares)
    env = {"DRA_CPUSET_x": claim}
    made = cri.create_container(pod, "app", command=workloads.COMMAND, env=env, shares=shares, cpus=cpus)
    return Workload(cri, pod, made).start()


def test_a_limit_gets_no_cpus(daemon: Daemon, cri: Cri):
    pod = cri.run_pod("web", annotations={QOS: "dedicated"}, shares=2)
    web = workloads.add(cri, pod, "app", quota=6 * workloads.PERIOD, period=workloads.PERIOD)
    assert (web.first_cpus(), daemon.container(web.id)["class"]) == (NODE_CPUS, "shared")
    denied = daemon.audited("annotation.denied", container_id=web.id)
    assert (denied["key"], denied["value"], denied["used"]) == (QOS, "dedicated", "shared")


def taking(daemon: Daemon, cri: Cri) -> None:
    """Claim an owner's CPU in a BestEffort pod, and find that the owner keeps it."""
    db = workloads.dedicated(cri, "db")
    owned = db.first_cpus()
    thief = claiming(cri, "thief", EVERY_CPU, cpus=EVERY_CPU, milli=0, parent=kubepods.BESTEFFORT)
    assert (thief.first_cpus(), db.cpus) == (NODE_CPUS - owned, owned)
    assert daemon.audited("annotation.denied", container_id=thief.id)["key"] == "DRA_CPUSET_x"


def test_a_variable_takes_no_owners_cpus(daemon: Daemon, cri: Cri):
    taking(daemon, cri)


def test_nor_does_it_beside_a_driver(own_daemon: OwnDaemon, cri: Cri):
    taking(own_daemon(config=WITH_DRIVER), cri)


def test_one_of_two_containers_with_one_claim_owns_it(own_daemon: OwnDaemon, cri: Cri):
    daemon, claim = own_daemon(config=WITH_DRIVER), str(max(NODE_CPUS))
    claimed = cgroups.members(claim)
    first, second = (claiming(cri, name, claim, cpus=claim, milli=1000) for name in ("a", "b"))
    assert (first.first_cpus(), second.first_cpus()) == (claimed, NODE_CPUS - claimed)
    assert first.cpus == claimed
    assert daemon.audited("annotation.denied", container_id=second.id)["value"] == claim


def test_cpus_that_the_daemon_pushed_are_no_claim(own_daemon: OwnDaemon, cri: Cri):
    adopted = claiming(cri, "adopted", EVERY_CPU, cpus="", milli=1000 * len(NODE_CPUS))
    daemon = own_daemon(config=WITH_DRIVER)
    wait_until(lambda: cgroups.members(adopted.spec_cpus) == NODE_CPUS, 30, "the push")
    daemon.kill()
    daemon.start()
    daemon.wait_synchronised()
    assert daemon.audited("annotation.denied", container_id=adopted.id)["used"] == "class shared"
    assert daemon.state()["pools"]["dedicated"]["cpus"] == ""


def test_a_pods_own_cgroup_tells_its_request(daemon: Daemon, cri: Cri):
    pod = cri.run_pod("web", annotations={QOS: "dedicated"}, shares=512)
    early = workloads.add(cri, pod, "early", request=1)
    assert (early.first_cpus(), daemon.container(early.id)["class"]) == (NODE_CPUS, "shared")
    kubepods.weigh(pod.cgroup, 1025)
    late = workloads.add(cri, pod, "late", request=1)
    assert (len(late.first_cpus()), daemon.container(late.id)["class"]) == (1, "dedicated")
