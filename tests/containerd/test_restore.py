"""`restore` on a real runtime leaves every setting as it was before the first start, in files, processes and specs.

Each pod has a twin that ran and ended before the daemon's first start. The twin has the values that a kubelet alone
writes.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.rig import cgroups, load, settings, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.touched import LENDING, PODS, assert_equal, at_work, everything, look, restore, run, spec
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD, Workload

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
MI: Final = 1 << 20

FILES_OF_A_RESIZE: Final = (
    ("cpu.weight", "memory.max") if cgroups.is_v2() else ("cpu.shares", "memory.limit_in_bytes")
)
"""What the kubelet writes to a pod's own cgroup."""


@pytest.fixture
def twins(cri: Cri, own_daemon: OwnDaemon) -> list[Any]:
    """Return the settings that a kubelet alone gives each pod; `own_daemon` has ended any earlier daemon."""
    found = []
    for name in PODS:
        twin = run(cri, name)
        found += everything([twin])
        cri.remove_pod(twin.pod.id)
    return found


@pytest.mark.bears_load
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_who_ran_before_the_first_start_has_every_setting_back(cri: Cri, own_daemon: OwnDaemon, end: str):
    pods = {name: run(cri, name) for name in PODS}
    before = everything(list(pods.values()))
    above = {
        group: settings.of(group) for group in ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort")
    }
    daemon = own_daemon(config=LENDING)
    at_work(daemon, pods)
    assert everything(list(pods.values())) != before
    daemon.kill() if end == "killed" else daemon.terminate()
    done = restore(daemon)
    assert (done.returncode, done.stderr) == (0, "")
    assert_equal(before, everything(list(pods.values())))
    assert settings.differing(above, {group: settings.of(group) for group in above}) == []
    again = restore(daemon)
    assert again.stdout.splitlines()[-1] == "specs of containers: 0 restored, 0 not", again.stdout


@pytest.mark.bears_load
def test_who_came_while_it_ran_has_what_a_kubelet_alone_gives(
    cri: Cri, own_daemon: OwnDaemon, twins: list[Any]
):
    daemon = own_daemon(config=LENDING)
    pods = {name: run(cri, name) for name in PODS}
    at_work(daemon, pods)
    daemon.kill()
    done = restore(daemon)
    assert (done.returncode, done.stderr) == (0, "")
    assert_equal(twins, everything(list(pods.values())))


@pytest.mark.bears_load
def test_restored_values_survive_the_kubelets_next_update(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=LENDING)
    pods = {name: run(cri, name) for name in PODS}
    at_work(daemon, pods)
    daemon.kill()
    assert restore(daemon).returncode == 0
    cri.update(pods["neighbour"].id, shares=256)
    assert pods["neighbour"].cpus == NODE_CPUS, "runc writes the whole spec, and it says nothing of ours"
    assert cgroups.shares(pods["neighbour"].cgroup) in (256, None)
    at_work(own_daemon(config=LENDING, state_dir=daemon.state_dir), pods)


def resize(offline: Workload, shares: int, limit: int) -> None:
    """Resize a pod as the kubelet does when it grows: first the pod's cgroup, then the runtime."""
    pod, (weight, most) = offline.pod.cgroup, FILES_OF_A_RESIZE
    given = 1 + (shares - 2) * 9999 // 262142 if cgroups.is_v2() else shares
    cgroups.file(pod, "memory", most).write_text(str(limit))
    cgroups.file(pod, "cpu", weight).write_text(str(given))
    offline.cri.update(offline.id, shares=shares, memory=limit)


@pytest.mark.bears_load
@pytest.mark.parametrize("end", ["killed", "told to restore"])
def test_an_offline_pod_is_restored_to_its_resized_values(cri: Cri, own_daemon: OwnDaemon, end: str):
    feature = "" if end == "killed" else ", features: [restore-on-exit]"
    daemon = own_daemon(config=f"reclaim: {{enabled: true{feature}}}\n")
    idle = run(cri, "idle")
    wait_until(lambda: cgroups.memory_limit(idle.pod.cgroup), 120, "a limit of the reclaim cgroups")
    smallest = weight_of(idle.pod.cgroup)
    for shares, limit in ((512, 512 * MI), (1024, 1024 * MI)):
        resize(idle, shares, limit)
        wait_until(lambda: weight_of(idle.pod.cgroup) == smallest, 30, "the reclaim cgroup's weight again")
        known = f'"{limit}"'
        wait_until(lambda: known in noted(daemon), 60, "the limit to be known")  # noqa: B023 - called at once
        assert cgroups.memory_limit(idle.pod.cgroup) == limit, "never above what the kubelet gave"
    if end == "killed":
        daemon.kill()
        assert restore(daemon).returncode == 0
    else:
        assert daemon.terminate() == 0
    assert cgroups.memory_limit(idle.pod.cgroup) == 1024 * MI
    assert weight_of(idle.pod.cgroup) == (39 if cgroups.is_v2() else 1024)


