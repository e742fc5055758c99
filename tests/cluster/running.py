"""Pods on the rig's node: run, awaited, looked at in the kernel's own files."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.node import CGROUP_ROOT
from tests.rig import RigError, cgroups, kubepods


class Pods:
    """Creates pods and removes them at the end of a test; asks the kernel about their containers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created: list[tuple[str, str]] = []

    def run(self, *manifests: Mapping[str, Any]) -> None:
        """Create pods and wait until each is Running and ready."""
        self.create(*manifests)
        for manifest in manifests:
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            self._cluster.wait(partial(self.is_running, name, namespace), f"pod {namespace}/{name}")

    def create(self, *manifests: Mapping[str, Any]) -> None:
        """Create pods without waiting."""
        for manifest in manifests:
            self._created.append((manifest["metadata"]["name"], manifest["metadata"]["namespace"]))
        self._cluster.apply(*manifests)

    def remove_all(self) -> None:
        """Delete every pod that was created here; kubectl returns when the kubelet has ended them."""
        for namespace in {namespace for _, namespace in self._created}:
            names = [name for name, own in self._created if own == namespace]
            self._cluster.kubectl("delete", "pod", *names, f"--namespace={namespace}", "--ignore-not-found")
        self._created.clear()

    def status(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """Return a pod's status; empty if there is no such pod."""
        found: dict[str, Any] = self._cluster.get("pod", name, namespace).get("status", {})
        return found

    def is_running(self, name: str, namespace: str = "default") -> bool:
        """Whether all containers of a pod run and are ready."""
        status = self.status(name, namespace)
        states = status.get("containerStatuses", [])
        return status.get("phase") == "Running" and bool(states) and all(each["ready"] for each in states)

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

    def settle(self, predicate: Callable[[], object], what: str) -> None:
        """Wait for a state that comes by itself, as a move of another container does."""
        self._cluster.wait(predicate, what)
