"""The whole rig: namespaces, control plane and node in one folder; up, down, and questions through kubectl."""

import json
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.cluster import binaries
from tests.cluster.binaries import Pair
from tests.cluster.control_plane import ADMIN, NODE, NODE_NAME, ControlPlane
from tests.cluster.namespace import Namespace
from tests.cluster.node import CGROUP_ROOT, KubeletOptions, Node, Programs
from tests.rig import RigError, kubepods
from tests.rig.waiting import comes

POLL_SECONDS: Final = 0.3
"""Each question is a process of its own."""

_LOG: Final = logging.getLogger(__name__)


class Cluster:
    """One node with its control plane; nothing happens before `start`."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.folder = Path(tempfile.mkdtemp(prefix="cluster-", dir="/tmp"))
        self.namespace = Namespace(self.folder)
        self._kube = binaries.programs(binaries.kubernetes(pair.kubernetes)) / "kube"
        programs = Programs(
            kube=self._kube,
            containerd=binaries.containerd_of(pair),
            runc=binaries.programs(binaries.runc()) / "runc",
            cni=binaries.cni(),
        )
        self.control_plane = ControlPlane(self.namespace, self.folder, self._kube, binaries.etcd())
        self.node = Node(self.namespace, self.folder, programs)

    def start(self, options: KubeletOptions | None = None) -> None:
        """Bring everything up and wait until the node is Ready."""
        if found := self._pids_below():
            raise RigError(
                f"another kubelet's pods are below {CGROUP_ROOT} (processes {sorted(found)}): end it first"
            )
        self.namespace.start()
        self.node.prepare(options or KubeletOptions())
        self.node.start_containerd()
        self.control_plane.start()
        self.node.start_kubelet(self.control_plane.kubeconfig(NODE))
        if not comes(self.is_ready):
            raise RigError(f"the node did not become Ready\n{self.words()}")

    def stop(self) -> None:
        """Take everything away: processes, mounts, cgroups, files. RigError names what would not go."""
        self.node.terminate("kubelet")
        self.control_plane.stop()
        self._kill_pods()
        self.node.stop()
        self._kill_shims()
        self.namespace.stop()
        self._remove_cgroups()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            raise RigError(f"left behind: {self.folder}")

    def restart(self, name: str) -> None:
        """Kill `kubelet` or `containerd` and start it again; containers live on."""
        self.node.kill(name)
        if name == "containerd":
            self.node.start_containerd()
        else:
            self.node.start_kubelet(self.control_plane.kubeconfig(NODE))

    def reconfigure(self, options: KubeletOptions) -> None:
        """Start the kubelet anew with other settings; what its CPU manager pinned is forgotten."""
        self.node.terminate("kubelet")
        self.node.reconfigure(options)
        self.node.start_kubelet(self.control_plane.kubeconfig(NODE))
        self.wait(self.is_ready, "a ready node")

    # ---- questions and orders ----

    def kubectl(self, *arguments: str, stdin: str = "", seconds: float = 120) -> str:
        """Run kubectl as the administrator and return what it prints; RigError if it fails."""
        config = f"--kubeconfig={self.control_plane.kubeconfig(ADMIN)}"
        return self.namespace.run(
            [str(self._kube), "kubectl", config, *arguments], stdin=stdin, seconds=seconds
        )

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Create or change objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def get(self, kind: str, name: str = "", namespace: str = "default") -> dict[str, Any]:
        """Return an object, or the list of all of a kind; empty where there is none."""
        words = ["get", kind, *([name] if name else []), f"--namespace={namespace}", "--output=json"]
        found: dict[str, Any] = json.loads(self.kubectl(*words, "--ignore-not-found") or "{}")
        return found

    def delete(self, kind: str, name: str, namespace: str = "default", *, now: bool = False) -> None:
        """Delete an object and wait until it is gone."""
        hurry = ["--grace-period=0", "--force"] if now else []
        self.kubectl("delete", kind, name, f"--namespace={namespace}", "--ignore-not-found", *hurry)

    def wait(self, predicate: Callable[[], object], what: str, seconds: float = 120) -> None:
        """Wait for a predicate; AssertionError shows what the node's programs said last."""
        end = time.monotonic() + seconds
        while not self._holds(predicate):
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds:g} s in vain for {what}\n{self.words()}")
            time.sleep(POLL_SECONDS)

    def is_ready(self) -> bool:
        """Whether the node is Ready and pods can have a service account."""
        try:
            node, account = self.get("node", NODE_NAME), self.get("serviceaccount", "default")
        except RigError:
            return False
        conditions = node.get("status", {}).get("conditions", [])
        return bool(account) and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def words(self) -> str:
        """Return the end of every log."""
        parts = [f"--- {name}\n{self.node.log_tail(name)}" for name in ("kubelet", "containerd")]
        names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        parts += [f"--- {name}\n{self.control_plane.log_tail(name, 8)}" for name in names]
        return "\n".join(parts)

    @staticmethod
    def _holds(predicate: Callable[[], object]) -> bool:
        try:
            return bool(predicate())
        except RigError as error:  # the API server is being restarted, or busy
            _LOG.info("a question was not answered: %s", error)
            return False

    # ---- what is left when the kubelet is gone ----

    def _kill_pods(self) -> None:
        for pid in self._pids_below():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not comes(lambda: not self._pids_below()):
            raise RigError(f"processes would not end below {CGROUP_ROOT}: {self._pids_below()}")

    def _kill_shims(self) -> None:
        """End the shims, which outlive containerd: they name this rig's socket folder and runtime state."""
        for pid in self._inside():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not comes(lambda: not self._inside()):
            raise RigError(f"processes of the node would not end: {self._inside()}")

    def _inside(self) -> set[int]:
        """Return the processes in the node's mount namespace, but for the one that keeps it."""
        own = self.namespace.identity()
        return {pid for pid in _all_pids() if own and self.namespace.identity(pid) == own} - {
            self.namespace.pid
        }

    def _pids_below(self) -> set[int]:
        found: set[int] = set()
        for root in kubepods.folders(CGROUP_ROOT):
            for file in root.rglob("cgroup.procs"):
                with suppress(OSError):
                    found |= {int(word) for word in file.read_text().split()}
        return found

    def _remove_cgroups(self) -> None:
        def removed() -> bool:
            for root in kubepods.folders(CGROUP_ROOT):
                for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
                    with suppress(OSError):
                        folder.rmdir()
                with suppress(OSError):
                    root.rmdir()
            return not kubepods.folders(CGROUP_ROOT)

        if not comes(removed):
            raise RigError(f"cgroups would not go: {kubepods.folders(CGROUP_ROOT)}")


def _all_pids() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def bring_up(pair: Pair, options: KubeletOptions | None = None) -> Cluster:
    """Return a running cluster; what a failed start left is taken away."""
    cluster = Cluster(pair)
    try:
        cluster.start(options)
    except BaseException:
        cluster.stop()
        raise
    return cluster
