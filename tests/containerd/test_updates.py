"""The kubelet updates a container: the daemon's CPUs stay, and every other value is the kubelet's."""

from collections.abc import Mapping

import pytest

from tests.rig import cgroups, workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD, QOS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, pytest.mark.usefixtures("daemon")]

ALL = ",".join(map(str, sorted(NODE_CPUS)))


def test_cpus_in_an_update_of_a_dedicated_container_are_ours(daemon: Daemon, cri: Cri):
    web = workloads.dedicated(cri)
    owned = web.first_cpus()
    cri.update(web.id, cpus=ALL)
    assert web.cpus == cgroups.members(web.spec_cpus) == owned
    assert daemon.audited("container.update", container_id=web.id)["reason"] == "kubelet_update"


def test_cpus_in_an_update_of_a_shared_container_are_ours(cri: Cri):
    neighbour, web = workloads.shared(cri), workloads.dedicated(cri)
    cri.update(neighbour.id, cpus=ALL)
    becomes(lambda: _everywhere(neighbour), {NODE_CPUS - web.first_cpus()})


def test_updated_cpus_of_offline_containers_stay_in_the_box(cri: Cri):
    batch, web = workloads.reclaimed(cri), workloads.dedicated(cri)
    cri.update(batch.id, cpus=ALL)
    becomes(lambda: batch.cpus, NODE_CPUS - web.first_cpus())
    cri.remove_pod(web.pod.id)
    wait_until(lambda: batch.cpus == NODE_CPUS, 30, "the offline container to grow with its box")
    again = workloads.dedicated(cri, "again")
    becomes(lambda: batch.cpus, NODE_CPUS - again.first_cpus())
    cri.update(batch.id, shares=2)


def test_what_else_the_update_carries_is_the_kubelets(cri: Cri):
    web = workloads.run(cri, "web", "dedicated", request=1, memory=64 << 20)
    owned = web.first_cpus()
    cri.update(web.id, cpus=ALL, shares=1024, quota=50_000, period=PERIOD, memory=96 << 20)
    assert web.cpus == owned
    assert cgroups.shares(web.cgroup) in (1024, None)
    assert cgroups.quota(web.cgroup) == (50_000, PERIOD)
    assert cgroups.memory_limit(web.cgroup) == 96 << 20


@pytest.mark.parametrize("qos", ["dedicated", "shared"])
def test_an_update_in_which_nothing_is_ours_passes_untouched(daemon: Daemon, cri: Cri, qos: str):
    web = workloads.run(cri, "web", qos, request=1, memory=64 << 20)
    owned = web.cpus
    cri.update(web.id, shares=1024, quota=50_000, period=PERIOD, memory=96 << 20, swap=128 << 20)
    assert cgroups.shares(web.cgroup) in (1024, None)
    assert cgroups.quota(web.cgroup) == (50_000, PERIOD)
    assert cgroups.memory_limit(web.cgroup) == 96 << 20
    # any plugin's answer would lose this value: NRI cannot carry it
    assert cgroups.memory_and_swap_limit(web.cgroup) in (128 << 20, None)
    assert web.cpus == cgroups.members(web.spec_cpus) == owned
    assert daemon.audited("container.update", container_id=web.id)["reason"] == "nothing_ours"


@pytest.mark.parametrize("before", [{}, {"coloc.nri.io/memory-limit": "48Mi"}], ids=["plain", "annotated"])
def test_an_annotated_limit_holds_against_an_update(cri: Cri, before: Mapping[str, str]):
    web = workloads.run(cri, "web", annotations=before, request=0.1, memory=64 << 20)
    assert cgroups.memory_limit(web.cgroup) == (48 << 20 if before else 64 << 20)
    cri.update(web.id, memory=96 << 20, shares=256)
    assert cgroups.memory_limit(web.cgroup) == (48 << 20 if before else 96 << 20)
    assert cgroups.shares(web.cgroup) in (256, None)


def test_an_update_that_asks_for_nothing_changes_nothing(containerd: Containerd, cri: Cri):
    web = workloads.dedicated(cri)
    pid, owned = containerd.pid, web.first_cpus()
    cri.update(web.id)
    assert web.cpus == cgroups.members(web.spec_cpus) == owned
    assert cgroups.quota(web.cgroup) == (PERIOD, PERIOD)
    assert containerd.pid == pid


