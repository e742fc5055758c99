"""The daemon as its own process beside a simulated node, and the checks that hold for it in every test.

Used by every test of this folder that runs the product; nothing here is a test.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pytest

from nri_coloc.cli import main
from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.node import Node
from nri_coloc.sim.plugin_link import PluginLink
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.rig import patient_daemon
from tests.rig.containerd import Containerd
from tests.rig.daemon import Daemon, answer
from tests.rig.slow_daemon import SLOW, SLOW_UPDATE
from tests.rig.waiting import wait_until

ON_V2: Final = pytest.mark.parametrize("node", [2], ids=["v2"], indirect=True)
"""For a test whose subject is the same on both versions of cgroups, such as the state folder's files."""

QOS: Final = "coloc.nri.io/qos-class"
ENDS_WITHIN_S: Final = 2.0
"""What DESIGN promises between SIGTERM and the exit."""


def daemon_of(
    node: Node,
    *,
    config: str = "",
    flags: Sequence[str] = (),
    program: Sequence[str] = patient_daemon.PROGRAM,
    state_dir: Path | None = None,
) -> Daemon:
    """Return the daemon for a simulated node, not started yet; only its time limits are longer than the product's."""
    # a node has both sockets, and the daemon's rig needs no more of a runtime
    runtime = cast("Containerd", node)
    every = ("--host-root", str(node.host_root), *flags)
    return Daemon(runtime, config=config, flags=every, program=program, state_dir=state_dir)


def served(daemon: Daemon) -> Daemon:
    """Return the daemon once it knows the runtime's containers and serves its state."""
    daemon.wait_synchronised()
    wait_until(lambda: status(daemon, "/healthz"), 20, "an answer over HTTP")
    return daemon


def settled(daemon: Daemon) -> dict[str, Any]:
    """Return the state once the CPUs of every container have been read back and are in the audit."""
    known = [c["id"] for c in daemon.state()["containers"]]
    for container_id in known:
        daemon.audited("container.admit", 20, container_id=container_id)
    wait_until(lambda: all(map(_is_read_back, daemon.state()["containers"])), 20, "all to be read back")
    return daemon.state()


def _is_read_back(container: Mapping[str, Any]) -> bool:
    return bool(container["actual_cpus"] == container["cpus"])


# ---- helpers for pods ----


def pod(
    node: Node,
    name: str = "web",
    qos: str = "",
    annotations: Mapping[str, str] | None = None,
    kube: KubeQoS = KubeQoS.BURSTABLE,
    namespace: str = "shop",
    *,
    milli: int | None = None,
) -> str:
    """Run a pod's sandbox and return its id.

    milli: its CPU request; default for a dedicated pod: as much as the node has.
    """
    wanted = {**({QOS: qos} if qos else {}), **(annotations or {})}
    asked = (8000 if qos == "dedicated" else 0) if milli is None else milli
    return node.run_pod(PodRequest(name, namespace, kube, wanted, shares=native(asked).shares or 2))


def dedicated(node: Node, name: str = "web", milli: int = 2000, **annotations: str) -> str:
    """Run a pod with one container that wants CPUs of its own; return the container's id."""
    request = ContainerRequest("app", native(milli, milli))
    return node.run_container(pod(node, name, "dedicated", annotations), request)


def shared(node: Node, name: str = "neighbour", milli: int = 100, **options: Any) -> str:
    """Run a pod of the pool `share`, which requests as much as its container."""
    pod_id = pod(node, name, **({"milli": milli} | options))
    return node.run_container(pod_id, ContainerRequest("app", native(milli)))


def reclaimed(node: Node, name: str = "batch", **options: Any) -> str:
    """Run a BestEffort pod, which is a reclaimed pod without any annotation."""
    return node.run_container(pod(node, name, kube=KubeQoS.BEST_EFFORT, **options), ContainerRequest("app"))


def file(node: Node, container_or_pod: str, name: str) -> str | None:
    """Read a control file of a container or a pod by its id."""
    runtime = node.runtime
    owner = runtime.containers.get(container_or_pod) or runtime.pods[container_or_pod]
    return node.tree.read(owner.cgroup, name)


