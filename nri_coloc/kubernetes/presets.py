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

from nri_coloc.core.metadata import PREFIX
from nri_coloc.kubernetes import objects
from nri_coloc.pods import quantity

OPEN: Final = PREFIX + "open"
"""The gate resource: a pod that requests 1 of it is scheduled to open nodes only."""

REPORTED_AT: Final = PREFIX + "reported-at"
"""The annotation of a node with the time of its last report, RFC 3339."""

LENDING: Final = PREFIX + "lending"
"""The label of a node with its lending state, for people. No selector may depend on it."""

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

    amounts: None if one of the amounts is missing in capacity or in allocatable.
    gate: amount of the gate resource; None if it is in neither capacity nor allocatable.
    """

    amounts: Amounts | None = None
    gate: int | None = None


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

    Raise ValueError if the object is not a node.
    """
    capacity = objects.child(node, "status", "capacity")
    allocatable = objects.child(node, "status", "allocatable")
    cpu, memory = (_least(capacity, allocatable, name) for name in preset)
    present = [amount for each in (capacity, allocatable) if (amount := _read(each, OPEN)) is not None]
    amounts = None if cpu is None or memory is None else Amounts(cpu, memory)
    return Shown(amounts, min(present, default=None))


def _least(capacity: Mapping[str, Any], allocatable: Mapping[str, Any], name: str) -> int | None:
    one, other = _read(capacity, name), _read(allocatable, name)
    return None if one is None or other is None else min(one, other)


def _read(quantities: Mapping[str, Any], name: str) -> int | None:
    return objects.amount(quantities[name]) if name in quantities else None
