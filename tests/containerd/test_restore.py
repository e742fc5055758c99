"""`restore` on a real runtime: every setting is as it was before the first start, in files, processes and specs.

Each pod has a twin that ran and ended before the daemon ever came: what a kubelet alone makes of such a pod.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.rig import cgroups, kubepods, load, settings, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD, Workload

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
Settings = dict[str, dict[str, str]]
MI: Final = 1 << 20
LENDING: Final = "reclaim: {enabled: true, features: [scheduler-hints, scheduler-idle, quota-burst]}\n"
AMOUNTS: Final = {"kubernetes.io/batch-cpu": 500, "kubernetes.io/batch-memory": 64 * MI}
LENT: Final = {
    "node.koordinator.sh/extended-resource-spec": json.dumps(
        {"containers": {"app": {"requests": AMOUNTS, "limits": AMOUNTS}}}
    )
}
BURST: Final = {"coloc.nri.io/cpu-burst": "100", "coloc.nri.io/io-weight": "300"}
LIMIT: Final = {"coloc.nri.io/memory-limit": "48Mi"}

FILES_OF_A_RESIZE: Final = (
    ("cpu.weight", "memory.max") if cgroups.is_v2() else ("cpu.shares", "memory.limit_in_bytes")
)
"""What the kubelet writes to a pod's own cgroup."""

PODS: Final[dict[str, dict[str, Any]]] = {
    "web": {"qos": "dedicated", "request": 1},
    "neighbour": {"request": 0.1, "memory": 128 * MI},
    "bursting": {"request": 0.5, "annotations": BURST},
    "lent": {"annotations": LENT, "parent": kubepods.BESTEFFORT, "oom": 1000},
    "batch": {"qos": "reclaimed", "request": 0.2, "annotations": LIMIT, "oom": 900},
    "idle": {"parent": kubepods.BESTEFFORT, "oom": 1000},
}
"""Of every class, and with whatever we set beside a class's own."""


def run(cri: Cri, name: str) -> Workload:
    """Run one of the pods."""
    found = workloads.run(cri, name, **PODS[name])
    found.first_cpus()
    return found


def look(workload: Workload) -> Settings:
    """Every setting of a pod, of its sandbox and container, by what each is to the pod."""
    pod = workload.pod
    named = {pod.cgroup: "pod", f"{pod.cgroup}/{pod.id}": "sandbox", workload.cgroup: "container"}
    return {named.get(path, path): files for path, files in settings.below(pod.cgroup).items()}


def task(workload: Workload) -> tuple[int | None, object]:
    """The score and the scheduler's attributes of a container's first process."""
    (found,) = settings.of_processes(workload.cgroup).values()
    return found


def spec(workload: Workload) -> dict[str, Any]:
    """What the runtime's spec says, without sets that mean everything: an update cannot take a set out again."""
    found: dict[str, Any] = workload.cri.info(workload.id)["runtimeSpec"]["linux"]["resources"]
    cpu, limit = found.get("cpu", {}), found.get("memory", {}).get("limit", 0)
    quota = cpu.get("quota", 0)
    return {
        "cpus": "" if cgroups.members(cpu.get("cpus", "")) == NODE_CPUS else cpu.get("cpus", ""),
        "shares": cpu.get("shares", 0),
        "quota": max(0, quota),
        "memory": max(0, limit),
    }