def test_an_update_before_the_start_leaves_our_cpus(cri: Cri):
    web = workloads.dedicated(cri, started=False)
    cri.update(web.id, cpus=ALL, shares=1024)
    web.start()
    assert len(web.first_cpus()) == 1
    assert cgroups.shares(web.cgroup) in (1024, None)


def test_cpus_that_somebody_else_wrote_are_put_back(daemon: Daemon, cri: Cri):
    neighbour, web = workloads.shared(cri), workloads.dedicated(cri)
    left = NODE_CPUS - web.first_cpus()
    neighbour.cpuset_file.write_text(ALL)
    wait_until(lambda: neighbour.cpus == left, 30, "the repair")
    assert daemon.audited("drift.repair", container_id=neighbour.id)["reason"] == "found_different"


def test_an_impossible_resize_keeps_the_set_and_is_reported(daemon: Daemon, cri: Cri):
    neighbour, web = workloads.shared(cri), workloads.dedicated(cri)
    owned = web.first_cpus()
    cri.update(web.id, shares=1024 * len(NODE_CPUS), quota=len(NODE_CPUS) * PERIOD, period=PERIOD)
    assert web.cpus == cgroups.members(web.spec_cpus) == owned
    becomes(lambda: neighbour.cpus, NODE_CPUS - owned)
    # the quota is the kubelet's own, whichever CPUs the container has
    assert cgroups.quota(web.cgroup) == (len(NODE_CPUS) * PERIOD, PERIOD)
    unmet = daemon.audited("container.update", container_id=web.id)
    assert unmet["reason"] == "resize_unmet"
    assert unmet["inputs"]["n"] == len(NODE_CPUS)


def test_a_container_that_was_refused_gets_what_it_is_resized_to(daemon: Daemon, cri: Cri):
    neighbour = workloads.shared(cri)
    web = workloads.run(cri, "web", "dedicated", request=len(NODE_CPUS))
    assert web.cpus == NODE_CPUS
    cri.update(web.id, shares=1024, quota=PERIOD, period=PERIOD)
    becomes(lambda: len(web.cpus or ()), 1)
    becomes(lambda: _everywhere(web), {web.cpus})
    becomes(lambda: _everywhere(neighbour), {NODE_CPUS - (web.cpus or frozenset())})
    daemon.kill()
    daemon.start()
    daemon.wait_ready()
    assert daemon.container(web.id)["exclusive"]
    assert cgroups.members(daemon.container(web.id)["cpus"]) == web.cpus


def test_an_owner_without_a_request_returns_its_cpus_at_once(daemon: Daemon, cri: Cri):
    neighbour = workloads.shared(cri)
    pod = cri.run_pod("web", annotations={QOS: "dedicated"}, shares=1025)
    web = workloads.add(cri, pod, "app", request=1)
    owned = web.first_cpus()
    assert len(owned) == 1
    # the kubelet lowers the container first: until it has lowered the pod's cgroup, that shows the former request
    cri.update(web.id, shares=2)
    becomes(lambda: (_everywhere(web), _everywhere(neighbour)), ({NODE_CPUS}, {NODE_CPUS}))
    cri.weigh(pod.cgroup, 2)
    # it grows again: the pod's cgroup comes first
    cri.weigh(pod.cgroup, 1025)
    cri.update(web.id, shares=1024)
    becomes(lambda: daemon.container(web.id)["exclusive"], True)
    again = cgroups.members(daemon.container(web.id)["cpus"])
    becomes(lambda: (_everywhere(web), _everywhere(neighbour)), ({again}, {NODE_CPUS - again}))


def test_cpus_of_an_init_container_return_before_the_next_is_created(cri: Cri):
    neighbour = workloads.shared(cri)
    init = workloads.dedicated(cri)
    owned = init.first_cpus()
    cri.stop(init.id)
    wait_until(lambda: neighbour.cpus == NODE_CPUS, 30, "its CPUs to come back")
    main = workloads.dedicated(cri, "main")
    assert main.first_cpus() == owned
    becomes(lambda: neighbour.cpus, NODE_CPUS - owned)


def _everywhere(workload: workloads.Workload) -> set[frozenset[int] | None]:
    """Return the CPUs in the cgroup and in the runtime's spec: one set if they agree."""
    return {workload.cpus, cgroups.members(workload.spec_cpus)}
