"""A pod with another vocabulary's annotations, and its wish."""

import json
from typing import Any

from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Container, Pod, Resources, Wish
from nri_coloc.pods.annotations import resolve

GIB = 1 << 30
OWN_CLASS = "coloc.nri.io/qos-class"


def wish(
    annotations: dict[str, Any] | None = None,
    *,
    qos: str = "",
    labels: dict[str, str] | None = None,
    pod: dict[str, Any] | None = None,
    **container: Any,
) -> Wish:
    """Return the wish of a container called app; values that are no texts are written as JSON, `qos` is our class."""
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (annotations or {}).items()}
    if qos:
        texts[OWN_CLASS] = qos
    own = {"namespace": "shop", "cgroup_parent": "/kubepods/burstable/pod1", "cpu_request": 4000}
    facts = {**own, **(pod or {})}
    named = container.pop("name", "app")
    of = Pod("p", annotations=texts, labels=labels or {}, **facts)
    asked = Container("c", "p", named, oom_score_adj=500, resources=Resources(**container))
    return resolve(of, asked, Tuning(), 64 * GIB)


def told(found: Wish) -> list[tuple[str, str, str]]:
    """Return the findings as (event, key, value)."""
    return [(f.kind.value, f.key, f.value) for f in found.findings]
