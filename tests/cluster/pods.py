"""Manifests of pods as a user would write them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.rig import image

KEY: Final = "coloc.nri.io/"
SLEEP: Final = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait")
"""Ends at once when it is asked to: PID 1 ignores SIGTERM unless it handles it, and the kubelet waits two seconds."""


def container(
    name: str = "app",
    *,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    command: Sequence[str] = SLEEP,
    **fields: Any,
) -> dict[str, Any]:
    """Return a container that sleeps, with requests and limits."""
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    return {"name": name, "image": image.BUSYBOX, "command": list(command), "resources": resources, **fields}


ONE_CPU: Final = {"cpu": "1"}
"""The request of a container that owns one CPU where its pod is dedicated."""


def pod(
    name: str,
    *containers: Mapping[str, Any],
    qos_class: str = "",
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod; `annotations` are keys of ours without their prefix."""
    ours = {"qos-class": qos_class, **(annotations or {})} if qos_class else dict(annotations or {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {f"{KEY}{key}": value for key, value in ours.items()},
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [dict(each) for each in containers or (container(),)],
            **spec,
        },
    }
