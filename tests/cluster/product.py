"""The daemon as the DaemonSet of deploy/daemonset.yaml, with the manifest's mounts, probes and environment.

One change, named here: a capability that this machine's root lacks itself cannot be granted, so it is left out.
"""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import product_image
from tests.cluster.cluster import Cluster
from tests.cluster.running import Pods
from tests.rig import RigError, cgroups

MANIFEST: Final = product_image.PROJECT / "deploy/daemonset.yaml"
NAMESPACE: Final = "kube-system"
NAME: Final = "nri-coloc"
PORT: Final = 9744
MOST_OF_A_DOCUMENT: Final = 12_000
"""Characters of one document in a failure's report."""

_SELECTOR: Final = f"--selector=app.kubernetes.io/name={NAME}"
_DOCUMENTS: Final = ("/readyz", "/v1/capacity", "/v1/state", "/v1/audit?limit=40")
_CAPABILITY_BITS: Final = {"SYS_RESOURCE": 24, "SYS_NICE": 23, "DAC_OVERRIDE": 1}


class Product:
    """Install the DaemonSet on a cluster's node, and read the daemon's HTTP endpoints."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._config = ""
        self._beside: list[dict[str, Any]] = []

    def install(self, config: str = "") -> None:
        """Import the image on the node, apply the manifest, wait until the daemon is ready."""
        self._cluster.node.import_image(product_image.archive())
        self.apply(config)

    def apply(self, config: str = "") -> None:
        """Apply the manifest with another configuration and wait until the daemon is ready."""
        self._config = config or self._config
        self._cluster.apply(*manifests(self._config))
        self.wait_ready()

    def join(self, objects: list[dict[str, Any]]) -> None:
        """Apply other manifests, which hold the DaemonSet too; `stand_alone` removes the other objects."""
        own = {_key(each) for each in manifests()}
        self._beside = [each for each in objects if _key(each) not in own]
        self._cluster.apply(*objects)

    def stand_alone(self) -> None:
        """Return to the objects of deploy/daemonset.yaml and wait until the daemon is ready."""
        if self._beside:
            self._delete(self._beside)
            self._beside = []
            self._cluster.apply(*manifests(self._config))
            self._cluster.wait(self.is_rolled_out, "the daemon's new pod")
        self.wait_ready()

    def is_rolled_out(self) -> bool:
        """Return whether the DaemonSet's pod has the newest template."""
        found = self._cluster.get("daemonset", NAME, NAMESPACE)
        status = found["status"]
        is_observed = status.get("observedGeneration") == found["metadata"]["generation"]
        return is_observed and bool(status.get("updatedNumberScheduled"))

    def reconfigure(self, config: str) -> None:
        """Start the daemon with another configuration and wait until it knows all pods; it may not be ready.

        A changed ConfigMap would reach the running daemon a minute later.
        """
        self._config = config
        self._cluster.apply(*manifests(config))
        self._cluster.kubectl("delete", "pod", f"--namespace={NAMESPACE}", _SELECTOR)
        self._cluster.wait(lambda: self.check("synchronised").get("ok"), "a synchronised daemon")

    def update(self) -> None:
        """Replace the pod as a rolling update of the DaemonSet does, and wait until the new one is ready.

        `kubectl rollout status` waits `minReadySeconds` longer.
        """
        self._cluster.kubectl("rollout", "restart", f"daemonset/{NAME}", f"--namespace={NAMESPACE}")
        self._cluster.wait(self.is_rolled_out, "the daemon's new pod")
        self.wait_ready()

    def remove(self) -> None:
        """Delete all that the manifest made and wait until its pod is gone."""
        self._delete(manifests(self._config))
        self._cluster.wait(lambda: not self.pods(), "the end of the daemon's pod")

    def wait_ready(self) -> None:
        """Wait until the one pod is Ready by its own probe, `/readyz` agrees, and its status names a live container.

        After a kill the status is that of the old container for some time, and the kubelet runs no command in that.
        """
        self._cluster.wait(self._is_ready, "a ready daemon")

    def kill(self) -> None:
        """Kill the daemon's process; the kubelet starts its container again."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pids(self) -> frozenset[int]:
        """Return the processes of the daemon's container; the kubelet may be down."""
        return cgroups.pids(Pods(self._cluster).cgroup(self.pods()[0]["metadata"]["name"], NAME, NAMESPACE))

    def pods(self) -> list[dict[str, Any]]:
        """Return the DaemonSet's pods."""
        found = json.loads(
            self._cluster.kubectl(
                "get",
                "pods",
                f"--namespace={NAMESPACE}",
                _SELECTOR,
                "--output=json",
            )
        )
        items: list[dict[str, Any]] = found["items"]
        return items

    def log(self, lines: int = -1) -> str:
        """Return the daemon's audit lines and log, or their last lines."""
        return self._cluster.kubectl(
            "logs", f"--namespace={NAMESPACE}", f"daemonset/{NAME}", f"--tail={lines}"
        )

    def json(self, path: str) -> dict[str, Any]:
        """Return the document that the daemon serves at a path; RigError while it does not answer."""
        status, text = self._cluster.namespace.get(PORT, path)
        if not status:
            raise RigError(f"the daemon did not answer {path}")
        found: dict[str, Any] = json.loads(text)
        return found

    def answers(self) -> str:
        """Return the documents that the daemon serves, as texts for a failure's report."""
        try:
            texts = [(path, self._cluster.namespace.get(PORT, path)[1]) for path in _DOCUMENTS]
        except RigError as error:
            return str(error)
        return "\n".join(f"--- {path}\n{text[-MOST_OF_A_DOCUMENT:]}" for path, text in texts)

    def check(self, name: str) -> dict[str, Any]:
        """Return one of the checks of /readyz; empty if there is none of this name."""
        found: dict[str, Any] = self.json("/readyz").get("checks", {}).get(name, {})
        return found

    def container(self, pod: str, container: str = "app", namespace: str = "default") -> dict[str, Any]:
        """Return one row of /v1/state; empty if it is not there."""
        wanted = (namespace, pod, container)
        rows = self.json("/v1/state").get("containers", [])
        return next((r for r in rows if (r["namespace"], r["pod"], r["container"]) == wanted), {})

    def owner(self, pod: str, container: str = "app", namespace: str = "default") -> dict[str, Any]:
        """Wait until a container owns CPUs and runs on them, and return its row of /v1/state.

        It may get them seconds after its start: the runtime may report late that another container ended.
        """

        def owned() -> dict[str, Any]:
            row = self.container(pod, container, namespace)
            return row if row["exclusive"] and row["actual_cpus"] == row["cpus"] else {}

        return self._cluster.wait(owned, f"CPUs of {namespace}/{pod}")

    def audit(self, pod: str = "", event: str = "") -> list[dict[str, Any]]:
        """Return the records that the daemon keeps, oldest first."""
        records = self.json(f"/v1/audit?limit=4096{f'&pod={pod}' if pod else ''}").get("records", [])
        return [record for record in records if not event or record["event"] == event]

    def _delete(self, objects: list[dict[str, Any]]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": objects}
        self._cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=json.dumps(items))

    def _is_ready(self) -> bool:
        pods = self.pods()
        conditions = pods[0].get("status", {}).get("conditions", []) if len(pods) == 1 else []
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return is_ready and bool(self.json("/readyz").get("ready")) and bool(self.pids())


