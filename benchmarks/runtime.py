"""A runtime of our own for measuring: the sans-IO runtime side on a blocking socket, nothing else in its process.

The round trip is measured from the last byte sent to the last byte received; encoding the request and decoding
the answer are the runtime's work and stay outside.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import multiplexer
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.adaptation import Adaptation, PluginRegistered
from nri_coloc.ttrpc import frames

HEADERS = frames.HEADER.size + 8


class MeasuredRuntime:
    """Start the daemon as its own process, register it and send it hooks one at a time.

    command: starts the daemon; the arguments of `nri-coloc` follow it.
    tree: the folder of another `nri_coloc` to run.
    """

    def __init__(
        self,
        host_root: str,
        *flags: str,
        version: tuple[int, int, int] = (0, 8, 0),
        command: Sequence[str] = (sys.executable, "-m", "nri_coloc"),
        tree: Path | None = None,
    ) -> None:
        self._command = command
        self._environment = os.environ | ({"PYTHONPATH": str(tree)} if tree else {})
        self._folder = tempfile.TemporaryDirectory(prefix="coloc-bench-")
        self._path = f"{self._folder.name}/nri.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self._path)
        self._listener.listen(1)
        self.adaptation = Adaptation(version, "v2.1.9", timeout_ms=10_000)
        self._flags = (f"--host-root={host_root}", *flags)
        self.connection: socket.socket
        self.whole_ns = 0

    def __enter__(self) -> Self:
        folder = self._folder.name
        arguments = ["run", f"--nri-socket={self._path}", f"--cri-socket={folder}/none.sock", "--http=off"]
        arguments += [
            f"--state-dir={folder}/state",
            f"--admin-socket={folder}/admin/admin.sock",
            *self._flags,
        ]
        self.log = Path(f"{folder}/stderr").open("wb")
        self.plugin = subprocess.Popen(
            [*self._command, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=self.log,
            env=self._environment,
        )
        self._listener.settimeout(20)
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(20)
        self._handshake()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self._listener.close()
        self.plugin.terminate()
        self.plugin.wait(5)
        self.log.close()
        self._folder.cleanup()

    def _handshake(self) -> None:
        registered = False
        while not registered:
            events = self.adaptation.receive_data(self.connection.recv(1 << 16))
            registered = any(isinstance(e, PluginRegistered) for e in events)
        self.connection.sendall(self.adaptation.data_to_send())
        self._exchange(self.adaptation.configure()[1])
        for _, data in self.adaptation.synchronize((), ()):
            self._exchange(data)

    def _exchange(self, data: bytes) -> Any:
        self.connection.sendall(data)
        events: list[Any] = []
        while not events:
            events = self.adaptation.receive_data(self.connection.recv(1 << 20))
        return events[0]

    def hook(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> tuple[int, Any]:
        """Send one hook; return nanoseconds and the answer."""
        took, answer = self.exchange(self.request(kind, pod, container, resources))
        return took, self.adaptation.receive_data(answer)[0]

    def request(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> bytes:
        """Return the bytes of one hook, to be sent next."""
        return self.adaptation.hook(kind, pod, container, resources)[1]

    def exchange(self, data: bytes) -> tuple[int, bytes]:
        """Send bytes; return nanoseconds and the bytes of the answer. `whole_ns` is then the time with the sending.

        A process that is woken on the same CPU may do a part of its work before the sending returns.
        """
        connection = self.connection
        before = time.perf_counter_ns()
        connection.sendall(data)
        began = time.perf_counter_ns()
        answer = connection.recv(1 << 20)
        while not _whole(answer):
            answer += connection.recv(1 << 20)
        ended = time.perf_counter_ns()
        self.whole_ns = ended - before
        return ended - began, answer


def _whole(data: bytes) -> bool:
    """Return whether one whole ttrpc message has come: its mux frames are the first 4096 bytes and the rest."""
    if len(data) < HEADERS:
        return False
    length = int.from_bytes(data[8:12], "big") + frames.HEADER.size
    mux_headers = 8 if length <= multiplexer.FIRST_FRAME else 16
    return len(data) >= length + mux_headers


def container_of(pod: nri_pb2.PodSandbox, container_id: str, shares: int) -> nri_pb2.Container:
    """Return a container as a runtime describes it: 30 environment variables, 12 mounts."""
    container = nri_pb2.Container(
        id=container_id,
        pod_sandbox_id=pod.id,
        name="app",
        env=[f"SERVICE_{i}_PORT_8080_TCP_ADDR=10.96.{i}.{i}" for i in range(30)],
        args=["/usr/bin/server", "--config=/etc/server/config.yaml"],
        labels={"io.kubernetes.container.name": "app", "io.kubernetes.pod.name": pod.name},
    )
    for i in range(12):
        container.mounts.add(
            destination=f"/var/run/secrets/mount-{i}",
            source=f"/var/lib/kubelet/pods/{pod.uid}/volumes/kubernetes.io~projected/mount-{i}",
            type="bind",
            options=["rbind", "rprivate", "ro"],
        )
    container.linux.cgroups_path = f"{pod.linux.cgroup_parent}/{container_id}"
    container.linux.resources.cpu.shares.value = shares
    container.linux.resources.cpu.period.value = 100_000
    container.linux.oom_score_adj.value = 900
    return container


def pod_of(number: int, qos: str, **annotations: str) -> nri_pb2.PodSandbox:
    """Return a pod; `qos` is the folder of its Kubernetes class."""
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    pod = nri_pb2.PodSandbox(
        id=f"{number:064x}",
        name=f"pod-{number}",
        uid=uid,
        namespace="default",
        annotations={f"coloc.nri.io/{k.replace('_', '-')}": v for k, v in annotations.items()},
        labels={"app": f"app-{number}", "io.kubernetes.pod.uid": uid},
    )
    pod.linux.cgroup_parent = f"/kubepods/{qos}/pod{uid}"
    return pod


def pinned() -> None:
    """Give the measuring process a higher priority, if it may: niceness only."""
    try:
        os.nice(-5)
    except OSError:
        return
