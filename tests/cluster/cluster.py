"""The whole rig: namespaces, control plane and node in one folder; up, down, and questions through kubectl."""

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.cluster import binaries, leftovers
from tests.cluster.binaries import Pair
from tests.cluster.control_plane import ADMIN, NODE, NODE_NAME, ControlPlane
from tests.cluster.leftovers import CGROUP_ROOT
from tests.cluster.namespace import Namespace
from tests.cluster.node import KubeletOptions, Node, Programs
from tests.rig import RigError
from tests.rig.waiting import PATIENCE_SECONDS, comes, patience

POLL_SECONDS: Final = 0.3
"""Each question is a process of its own."""

ORDER_SECONDS: Final = 2 * PATIENCE_SECONDS
"""For an order that kubectl itself waits for, as a deletion."""

REPORT_SECONDS: Final = 30.0
"""For one question of a failure's report: a broken cluster may answer none."""

_SCENE: Final = (
    ("get", "pods", "--all-namespaces", "--output=wide"),
    ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
    ("describe", "node", NODE_NAME),
)

Answer = TypeVar("Answer")

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Hold what was seen beside what is wanted: true where they are equal."""

    seen: object
    wanted: object

    def __bool__(self) -> bool:
        return self.seen == self.wanted


class Cluster:
    """Run one node with its control plane; nothing happens before `start`."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.folder = leftovers.new_folder()
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
        leftovers.take_away()
        if pids := leftovers.pids_below():
            raise RigError(f"another kubelet's pods are below {CGROUP_ROOT} (processes {sorted(pids)})")
        self.folder.mkdir(mode=0o700)
        leftovers.note(self.folder, os.getpid(), self.node.note_settings())
        self.namespace.start()
        self.node.prepare(options or KubeletOptions())
        self.node.start_containerd()
        self.control_plane.start()
        self.start_kubelet()
        if not comes(self.is_ready):
            raise RigError(f"the node did not become Ready\n{self.words()}")

    def stop(self) -> None:
        """Remove processes, mounts, cgroups and files; RigError names the remains that could not be removed."""
        self.node.terminate("kubelet")
        self.control_plane.stop()
        leftovers.kill(leftovers.pids_below, "processes of pods")
        self.node.stop()
        # shims outlive containerd
        leftovers.kill(lambda: leftovers.inside(self.folder, but=self.namespace.pid), "processes of the node")
        self.namespace.stop()
        leftovers.remove_cgroups()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            raise RigError(f"left behind: {self.folder}")

    def leave(self) -> None:
        """Leave the rig running after this process: its owner is from now on the process that keeps its namespaces."""
        leftovers.note(self.folder, self.namespace.pid, self.node.before)

    def kubectl_link(self) -> Path:
        """Return a program that is kubectl when it is called by that name."""
        path = self.folder / "kubectl"
        path.write_text(f'#!/bin/sh\nexec {self._kube} kubectl "$@"\n')
        path.chmod(0o755)
        return path

    def restart(self, name: str) -> None:
        """Kill `kubelet` or `containerd` and start it again; containers live on."""
        self.node.kill(name)
        if name == "containerd":
            self.node.start_containerd()
        else:
            self.start_kubelet()

    def start_kubelet(self) -> None:
        """Start the kubelet of this node and wait until it is healthy."""
        self.node.start_kubelet(self.control_plane.kubeconfig(NODE))

    def reconfigure(self, options: KubeletOptions) -> None:
        """Restart the kubelet with other settings; the state of its CPU manager is removed."""
        self.node.terminate("kubelet")
        self.node.reconfigure(options)
        self.start_kubelet()
        self.wait(self.is_ready, "a ready node")

    # ---- kubectl ----

    def kubectl(self, *arguments: str, stdin: str = "", seconds: float = ORDER_SECONDS) -> str:
        """Run kubectl as the administrator and return its output; RigError shows all that a failed one printed."""
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

    def wait(self, look: Callable[[], Answer], what: str, seconds: float = PATIENCE_SECONDS) -> Answer:
        """Wait until `look` returns a true answer and return that answer; AssertionError shows the last one.

        A look that cannot be answered now counts as a false one: the API server is restarted, the cgroup is not there
        yet, or the daemon's answer lacks a key.
        """
        end = time.monotonic() + patience(seconds)
        while True:
            last: Answer | Exception
            try:
                if last := look():
                    return last
            except (RigError, OSError, LookupError) as error:
                _LOG.info("a question was not answered: %r", error)
                last = error
            if time.monotonic() > end:
                raise AssertionError(f"waited {patience(seconds):g} s in vain for {what}; at last: {last!r}")
            time.sleep(POLL_SECONDS)

    def becomes(self, look: Callable[[], object], wanted: object, what: str) -> None:
        """Wait until `look` returns the wanted value; AssertionError shows the last one."""
        self.wait(lambda: _Compared(look(), wanted), what)

    def is_ready(self) -> bool:
        """Return whether the node is Ready and pods can have a service account."""
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

    def scene(self) -> str:
        """Return pods, events and the node as the API server has them now, for a failure's report."""
        return "\n".join(f"--- kubectl {' '.join(words)}\n{self.told(*words)}" for words in _SCENE)

    def told(self, *words: str) -> str:
        """Return what kubectl prints, or why it fails, for a failure's report."""
        try:
            return self.kubectl(*words, seconds=REPORT_SECONDS)
        except RigError as error:
            return str(error)


def bring_up(pair: Pair, options: KubeletOptions | None = None) -> Cluster:
    """Return a running cluster; what a failed start left is taken away."""
    cluster = Cluster(pair)
    try:
        cluster.start(options)
    except BaseException:
        cluster.stop()
        raise
    return cluster
