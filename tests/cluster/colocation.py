"""Daemon, companion and controller together, as `kubectl apply -k deploy` brings them up, all from one image.

Three changes, named here. The companion waits seconds where the product waits half a minute
(`tests/rig/hasty_companion.py`). The daemon raises quotas, and may lend up to three times the machine's CPUs, so that
a busy machine still has an offer (`tests/rig/lavish_daemon.py`; other programs have twice, which the configuration
allows). The controller may evict. `tests/cluster/product.py` names a fourth one. A module with `DAEMON_PROGRAM` names
another program that runs in place of the image's daemon.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from nri_coloc.kubernetes.presets import DEFAULT, OPEN
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.pods import KEY, container, pod
from tests.cluster.product import NAMESPACE, Product, granted
from tests.cluster.product_image import PROJECT
from tests.cluster.running import Pods
from tests.rig import cgroups

DAEMON: Final = "nri-coloc"
COMPANION: Final = "nri-coloc-cluster"
CONTROLLER: Final = "nri-coloc-controller"
HASTY: Final = PROJECT / "tests/rig/hasty_companion.py"
LAVISH: Final = PROJECT / "tests/rig/lavish_daemon.py"
RECLAIM: Final = "reclaim: {cpuWatermark: 200, features: [scheduler-hints, scheduler-idle, quota-burst]}"
NO_EVICTIONS: Final = "evict: false"
SOCKET: Final = "run/nri-coloc-cluster/cluster.sock"


class Colocation:
    """The three workloads on the node of a cluster."""

    def __init__(self, cluster: Cluster, product: Product, daemon: Path) -> None:
        self._cluster = cluster
        self.product = product
        self._daemon = daemon

    def install(self) -> None:
        """Apply all manifests of deploy/ and wait until the node is open."""
        self.product.join(self._objects())
        self._cluster.wait(self.product.is_rolled_out, "the daemon's new pod")
        self.wait_ready()

    def configure(self, sections: str = "") -> None:
        """Add sections to the configuration, without those of an earlier call; wait until the daemon has read it.

        The kubelet writes a changed ConfigMap to a pod's volume when it next looks at the pod: at once if that changes.
        It may know the ConfigMap later than the pod's change, so the pod is changed again and again.
        """
        before = self._reloads()
        self._cluster.apply(*(each for each in self._objects(sections) if each["kind"] == "ConfigMap"))
        numbers = count()

        def is_read() -> bool:
            change = (f"{KEY}configured={next(numbers)}", "--overwrite", f"--namespace={NAMESPACE}")
            self._cluster.kubectl("annotate", "pods", f"--selector=app.kubernetes.io/name={DAEMON}", *change)
            return self._reloads() > before

        self._cluster.wait(is_read, "a daemon with the new configuration")

    @contextmanager
    def configured(self, sections: str) -> Iterator[None]:
        """Add sections to the configuration for the time of a block."""
        self.configure(sections)
        try:
            yield
        finally:
            self.configure()

    def _reloads(self) -> int:
        """Return the number of the last record about a configuration; 0 for none."""
        return max((record["seq"] for record in self.product.audit(event="config.reload")), default=0)

    def event(self, name: str, reason: str) -> dict[str, Any]:
        """Return the Event of a reason on a pod; empty if there is none."""
        fields = f"--field-selector=involvedObject.name={name},reason={reason}"
        items = json.loads(self._cluster.kubectl("get", "events", fields, "--output=json"))["items"]
        return items[0] if items else {}

    def wait_ready(self) -> None:
        """Wait until each pod is ready and the node is open."""
        self._cluster.wait(self._is_ready, "daemon, companion and two controllers")
        self.product.wait_ready()
        self._cluster.wait(lambda: OPEN in self.allocatable(), "an open node")

    def lend(self) -> None:
        """Switch lending on if it is off, as a test leaves it that fails between the two."""
        switch = self._cluster.wait(lambda: self.product.json("/v1/state")["lending"]["switch"], "a switch")
        if switch != "on":
            self.product.wait_ready()
            self.admin("lending", "on")

    def run_companion(self, program: str) -> None:
        """Let the companion's DaemonSet run another program, as a rolling update does."""
        patch = {
            "op": "replace",
            "path": "/spec/template/spec/containers/0/command",
            "value": companion(program),
        }
        words = ("patch", "daemonset", COMPANION, f"--namespace={NAMESPACE}", "--type=json")
        self._cluster.kubectl(*words, f"--patch={json.dumps([patch])}")

    def log(self, name: str) -> str:
        """Return the log of a pod of ours, or of a workload such as `daemonset/NAME`."""
        return self._cluster.kubectl("logs", name, f"--namespace={NAMESPACE}")

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Return the pods of one of the three."""
        labels = f"--selector=app.kubernetes.io/name={name}"
        words = ("get", "pods", f"--namespace={NAMESPACE}", labels, "--output=json")
        items: list[dict[str, Any]] = json.loads(self._cluster.kubectl(*words))["items"]
        return items

    def restart(self, name: str) -> None:
        """Delete the pods of one of the three; others take their place."""
        labels = f"--selector=app.kubernetes.io/name={name}"
        self._cluster.kubectl("delete", "pods", f"--namespace={NAMESPACE}", labels, "--wait=false")

    def process(self, name: str, container: str) -> Path:
        """Return the folder in /proc of the first process of a container."""
        pod = self.pods(name)[0]["metadata"]["name"]
        return Path("/proc", str(min(cgroups.pids(Pods(self._cluster).cgroup(pod, container, NAMESPACE)))))

    def admin(self, *order: str) -> str:
        """Give the daemon an order, in its own container; return what is printed."""
        pod = self.product.pods()[0]["metadata"]["name"]
        words = ("exec", pod, f"--namespace={NAMESPACE}", "--", "nri-coloc", "admin", *order)
        return self._cluster.kubectl(*words)

    def allocatable(self) -> dict[str, str]:
        """Return the allocatable resources of the node."""
        found: dict[str, str] = self._cluster.get("node", NODE_NAME)["status"]["allocatable"]
        return found

    def _objects(self, sections: str = "") -> list[dict[str, Any]]:
        text = self._cluster.kubectl("kustomize", str(PROJECT / "deploy"))
        objects: list[dict[str, Any]] = list(yaml.safe_load_all(text))
        for found in objects:
            if found["kind"] == "ConfigMap":
                text = found["data"]["config.yaml"]
                assert NO_EVICTIONS in text
                may_evict = text.replace(NO_EVICTIONS, "evict: true")
                found["data"]["config.yaml"] = merged(may_evict, RECLAIM, sections)
            if found["kind"] == "DaemonSet" and found["metadata"]["name"] == COMPANION:
                found["spec"]["template"]["spec"]["containers"][0]["command"] = companion(HASTY.read_text())
            if found["kind"] == "DaemonSet" and found["metadata"]["name"] == DAEMON:
                daemon = found["spec"]["template"]["spec"]["containers"][0]
                daemon["command"] = ["python", "-c", self._daemon.read_text()]
        return granted(objects)

    def _is_ready(self) -> bool:
        """Return whether each pod is ready, and none ends."""
        words = ("get", "pods", f"--namespace={NAMESPACE}", "--output=json")
        pods = json.loads(self._cluster.kubectl(*words))["items"]
        ours = [(name, each) for each in pods if (name := _workload(each))]
        names = sorted(name for name, _ in ours)
        return names == [DAEMON, COMPANION, CONTROLLER, CONTROLLER] and all(
            _is_ready(each) for _, each in ours
        )


def merged(*texts: str) -> str:
    """Return a configuration with the sections of all texts; a later text wins, key by key of a section."""
    found: dict[str, Any] = {}
    for name, section in (pair for text in texts for pair in (yaml.safe_load(text) or {}).items()):
        is_map = isinstance(section, dict)
        found[name] = {**found.get(name, {}), **section} if is_map else section
    return yaml.safe_dump(found)


def companion(program: str) -> list[str]:
    """Return the command of the companion's container that runs a program in place of the image's."""
    return ["python", "-c", program, "--node=$(NODE_NAME)"]


def lent(cpu: str = "10", memory: str = "33554432") -> dict[str, str]:
    """Return the requests of a reclaimed container: lent amounts, and one place on an open node.

    So little CPU that a dozen of them fit into the offer beside other work on the machine, or the node would close.
    """
    return {DEFAULT.cpu: cpu, DEFAULT.memory: memory, OPEN: "1"}


def reclaimed(name: str) -> dict[str, Any]:
    """Return a reclaimed pod that sleeps on lent amounts."""
    return pod(name, container(requests=lent(), limits=lent()), qos_class="reclaimed")


@contextmanager
def budget(cluster: Cluster, name: str) -> Iterator[None]:
    """Allow no eviction of the pod with the label `app` of this name, for the time of a block."""
    found = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
    cluster.apply(found)
    try:
        yield
    finally:
        cluster.delete("poddisruptionbudget", name)


def _workload(pod: dict[str, Any]) -> str:
    """Return which of the three a pod belongs to; empty for another pod."""
    name = str(pod["metadata"].get("labels", {}).get("app.kubernetes.io/name", ""))
    return name if name in (DAEMON, COMPANION, CONTROLLER) else ""


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]