def missing_capabilities() -> tuple[str, ...]:
    """Return the capabilities of the manifest that this machine cannot grant."""
    line = next(
        text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("CapBnd:")
    )
    bound = int(line.split()[1], 16)
    return tuple(name for name, bit in _CAPABILITY_BITS.items() if not bound >> bit & 1)


def manifests(config: str = "") -> list[dict[str, Any]]:
    """Return the objects of deploy/daemonset.yaml, less what cannot be granted here."""
    return granted(list(yaml.safe_load_all(MANIFEST.read_text())), config)


def granted(objects: list[dict[str, Any]], config: str = "") -> list[dict[str, Any]]:
    """Return objects without the capabilities that cannot be granted here, and with a configuration."""
    for found in objects:
        if _key(found) == ("DaemonSet", NAME):
            for container in found["spec"]["template"]["spec"]["containers"]:
                added = container["securityContext"]["capabilities"]["add"]
                unknown = [name for name in added if name not in _CAPABILITY_BITS]
                if unknown:
                    raise RigError(f"a capability that the rig does not know: {unknown}")
                added[:] = [name for name in added if name not in missing_capabilities()]
        if _key(found) == ("ConfigMap", NAME):
            found["data"]["config.yaml"] = config or found["data"]["config.yaml"]
    return objects


def _key(found: dict[str, Any]) -> tuple[str, str]:
    return found["kind"], found["metadata"]["name"]
