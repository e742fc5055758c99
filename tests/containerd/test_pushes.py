"""Pushed values arrive in a real runtime's specs; hints and bursts arrive on the real kernel."""

from collections.abc import Callable

import pytest

from nri_coloc.cli import main
from nri_coloc.host import scheduler
from nri_coloc.host.scheduler import IDLE, OTHER
from tests.rig import cgroups, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.lent import LENT, held, in_force, lent
from tests.rig.waiting import becomes, poll, wait_until
from tests.rig.workloads import PERIOD, Workload

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load]

WITH_CHILD = ("/bin/sh", "-c", workloads.COMMAND[2].replace("exec sleep 1000000", "sleep 1000000 & wait"))

Up = Callable[..., Daemon]


def test_a_loan_since_creation_needs_no_push(cri: Cri, daemon: Daemon):
    batch = lent(cri, "batch")
    assert held(batch) == LENT
    assert in_force(batch)
    assert not poll(lambda: daemon.audit("container.update", container_id=batch.id), 1)


def test_an_earlier_containers_loan_is_pushed_and_written(cri: Cri, own_daemon: Up):
    batch = lent(cri, "batch")
    assert held(batch)["quota"] == 0
    daemon = own_daemon()
    wait_until(lambda: held(batch) == LENT, 30, "the push")
    assert in_force(batch)
    assert daemon.audit("push.failed") == []
    # the daemon recognises its own call: it is no update of the kubelet's
    assert daemon.audit("container.update", container_id=batch.id, reason="kubelet_update") == []


# ---- scheduling hints ----


@pytest.fixture
def slice_us() -> int:
    """Return the slice in µs that an online container's tasks should have; 0 if the kernel knows no slices."""
    found = scheduler.probe("/")
    assert found is not None
    return 100 if found.slices else 0


def policy(pid: int) -> tuple[int, int]:
    """Return a task's policy and slice."""
    found = scheduler.read(pid)
    assert found is not None
    return found.policy, found.slice_us


def slept(workload: Workload) -> int:
    """Return the pid, once its program runs."""
    workload.first_cpus()
    return workload.cri.pid(workload.id)


def test_hints_are_on_the_containers_first_process_and_inherited(cri: Cri, own_daemon: Up, slice_us: int):
    own_daemon(config="reclaim: {enabled: true}\n")
    online = workloads.run(cri, "web", request=0.1, command=WITH_CHILD)
    offline = workloads.reclaimed(cri)
    becomes(lambda: policy(slept(online)), (OTHER, slice_us))
    becomes(lambda: policy(slept(offline))[0], IDLE)
    wait_until(lambda: len(cgroups.pids(online.cgroup)) > 1, 30, "its child")
    becomes(lambda: {policy(pid) for pid in cgroups.pids(online.cgroup)}, {(OTHER, slice_us)})


def test_hints_come_and_go_with_feature_and_restore(cri: Cri, own_daemon: Up, slice_us: int):
    online, offline = workloads.shared(cri), workloads.reclaimed(cri)
    pids = slept(online), slept(offline)
    before = [policy(pid) for pid in pids]
    daemon = own_daemon(config="reclaim: {enabled: true}\n")
    told = lambda: (policy(pids[0]), policy(pids[1])[0]) == ((OTHER, slice_us), IDLE)  # noqa: E731 - asked twice
    wait_until(told, 30, "the hints")
    daemon.config.write("reclaim: {enabled: true, features: []}\n")
    wait_until(lambda: [policy(pid) for pid in pids] == before, 30, "the defaults")
    daemon.config.write("reclaim: {enabled: true}\n")
    wait_until(told, 30, "the hints again")
    daemon.kill()
    assert told()
    assert main.main(["restore", *daemon.places()], {}) == 0
    assert [policy(pid) for pid in pids] == before


# ---- bursts ----


def bursts(web: Workload) -> tuple[int | None, int | None]:
    """Return the bursts of the container and of its pod."""
    return cgroups.burst(web.cgroup), cgroups.burst(web.pod.cgroup)


def set_pod_quota(web: Workload, quota: int) -> None:
    """Write a pod's quota into its cgroup, as the kubelet does."""
    if cgroups.is_v2():
        cgroups.file(web.pod.cgroup, "cpu", "cpu.max").write_text(f"{quota} {PERIOD}")
    else:
        cgroups.file(web.pod.cgroup, "cpu", "cpu.cfs_quota_us").write_text(str(quota))


@pytest.fixture
def bursts_exist() -> None:
    """Skip the test if the kernel has no bursts: a group may save up quota since Linux 5.14."""
    root = cgroups.ROOT if cgroups.is_v2() else cgroups.ROOT / "cpu"
    if not any(root.glob("*/cpu.max.burst" if cgroups.is_v2() else "cpu.cfs_burst_us")):
        pytest.skip("this kernel has no CFS bursts: no group has the file")


@pytest.mark.usefixtures("bursts_exist")
def test_a_burst_is_on_container_and_pod_and_falls_before_quotas(cri: Cri, daemon: Daemon):
    web = workloads.run(cri, "web", request=0.5, annotations={"coloc.nri.io/cpu-burst": "100"}, started=False)
    set_pod_quota(web, 50_000)
    web.start()
    becomes(lambda: bursts(web), (50_000, 50_000))
    cri.update(web.id, quota=20_000, period=PERIOD)
    assert cgroups.quota(web.cgroup) == (20_000, PERIOD)
    set_pod_quota(web, 20_000)
    becomes(lambda: bursts(web), (20_000, 20_000))
    set_pod_quota(web, 80_000)
    cri.update(web.id, quota=80_000, period=PERIOD)
    wait_until(lambda: bursts(web) == (80_000, 80_000), 30, "the burst to grow again")
    assert daemon.audit("write.failed") == []


@pytest.mark.usefixtures("bursts_exist")
def test_a_burst_that_somebody_resets_is_put_right(cri: Cri, daemon: Daemon):
    web = workloads.run(cri, "web", request=0.5, annotations={"coloc.nri.io/cpu-burst": "50"})
    name = "cpu.max.burst" if cgroups.is_v2() else "cpu.cfs_burst_us"
    cgroups.file(web.cgroup, "cpu", name).write_text("0")
    wait_until(lambda: bursts(web) == (25_000, 25_000), 30, "the repair")