@pytest.mark.bears_load
@pytest.mark.parametrize("starts", [True, False], ids=["started again", "restored at once"])
@pytest.mark.parametrize("limit", [1024 * MI, 128 * MI], ids=["raised", "lowered"])
def test_a_resize_while_the_daemon_is_stopped_is_kept(
    cri: Cri, own_daemon: OwnDaemon, limit: int, *, starts: bool
):
    daemon = own_daemon(config=LENDING)
    idle = run(cri, "idle")
    wait_until(lambda: cgroups.memory_limit(idle.pod.cgroup), 120, "a limit of the reclaim cgroups")
    smallest = weight_of(idle.pod.cgroup)
    resize(idle, 512, 512 * MI)
    wait_until(lambda: weight_of(idle.pod.cgroup) == smallest, 30, "the reclaim cgroup's weight again")
    wait_until(lambda: f'"{512 * MI}"' in noted(daemon), 60, "the limit to be known")
    daemon.kill()
    resize(idle, 1024, limit)
    if starts:
        daemon = own_daemon(config=LENDING, state_dir=daemon.state_dir)
        wait_until(lambda: weight_of(idle.pod.cgroup) == smallest, 30, "the reclaim cgroup's weight")
        wait_until(lambda: f'"{limit}"' in noted(daemon), 60, "the limit to be known")
        daemon.kill()
    assert restore(daemon).returncode == 0
    assert weight_of(idle.pod.cgroup) == (39 if cgroups.is_v2() else 1024)
    assert cgroups.memory_limit(idle.pod.cgroup) == limit
    assert spec(idle)["shares"] == 1024


def weight_of(cgroup: str) -> int | None:
    """Return a cgroup's weight on v2, its shares on v1."""
    return cgroups.weight(cgroup) if cgroups.is_v2() else cgroups.shares(cgroup)


def noted(daemon: Daemon) -> str:
    """Return the text of the journal."""
    return (daemon.state_dir / "restore.jsonl").read_text()


def test_a_raised_quota_goes_back(cri: Cri, own_daemon: OwnDaemon):
    own = (3 * PERIOD // 10, PERIOD)
    held_back = workloads.run(cri, "held-back", request=0.3, command=load.burners(1))
    before = look(held_back)
    assert cgroups.quota(held_back.cgroup) == own
    daemon = own_daemon(config="reclaim: {enabled: true, features: [quota-burst]}\n")
    wait_until(lambda: (cgroups.quota(held_back.cgroup) or own) > own, 60, "more than its own")
    daemon.kill()
    done = restore(daemon)
    assert (done.returncode, done.stderr) == (0, "")
    assert cgroups.quota(held_back.cgroup) == own
    assert settings.differing(before, look(held_back)) == []


@pytest.mark.bears_load
def test_without_the_runtime_only_files_are_restored(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=LENDING)
    lent = run(cri, "lent")
    wait_until(lambda: cgroups.memory_limit(lent.pod.cgroup), 120, "a limit of the reclaim cgroups")
    daemon.kill()
    done = restore(daemon, "--nri-socket", "/nowhere/nri.sock")
    assert done.returncode == 1
    assert "the runtime's specs could not be read (/nowhere/nri.sock: " in done.stderr
    assert cgroups.memory_limit(lent.pod.cgroup) is None
    assert spec(lent)["quota"] == PERIOD // 2
    assert restore(daemon).returncode == 0
    assert (spec(lent)["quota"], spec(lent)["shares"]) == (0, 2)


@pytest.mark.bears_load
def test_at_its_end_it_restores_what_it_is_told_to(cri: Cri, own_daemon: OwnDaemon):
    pods = {name: run(cri, name) for name in ("web", "neighbour")}
    before = everything(list(pods.values()))
    daemon = own_daemon(config="reclaim: {enabled: true, features: [scheduler-hints, restore-on-exit]}\n")
    wait_until(lambda: spec(pods["neighbour"])["cpus"] != "", 30, "its spec to say so")
    assert daemon.terminate() == 0
    assert everything(list(pods.values())) == before
