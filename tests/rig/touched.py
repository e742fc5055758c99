"""Pods of every class on a real runtime, and every setting of them that the daemon may change."""

import json
import subprocess
import sys
from typing import Any, Final

from tests.rig import cgroups, kubepods, settings, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD, Workload

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
    """Return every setting of a pod, of its sandbox and its container, by the role of each cgroup in the pod."""
    pod = workload.pod
    named = {pod.cgroup: "pod", f"{pod.cgroup}/{pod.id}": "sandbox", workload.cgroup: "container"}
    return {named.get(path, path): files for path, files in settings.below(pod.cgroup).items()}


def task(workload: Workload) -> tuple[int | None, object]:
    """Return oom_score_adj and the scheduler's attributes of a container's first process."""
    (found,) = settings.of_processes(workload.cgroup).values()
    return found


def spec(workload: Workload) -> dict[str, Any]:
    """Return the runtime's spec, without sets that mean everything: an update cannot remove a set."""
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
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def everything(pods: list[Workload]) -> list[Any]:
    return [(look(pod), task(pod), spec(pod)) for pod in pods]


def assert_equal(before: list[Any], after: list[Any]) -> None:
    for name, was, now in zip(PODS, before, after, strict=True):
        # nothing rewrites a helper's assertions, so they say themselves what differs
        found = settings.differing(was[0], now[0])
        assert not found, f"{name}: {found}"
        assert was[1:] == now[1:], f"{name}: {was[1:]} -> {now[1:]}"


def at_work(daemon: Daemon, pods: dict[str, Workload]) -> None:
    """Wait until the daemon has moved, limited, lent, pushed and hinted."""
    owned = pods["web"]
    wait_until(lambda: len(owned.cpus or ()) == 1, 30, "a CPU of its own")
    wait_until(
        lambda: pods["neighbour"].cpus == NODE_CPUS - (owned.cpus or NODE_CPUS), 30, "the other to leave"
    )
    wait_until(lambda: spec(pods["neighbour"])["cpus"] != "", 30, "its spec to say so")
    wait_until(lambda: spec(pods["lent"])["quota"] == PERIOD // 2, 30, "what was lent in the spec")
    wait_until(lambda: cgroups.memory_limit(pods["idle"].pod.cgroup), 120, "a limit of the reclaim cgroups")
    assert daemon.audit("write.failed", reason="refused") == []
