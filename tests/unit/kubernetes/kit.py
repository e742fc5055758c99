"""Pod and node objects as the API server sends them, with the fields that the room reads."""

import threading
from typing import Any

from nri_coloc.kubernetes import presets

KOORDINATOR = presets.PRESETS["koordinator"]
BATCH_CPU, BATCH_MEMORY = KOORDINATOR
GIB = 1 << 30


def container(name: str = "main", *, sidecar: bool = False, **requests: str) -> dict[str, Any]:
    """Return a container; `batch_cpu` stands for the name of the resource."""
    names = {"batch_cpu": BATCH_CPU, "batch_memory": BATCH_MEMORY, "gate": presets.OPEN}
    asked = {names.get(key, key): value for key, value in requests.items()}
    found: dict[str, Any] = {"name": name, "resources": {"requests": asked}}
    return found | {"restartPolicy": "Always"} if sidecar else found


def pod(*containers: dict[str, Any], phase: str = "Running", node: str = "n1", **spec: Any) -> dict[str, Any]:
    """Return an admitted pod; `spec`: further fields of its spec."""
    return {
        "metadata": {"uid": "u1", "namespace": "jobs", "name": "render-1"},
        "spec": {"containers": list(containers), "nodeName": node, **spec},
        "status": {"phase": phase, "startTime": "2026-11-26T10:00:00Z"},
    }


def running_threads(names: set[str]) -> set[str]:
    """Return the names of those threads that run."""
    return {each.name for each in threading.enumerate()} & names
