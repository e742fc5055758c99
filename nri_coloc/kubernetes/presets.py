"""Name the node resources of the lent amounts, and write and read their quantities.

A preset is a pair of names that some schedulers and webhooks know already. Amounts are milli-CPU and bytes, as
integers, in every preset: Kubernetes has no fractions of an extended resource. Only fully qualified names outside of
kubernetes.io are extended resources (pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName). Koordinator's names
are not, with four effects that decision 38 lists.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nri_coloc.core.workload import PREFIX
from nri_coloc.kubernetes import objects
from nri_coloc.pods import quantity

OPEN: Final = PREFIX + "open"
"""The gate resource: a pod that requests 1 of it is scheduled to open nodes only."""

REPORTED_AT: Final = PREFIX + "reported-at"
"""The annotation of a node with the time of its last report, RFC 3339."""

LENDING: Final = PREFIX + "lending"
"""The label of a node with its lending state, for people. No selector may depend on it."""

NODE_STATE: Final = PREFIX + "state"
"""The label of a node with its state by the clock, for people. No selector may depend on it."""

_LONGEST_PREFIX: Final = 253 - len("requests.")
"""Characters: a DNS subdomain, and ResourceQuota puts "requests." before it."""

_NAME: Final = re.compile(
    r"(?P<prefix>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*)"
    r"/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class Amounts(NamedTuple):
    """An amount of each resource.

    cpu_milli: milli-CPU, ≥ 0.
    memory_bytes: bytes, ≥ 0.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0


class Preset(NamedTuple):
    """The node resources of the lent amounts.

    cpu: name of the CPU resource; its unit is the milli-CPU.
    memory: name of the memory resource; its unit is the byte.
    """

    cpu: str
    memory: str


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "koordinator": Preset("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"),
        "katalyst": Preset(
            "resource.katalyst.kubewharf.io/reclaimed_millicpu",
            "resource.katalyst.kubewharf.io/reclaimed_memory",
        ),
        "caster": Preset("caster.io/colocation-cpu", "caster.io/colocation-memory"),
    }
)
DEFAULT: Final = PRESETS["koordinator"]


class Shown(NamedTuple):
    """Our resources as a node object shows them.

    amounts: None if one of the amounts is missing in capacity or in allocatable, or cannot be read.
    gate: amount of the gate resource, 0 if it cannot be read; None if it is in neither capacity nor allocatable.
    is_readable: False if one of these quantities cannot be read, such as 12E, which is beyond int64.
    """

    amounts: Amounts | None = None
    gate: int | None = None
    is_readable: bool = True


def custom(cpu: str, memory: str) -> Preset:
    """Return the preset of an operator's own names; raise ValueError if a node cannot report one of them."""
    for key, name in (("cpu", cpu), ("memory", memory)):
        problem = _problem(name)
        if problem:
            raise ValueError(f"{key}: {name[:80]!r} {problem}")
    if cpu == memory:
        raise ValueError(f"cpu and memory are both {cpu!r}; give them different names")
    return Preset(cpu, memory)


def _problem(name: str) -> str:
    """Return why a name cannot be used and how to mend it; empty if it can be used."""
    found = _NAME.fullmatch(name)
    if found is None or len(found["prefix"]) > _LONGEST_PREFIX:
        return "is not a qualified name; use one such as example.com/lent-cpu"
    if "kubernetes.io/" in name:
        return "belongs to Kubernetes; use a domain of your own, or the preset koordinator"
    if found["prefix"].startswith("requests."):
        return "begins with requests., which ResourceQuota uses; choose another domain"
    return "is the gate resource; choose another name" if name == OPEN else ""


# --- quantities -----------------------------------------------------------------------------------------


def written(preset: Preset, amounts: Amounts, gate: int | None) -> dict[str, str | None]:
    """Return the quantities of a merge patch by resource name. A closed gate is None, which removes the key."""
    return {
        preset.cpu: _whole(amounts.cpu_milli),
        preset.memory: _whole(amounts.memory_bytes),
        OPEN: None if gate is None else _whole(gate),
    }


def _whole(amount: int) -> str:
    return str(min(max(0, amount), quantity.LARGEST))


def shown(node: Mapping[str, Any], preset: Preset) -> Shown:
    """Return our resources in a node object; the smaller value where capacity and allocatable differ.

    Raise ValueError if the object is not a node. Do not raise it for an unreadable quantity: any writer
    of the node's status could stop the readers with one.
    """
    both = objects.child(node, "status", "capacity"), objects.child(node, "status", "allocatable")
    read = {name: [_read(each[name]) for each in both if name in each] for name in (*preset, OPEN)}
    known = {name: [each for each in amounts if each is not None] for name, amounts in read.items()}
    complete = all(len(known[name]) == len(both) for name in preset)
    return Shown(
        amounts=Amounts(*(min(known[name]) for name in preset)) if complete else None,
        gate=min((each or 0 for each in read[OPEN]), default=None),
        is_readable=known == read,
    )


def reported_at(metadata: Mapping[str, Any]) -> str:
    """Return the text of the last report. A text that is too long is a report too."""
    found = objects.child(metadata, "annotations").get(REPORTED_AT)
    return found if isinstance(found, str) else ""


def _read(found: object) -> int | None:
    try:
        return objects.amount(found)
    except ValueError:
        return None
