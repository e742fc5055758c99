"""A real kubelet in the machine, without an API server: it runs static pods below systemd's slices.

Its program is that of the tests' first Kubernetes; the host compiles it before the machine is switched on.
"""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from nri_coloc.host import kubelet as files
from tests.cluster import binaries
from tests.rig import RigError, kubepods
from tests.vm.node import ROOT, Node, until

FOLDER: Final = Path("/scratch/kubelet")
CPU_MANAGER: Final = Path(files.STATE_FILE)
PORT: Final = 10248
STARTS: Final = 600
"""Seconds, on a busy host; reading the program alone takes ten here."""

_SETTINGS: Final[Mapping[str, Any]] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cgroupDriver": "systemd",
    "featureGates": {"MemoryQoS": True},
    "failSwapOn": False,
    "protectKernelDefaults": False,
    "localStorageCapacityIsolation": False,
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "100Mi"},
    "resolvConf": "/dev/null",
    "fileCheckFrequency": "2s",
    "syncFrequency": "10s",
    "runtimeRequestTimeout": "15m",
    "enableServer": False,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "staticPodPath": f"{FOLDER}/manifests",
    "podLogsDir": f"{FOLDER}/logs",
    "healthzPort": PORT,
}


def build() -> binaries.Build:
    """Return the build that has the kubelet."""
    return binaries.kubernetes(binaries.PAIRS[0].kubernetes)


def builds() -> tuple[binaries.Build, ...]:
    """Return all that is compiled for a machine with a kubelet: beside it, the runc of the tests with a cluster."""
    return build(), binaries.runc()


class Kubelet:
    """Run a kubelet beside the node's containerd and plugin; `settings` are names of KubeletConfiguration."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("manifests", "logs"):
            (FOLDER / name).mkdir(parents=True, exist_ok=True)
        # with the state of another policy the kubelet would refuse to start
        CPU_MANAGER.unlink(missing_ok=True)

    def start(self, **settings: Any) -> None:
        """Start the kubelet and wait until it is healthy."""
        endpoint = {"containerRuntimeEndpoint": f"unix://{self._node.containerd.cri_socket}"}
        (FOLDER / "config.json").write_text(json.dumps({**_SETTINGS, **endpoint, **settings}))
        command = [
            str(build().folder / "kube"),
            "kubelet",
            f"--config={FOLDER}/config.json",
            f"--root-dir={files.FOLDER}",
            f"--cert-dir={FOLDER}/pki",
            "--hostname-override=node",
        ]
        with Path("/vm/kubelet.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._is_healthy, "a healthy kubelet", STARTS)

    def close(self) -> None:
        """End the kubelet and remove the files of its static pods; the pods run on."""
        self.stop()
        for path in (FOLDER / "manifests").iterdir():
            path.unlink()

    def stop(self) -> None:
        """End the kubelet; its pods run on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, *pods: Mapping[str, Any]) -> None:
        """Run static pods and wait until the containers of each run."""
        self.create(*pods)
        names = [
            (str(pod["metadata"]["name"]), str(each["name"]))
            for pod in pods
            for each in pod["spec"]["containers"]
        ]
        until(lambda: all(self.path(*name) for name in names), f"the containers {names}", STARTS)

    def create(self, *pods: Mapping[str, Any]) -> None:
        """Give static pods to the kubelet without waiting."""
        for pod in pods:
            # the kubelet must find a whole file
            scratch = FOLDER / "manifest"
            scratch.write_text(json.dumps(pod))
            scratch.rename(self._manifest(str(pod["metadata"]["name"])))

    @contextmanager
    def creating(self, pod: Mapping[str, Any]) -> Iterator[None]:
        """Give the kubelet a static pod; take it away at the end, and wait until the runtime lists its sandbox no more.

        A kubelet that ended before would leave calls for the pod's containers in the middle.
        """
        self.create(pod)
        name = str(pod["metadata"]["name"])
        try:
            yield
        finally:
            self._manifest(name).unlink()
            until(lambda: not self._node.cri.list_pods(name=f"{name}-node"), f"the end of pod {name}", STARTS)

    def _manifest(self, pod: str) -> Path:
        return FOLDER / "manifests" / f"{pod}.json"

    def pinned_cpus(self) -> frozenset[int]:
        """Return the CPUs that the static CPU manager gave containers, by its state file."""
        return kubepods.pinned_cpus(CPU_MANAGER)

    def row(self, pod: str, container: str = "app") -> dict[str, Any]:
        """Return the row of /v1/state of a static pod's container; empty if it has none."""
        rows = self._node.plugin.state()["containers"]
        wanted = (f"{pod}-node", container)
        return next((row for row in rows if (row["pod"], row["container"]) == wanted), {})

    def path(self, pod: str, container: str = "app") -> str:
        """Return the cgroup of a static pod's running container; empty if it does not run."""
        found = self.row(pod, container).get("id", "")
        paths = [str(path) for path in ROOT.rglob(f"cri-containerd-{found}.scope")] if found else []
        return paths[0].removeprefix(str(ROOT)) if paths else ""

    def _is_healthy(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RigError(f"the kubelet ended:\n{Path('/vm/kubelet.log').read_text()[-4000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=20) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
