"""containerd and the kubelet of the one node, in the node's namespaces and under a cgroup root of their own."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from tests.cluster.control_plane import NODE_NAME
from tests.cluster.leftovers import CGROUP_ROOT
from tests.cluster.namespace import BRIDGE, NODE_ADDRESS, Namespace, ends
from tests.rig import RigError, image, kubepods, logs, packages
from tests.rig.waiting import comes

SOCKET: Final = "/run/containerd/containerd.sock"
HEALTH_PORT: Final = 10248
REQUEST_TIMEOUT: Final = "20s"
"""containerd drops a plugin that does not answer for so long; by default after 2 s, for which this machine may stop."""

SYSCTLS: Final = (
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
)
"""The kubelet sets them for the whole machine."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Hold paths: `kube` is the binary of every Kubernetes part; `containerd` and `cni` are folders."""

    kube: Path
    containerd: Path
    runc: Path
    cni: Path


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """Hold the settings that a test changes, by the names of KubeletConfiguration."""

    settings: Mapping[str, Any] = field(default_factory=dict)


class Node:
    """Run containerd and kubelet; each can be killed and started again."""

    def __init__(self, namespace: Namespace, folder: Path, programs: Programs) -> None:
        self._namespace = namespace
        self._folder = folder
        self._programs = programs
        self._options = KubeletOptions()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.before: dict[str, str] = {}

    def prepare(self, options: KubeletOptions) -> None:
        """Write configuration and make the cgroup root."""
        self._options = options
        kubepods.create(CGROUP_ROOT)
        self._write_files()

    def start_containerd(self) -> None:
        """Start containerd and wait until it answers; import the small images the first time."""
        environment = {"PATH": f"{self._programs.containerd}:{os.environ.get('PATH', os.defpath)}"}
        command = [self._programs.containerd / "containerd", "--config", self._folder / "containerd.toml"]
        self._spawn("containerd", [str(part) for part in command], environment)
        if not comes(lambda: self._has_ended("containerd") or self._answers()) or self._has_ended(
            "containerd"
        ):
            raise RigError(f"containerd did not come up:\n{self.log_tail('containerd')}")
        if not (self._folder / "images.tar").exists():
            busybox = packages.unpacked("busybox").program("busybox")
            self.import_image(image.write_archive(busybox, self._folder / "images.tar"))

    def start_kubelet(self, kubeconfig: Path | None) -> None:
        """Start the kubelet and wait until it is healthy; without credentials it runs static pods alone."""
        command = [
            str(self._programs.kube),
            "kubelet",
            f"--config={self._folder}/kubelet.json",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={NODE_ADDRESS}",
        ]
        self._spawn("kubelet", [*command, *([f"--kubeconfig={kubeconfig}"] if kubeconfig else [])])
        if not comes(lambda: self._has_ended("kubelet") or self._is_healthy()) or self._has_ended("kubelet"):
            raise RigError(f"the kubelet did not come up:\n{self.log_tail('kubelet')}")

    def kill(self, name: str) -> None:
        """Kill `containerd` or `kubelet` with SIGKILL; containers live on."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def terminate(self, name: str) -> None:
        """End one of them with SIGTERM; containers live on."""
        ends(self._processes.pop(name, None))

    def stop(self) -> None:
        """End both and restore the machine's settings."""
        for name in ("kubelet", "containerd"):
            self.terminate(name)
        for path, text in self.before.items():
            Path(path).write_text(text)

    def note_settings(self) -> dict[str, str]:
        """Return the machine's settings that the kubelet changes, by path; `stop` restores them."""
        self.before = {path: Path(path).read_text() for path in SYSCTLS}
        return self.before

    def import_image(self, archive: Path) -> None:
        """Import an image from a docker-archive on the node."""
        self._ctr("images", "import", str(archive))

    def reconfigure(self, options: KubeletOptions) -> None:
        """Write another configuration for the kubelet's next start.

        The state file of the CPU manager is removed: with one of another policy the kubelet refuses to start.
        """
        self._options = options
        self._write_kubelet()
        self._pins.unlink(missing_ok=True)

    def forget_devices(self) -> None:
        """Remove the files of the kubelet's device manager, as on a machine that was made again."""
        shutil.rmtree(self._folder / "at/var/lib/kubelet/device-plugins")

    def pinned_cpus(self) -> frozenset[int]:
        """Return the CPUs that the kubelet's static CPU manager gave containers, by its state file."""
        return kubepods.pinned_cpus(self._pins)

    @property
    def _pins(self) -> Path:
        return self._folder / "at/var/lib/kubelet/cpu_manager_state"

    @property
    def nri_socket(self) -> Path:
        """Return the socket of NRI, as this machine sees it."""
        return self._folder / "at/var/run/nri/nri.sock"

    @property
    def manifests(self) -> Path:
        """Return the folder of static pods."""
        return self._folder / "manifests"

    def log_tail(self, name: str, lines: int = 40) -> str:
        """Return the end of one program's log."""
        return logs.tail(self._folder / f"{name}.log", lines)

    def _spawn(self, name: str, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = self._namespace.spawn(command, log, environment)

    def _has_ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def _is_healthy(self) -> bool:
        return self._namespace.get(HEALTH_PORT, "/healthz")[0] == HTTPStatus.OK

    def _answers(self) -> bool:
        try:
            self._ctr("version")
        except RigError:
            return False
        return True

    def _ctr(self, *arguments: str) -> str:
        ctr = str(self._programs.containerd / "ctr")
        return self._namespace.run(
            [ctr, "--address", SOCKET, "--namespace", "k8s.io", *arguments], seconds=600
        )

    def _write_files(self) -> None:
        for name in ("cni", "cniconf", "nriplugins", "nriconf", "manifests"):
            (self._folder / name).mkdir()
        for plugin in ("bridge", "host-local", "loopback", "portmap"):
            shutil.copy(self._programs.cni / plugin, self._folder / "cni")
        (self._folder / "cniconf/10-rig.conflist").write_text(json.dumps(_NETWORK))
        values = {
            "D": str(self._folder),
            "RUNC": str(self._programs.runc),
            "PAUSE": image.PAUSE,
            "REQUEST_TIMEOUT": REQUEST_TIMEOUT,
        }
        text = _CONTAINERD
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        (self._folder / "containerd.toml").write_text(text)
        self._write_kubelet()

    def _write_kubelet(self) -> None:
        settings = {**_KUBELET, "staticPodPath": str(self.manifests), **self._options.settings}
        (self._folder / "kubelet.json").write_text(json.dumps(settings))


_NETWORK: Final[Mapping[str, Any]] = {
    "cniVersion": "1.0.0",
    "name": "rig",
    "plugins": [
        {
            "type": "bridge",
            "bridge": BRIDGE,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.77.0.0/24", "rangeStart": "10.77.0.10"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

_KUBELET: Final[Mapping[str, Any]] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": f"unix://{SOCKET}",
    "cgroupRoot": CGROUP_ROOT,
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "protectKernelDefaults": False,
    # root here may not lower an oom_score_adj
    "oomScoreAdj": 0,
    # the kubelet finds no image file system in these namespaces
    "localStorageCapacityIsolation": False,
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "100Mi"},
    "resolvConf": "/dev/null",
    "syncFrequency": "10s",
    "fileCheckFrequency": "1s",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "registerWithTaints": [],
}

_CONTAINERD: Final = """\
version = 3
root = "@D@/containerd-root"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "@PAUSE@"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["@D@/cni"]
    conf_dir = "@D@/cniconf"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "@RUNC@"
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = "/var/run/nri/nri.sock"
  plugin_request_timeout = "@REQUEST_TIMEOUT@"
  plugin_path = "@D@/nriplugins"
  plugin_config_path = "@D@/nriconf"
"""
