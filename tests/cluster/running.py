"""Pods on the rig's node: run them, wait for them, and read the kernel's own files of them."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.cluster.cluster import Answer, Cluster
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.leftovers import CGROUP_ROOT
from tests.rig import RigError, cgroups, kubepods
from tests.rig.waiting import PATIENCE_SECONDS

MORE_SECONDS: Final = 5.0
"""For each pod that a test starts: ten times what one takes on an idle machine."""


class Pods:
    """Create pods, remove them at the end of a test, and read the kernel's files of their containers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created: list[tuple[str, str]] = []
        self._static: list[tuple[str, str]] = []

    def run(self, *manifests: Mapping[str, Any]) -> None:
        """Create pods and wait until each is Running and ready; each adds to the bound of the wait."""
        self.create(*manifests)
        wanted = {(each["metadata"]["name"], each["metadata"]["namespace"]) for each in manifests}
        bound_s = PATIENCE_SECONDS + MORE_SECONDS * len(manifests)
        self._cluster.wait(lambda: wanted <= self._running(), f"pods {sorted(wanted)}", bound_s)

    def _running(self) -> set[tuple[str, str]]:
        found = json.loads(self._cluster.kubectl("get", "pods", "--all-namespaces", "--output=json"))
        running = (each["metadata"] for each in found["items"] if is_ready(each.get("status", {})))
        return {(each["name"], each["namespace"]) for each in running}

    def create(self, *manifests: Mapping[str, Any]) -> None:
        """Create pods without waiting."""
        for manifest in manifests:
            self._created.append((manifest["metadata"]["name"], manifest["metadata"]["namespace"]))
        self._cluster.apply(*manifests)

    def run_static(self, manifest: Mapping[str, Any]) -> str:
        """Run a static pod and return its name, which ends with the node's."""
        name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
        self._static.append((name, namespace))
        self._manifest(name).write_text(json.dumps(manifest))
        full = f"{name}-{NODE_NAME}"
        self._cluster.wait(lambda: self.is_running(full, namespace), f"static pod {namespace}/{full}")
        return full

    def _manifest(self, name: str) -> Path:
        return self._cluster.node.manifests / f"{name}.json"

    def _remove_static(self) -> None:
        for name, namespace in self._static:
            self._manifest(name).unlink()
            gone = partial(self._is_gone, f"{name}-{NODE_NAME}", namespace)
            self._cluster.wait(gone, f"the end of static pod {namespace}/{name}")
        self._static.clear()

    def remove_all(self) -> None:
        """Delete every pod that was created here; kubectl returns when the kubelet has ended them."""
        self._remove_static()
        for namespace in {namespace for _, namespace in self._created}:
            names = [name for name, own in self._created if own == namespace]
            self._cluster.kubectl("delete", "pod", *names, f"--namespace={namespace}", "--ignore-not-found")
        self._created.clear()

    def status(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """Return a pod's status; empty if there is no such pod."""
        found: dict[str, Any] = self._cluster.get("pod", name, namespace).get("status", {})
        return found

    def _is_gone(self, name: str, namespace: str) -> bool:
        return not self._cluster.get("pod", name, namespace)

    def is_running(self, name: str, namespace: str = "default") -> bool:
        """Return whether all containers of a pod run and are ready."""
        return is_ready(self.status(name, namespace))

    def container_id(self, name: str, container: str = "app", namespace: str = "default") -> str:
        """Return the runtime's id of a container; RigError if it has none."""
        status = self.status(name, namespace)
        kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for each in (each for kind in kinds for each in status.get(kind, [])):
            if each["name"] == container and each.get("containerID"):
                return str(each["containerID"]).partition("://")[2]
        raise RigError(f"container {container} of {namespace}/{name} has no id: {status}")

    def cgroup(self, name: str, container: str = "app", namespace: str = "default") -> str:
        """Return the cgroup of a container, as a path from the root of a hierarchy."""
        wanted = self.container_id(name, container, namespace)
        for root in kubepods.folders(CGROUP_ROOT):
            for path in root.rglob(wanted):
                return f"{CGROUP_ROOT}/{path.relative_to(root)}"
        raise RigError(f"no cgroup of container {container} of {namespace}/{name} below {CGROUP_ROOT}")

    def pod_cgroup(self, name: str, namespace: str = "default") -> str:
        """Return the cgroup of a pod."""
        uid = self._cluster.get("pod", name, namespace)["metadata"]["uid"]
        for root in kubepods.folders(CGROUP_ROOT):
            for path in root.rglob(f"*pod{uid}"):
                return f"{CGROUP_ROOT}/{path.relative_to(root)}"
        raise RigError(f"no cgroup of pod {namespace}/{name} below {CGROUP_ROOT}")

    def cpus(self, name: str, container: str = "app", namespace: str = "default") -> frozenset[int] | None:
        """Return the CPUs that a container's tasks may use now."""
        return cgroups.effective_cpus(self.cgroup(name, container, namespace))

    def memory_limit(self, name: str, container: str = "app", namespace: str = "default") -> int | None:
        """Return a container's memory limit in bytes; None when it has none."""
        return cgroups.memory_limit(self.cgroup(name, container, namespace))

    def placed(self, *names: str) -> dict[str, tuple[str, frozenset[int] | None]]:
        """Return the id and the CPUs of each pod's container: neither changes unless it is restarted or moved.

        Wait while one cannot be read: a kubelet that has just started may know no id yet.
        """
        return self.settle(
            lambda: {name: (self.container_id(name), self.cpus(name)) for name in names}, "ids and CPUs"
        )

    def settle(self, look: Callable[[], Answer], what: str) -> Answer:
        """Wait for a state that the daemon reaches without a call, such as a move of another container."""
        return self._cluster.wait(look, what)


def is_ready(status: Mapping[str, Any]) -> bool:
    """Return whether a pod of this status runs and all its containers are ready."""
    states = status.get("containerStatuses", [])
    return status.get("phase") == "Running" and bool(states) and all(each["ready"] for each in states)