def restore(daemon: Daemon, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nri_coloc", "restore", *daemon.places(), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def everything(pods: list[Workload]) -> list[Any]:
    return [(look(pod), task(pod), spec(pod)) for pod in pods]


def assert_equal(before: list[Any], after: list[Any]) -> None:
    for name, was, now in zip(PODS, before, after, strict=True):
        assert settings.differing(was[0], now[0]) == [], name
        assert was[1:] == now[1:], name


@pytest.fixture
def twins(cri: Cri, own_daemon: OwnDaemon) -> list[Any]:
    """What a kubelet alone makes of each pod; `own_daemon` has ended whatever served before."""
    found = []
    for name in PODS:
        twin = run(cri, name)
        found += everything([twin])
        cri.remove_pod(twin.pod.id)
    return found


def at_work(daemon: Daemon, pods: dict[str, Workload]) -> None:
    """Wait until it has moved, limited, lent, pushed and hinted."""
    owned = pods["web"]
    wait_until(lambda: len(owned.cpus or ()) == 1, 30, "a CPU of its own")
    wait_until(
        lambda: pods["neighbour"].cpus == NODE_CPUS - (owned.cpus or NODE_CPUS), 30, "the other to leave"
    )
    wait_until(lambda: spec(pods["neighbour"])["cpus"] != "", 30, "its spec to say so")
    wait_until(lambda: spec(pods["lent"])["quota"] == PERIOD // 2, 30, "what was lent in the spec")
    wait_until(lambda: cgroups.memory_limit(pods["idle"].pod.cgroup), 120, "a limit of the box")
    failed = daemon.audit("write.failed")
    # cgroup v1 has no memory.high for the reclaim pool, and a record says so
    assert [record for record in failed if record["reason"] != "no_file"] == []


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


def test_what_was_restored_outlives_the_kubelets_next_update_and_a_new_daemon_takes_over(
    cri: Cri, own_daemon: OwnDaemon
):
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
    """What the kubelet does for a pod that grows: first the pod's cgroup, then the runtime."""
    pod, (weight, most) = offline.pod.cgroup, FILES_OF_A_RESIZE
    given = 1 + (shares - 2) * 9999 // 262142 if cgroups.is_v2() else shares
    cgroups.file(pod, "memory", most).write_text(str(limit))
    cgroups.file(pod, "cpu", weight).write_text(str(given))
    offline.cri.update(offline.id, shares=shares, memory=limit)


@pytest.mark.parametrize("end", ["killed", "told to restore"])
def test_what_an_offline_pod_was_resized_to_meanwhile_is_what_it_goes_back_to(
    cri: Cri, own_daemon: OwnDaemon, end: str
):
    feature = "" if end == "killed" else ", features: [restore-on-exit]"
    daemon = own_daemon(config=f"reclaim: {{enabled: true{feature}}}\n")
    idle = run(cri, "idle")
    wait_until(lambda: cgroups.memory_limit(idle.pod.cgroup), 120, "a limit of the box")
    smallest = weight_of(idle.pod.cgroup)
    for shares, limit in ((512, 512 * MI), (1024, 1024 * MI)):
        resize(idle, shares, limit)
        wait_until(lambda: weight_of(idle.pod.cgroup) == smallest, 30, "the box's weight again")
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


def weight_of(cgroup: str) -> int | None:
    """Its weight on v2, its shares on v1."""
    return cgroups.weight(cgroup) if cgroups.is_v2() else cgroups.shares(cgroup)


def noted(daemon: Daemon) -> str:
    """The journal."""
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


def test_without_the_runtime_files_are_back_and_it_says_what_is_not(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=LENDING)
    lent = run(cri, "lent")
    wait_until(lambda: cgroups.memory_limit(lent.pod.cgroup), 120, "a limit of the box")
    daemon.kill()
    done = restore(daemon, "--nri-socket", "/nowhere/nri.sock")
    assert done.returncode == 1
    assert "the runtime's specs could not be looked at (/nowhere/nri.sock: " in done.stderr
    assert cgroups.memory_limit(lent.pod.cgroup) is None
    assert spec(lent)["quota"] == PERIOD // 2
    assert restore(daemon).returncode == 0
    assert (spec(lent)["quota"], spec(lent)["shares"]) == (0, 2)


def test_at_its_end_it_restores_what_it_is_told_to(cri: Cri, own_daemon: OwnDaemon):
    pods = {name: run(cri, name) for name in ("web", "neighbour")}
    before = everything(list(pods.values()))
    daemon = own_daemon(config="reclaim: {enabled: true, features: [scheduler-hints, restore-on-exit]}\n")
    wait_until(lambda: spec(pods["neighbour"])["cpus"] != "", 30, "its spec to say so")
    assert daemon.terminate() == 0
    assert everything(list(pods.values())) == before
