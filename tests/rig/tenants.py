"""The metadata on a pod that costs most to parse, within the limits of Kubernetes for a tenant."""

import itertools
import json
import string
from collections.abc import Iterator
from typing import Final

KUBERNETES_BYTES: Final = 256 * 1024
"""Of all names and values of a pod's annotations (apimachinery, TotalAnnotationSizeLimitB)."""

READ_BYTES: Final = 64 * 1024
"""Of all names and values that the plugin reads."""

FOREIGN: Final = (
    "katalyst.kubewharf.io/cpu_enhancement",
    "node.koordinator.sh/extended-resource-spec",
    "scheduling.koordinator.sh/resource-status",
    "noderesource.dev/resources",
)
"""Annotations of other vocabularies that hold JSON."""

CONTAINERS: Final = "coloc.nri.io/containers"
EMOJI: Final = "\N{GRINNING FACE}"


def dense(size: int) -> str:
    """Return JSON of at most this many characters that costs as much to parse as any."""
    names = (f'"{number:x}":{{}}' for number in itertools.count())
    return "{" + ",".join(_within(names, size - 2)) + "}"


def _within(parts: Iterator[str], size: int) -> Iterator[str]:
    for part in parts:
        size -= len(part) + 1
        if size < 0:
            return
        yield part


def foreign() -> dict[str, str]:
    """Return as many annotations as Kubernetes takes, as JSON in other vocabularies; four times the bound of a pod."""
    return {name: dense(KUBERNETES_BYTES // len(FOREIGN) - len(name)) for name in FOREIGN}


def readable(number: int) -> dict[str, str]:
    """Return as much JSON as is read of one pod, in three annotations that no other pod shares, and as much
    again beside it as Kubernetes takes."""
    names = (CONTAINERS, *FOREIGN[1:3])
    known = {name: dense(READ_BYTES // len(names) - len(name) - 16) + " " * (number % 16) for name in names}
    unread = KUBERNETES_BYTES - sum(len(name) + len(text) for name, text in known.items())
    return known | {"example.com/unread": "x" * (unread - len("example.com/unread"))}


def with_emoji(number: int) -> dict[str, str]:
    """Return 250 KiB with one emoji in each half: a part of it is read, the rest is not."""
    read = json.dumps({"note": f"{number} {EMOJI}" + "x" * 60_000}, ensure_ascii=False)
    return {FOREIGN[1]: read, "example.com/unread": EMOJI + "x" * 190_000}


def tiny() -> dict[str, str]:
    """Return as many annotations as Kubernetes takes: 87,000 of three characters."""
    signs = string.ascii_letters + string.digits
    names = map("".join, itertools.product(signs, repeat=3))
    return dict.fromkeys(itertools.islice(names, KUBERNETES_BYTES // 3), "")


def bad(number: int) -> dict[str, str]:
    """Return wrong keys and values for three containers: as many as are reported, each longer than the report shows."""
    long = EMOJI * 256
    wrong = {f"{number} {each} {long}": long for each in range(4)}
    text = json.dumps({f"c{each}": wrong for each in range(3)}, ensure_ascii=False)
    known = ("io-weight", "memory-high", "numa", "cpu-placement", "oom-score-adj", "priority", "cpu-burst")
    return {CONTAINERS: text} | {f"coloc.nri.io/{key}": f"{number} {long}" for key in known}


def many_classes(number: int) -> dict[str, str]:
    """Return a class, denied to the tenant, for each of 2,000 containers that need not exist."""
    named = {str(container): {"qos-class": "system"} for container in range(2000)}
    return {
        CONTAINERS: json.dumps(named) + " " * number,
        "coloc.nri.io/qos-class": "system",
        "katalyst.kubewharf.io/qos_level": "system_cores",
    }