def decide_when_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a slow daemon decide only after the runtime has an answer, from any plugin."""
    ask = PluginLink.hook
    slow = {HookKind.CREATE_CONTAINER: SLOW, HookKind.UPDATE_CONTAINER: SLOW_UPDATE}

    def hook(link: PluginLink, kind: HookKind, sandbox: Any, *parts: Any) -> Any:
        answer = ask(link, kind, sandbox, *parts)
        if path := sandbox.annotations.get(slow.get(kind, ""), ""):
            Path(path).touch()
        return answer

    monkeypatch.setattr(PluginLink, "hook", hook)


# ---- checks ----


def status(daemon: Daemon, path: str) -> int:
    """Return the HTTP status of a path; 0 while no process listens."""
    return answer(daemon._port, path)[0]


def assert_unhurt(daemon: Daemon) -> dict[str, Any]:
    """Return the state; assert that the daemon lives, without a traceback, a failed hook or a broken invariant."""
    assert not daemon.is_dead, daemon.last_words()
    assert status(daemon, "/healthz") == 200
    log = daemon.log()
    assert "Traceback" not in log, log
    assert "failed inside" not in log, log
    assert "internal error" not in log, log
    assert daemon.audit("hook.failed") == []
    assert daemon.broken_records() == []
    state = daemon.state()
    assert list(broken_invariants(state)) == []
    return state


def broken_invariants(state: Mapping[str, Any]) -> list[str]:
    """Return the invariants of DESIGN 3 that a `/v1/state` breaks, in words."""
    broken = []
    online = cpuset.parse(state["node"]["cpus"])
    pools = {name: cpuset.parse(pool["cpus"]) for name, pool in state["pools"].items()}
    owned = 0
    for container in state["containers"]:
        cpus = cpuset.parse(container["cpus"])
        name = (
            f"{container['namespace']}/{container['pod']}/{container['container']} ({container['id'][:12]})"
        )
        if not cpus or cpus & ~online:
            broken.append(f"{name} has CPUs {container['cpus']!r} of {state['node']['cpus']}")
        if container["exclusive"]:
            if cpus & owned:
                broken.append(f"{name} shares exclusive CPUs {container['cpus']}")
            owned |= cpus
        elif container["pool"] != "dedicated" and cpus & pools["dedicated"]:
            broken.append(f"{name} runs on dedicated CPUs {container['cpus']}")
        if container["class"] != "system" and cpus & pools["reserved"]:
            broken.append(f"{name} runs on reserved CPUs")
    if owned != pools["dedicated"]:
        broken.append(f"the dedicated pool is {state['pools']['dedicated']['cpus']}, owned is {owned:b}")
    if not pools["share"]:
        broken.append("share has no CPU left")
    if pools["share"] & pools["dedicated"]:
        broken.append("share and dedicated overlap")
    return broken


def ends_well(daemon: Daemon) -> bool:
    """Return whether SIGTERM ends the daemon with exit code 0 in time; AssertionError if it does not."""
    return daemon.terminate(ENDS_WITHIN_S) == 0


def cpu_seconds(daemon: Daemon) -> float:
    """Return the CPU seconds that the daemon has used so far."""
    fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tree_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below a folder with its time of change and its content."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                found[str(path)] = (path.stat().st_mtime_ns, path.read_bytes())
    return found


def journal(daemon: Daemon) -> list[dict[str, str]]:
    """Return the entries of the restore journal, without its header."""
    path = daemon.state_dir / "restore.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [entry for entry in map(json.loads, lines) if "file" in entry]


class Done(NamedTuple):
    """Hold the result of a command."""

    code: int
    out: str
    err: str


def restore_of(node: Node, daemon: Daemon, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return `nri-coloc restore` for a daemon's state folder and its node's runtime."""

    def run(*more: str) -> Done:
        paths = {
            "--state-dir": daemon.state_dir,
            "--host-root": node.host_root,
            "--nri-socket": node.nri_socket,
            "--cri-socket": node.cri_socket,
        }
        flags = [str(part) for pair in paths.items() for part in pair]
        return Done(main.main(["restore", *flags, *more], {}), *capfd.readouterr())

    return run


class Lasting(NamedTuple):
    """Hold a node and its daemon for many tests; `emptied` cleans both for the next test."""

    node: Node
    daemon: Daemon

    def emptied(self, config: str = "") -> Node:
        """Remove all pods, start a killed daemon or runtime, and write a configuration."""
        for pod_id in list(self.node.runtime.pods):
            self.node.remove_pod(pod_id)
        self.node.runtime.failures.clear()
        self.node.runtime.plugins.farewells.clear()
        if self.daemon.is_dead:
            self.daemon.start()
            served(self.daemon)
        if self.daemon.config.asked != config:
            reload(self.daemon, config)
        wait_until(lambda: self.daemon.state()["containers"] == [], 20, "the daemon to know of no container")
        return self.node


def reload(daemon: Daemon, text: str, result: str = "valid") -> dict[str, Any]:
    """Publish a configuration as a ConfigMap does, and wait until it is in force or refused, and reported."""
    said, counted = len(daemon.audit("config.reload")), _reloads(daemon)
    daemon.config.write(text)
    wait_until(lambda: len(daemon.audit("config.reload")) > said, 20, f"a reload that is {result}")
    wait_until(lambda: _reloads(daemon) > counted, 20, "its end")
    record = daemon.audit("config.reload")[-1]
    assert record["reason"] == result, record["because"]
    return record


def _reloads(daemon: Daemon) -> float:
    name = "nri_coloc_config_reload_total"
    return sum(daemon.metric(f'{name}{{result="{result}"}}') for result in ("valid", "invalid"))
