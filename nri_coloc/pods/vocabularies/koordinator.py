"""Koordinator: labels with a class and a priority, and annotations that hold JSON.

Its scheduler and its webhook write two of the annotations, for a node agent that cannot see the pod's spec: the chosen
CPUs, and the lent amounts. A pod's author can write these annotations too. So chosen CPUs count for dedicated
containers only, and only as many as requested. Lent amounts count for reclaimed containers without values of their own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.core.workload import Numa, Placement, QoSClass
from nri_coloc.pods import gate, keys
from nri_coloc.pods.vocabularies import lent
from nri_coloc.pods.vocabularies.claims import ORDERED_CPUS, Claims, Handling, Meaning, as_ours, child, one_of

_DOMAIN: Final = "koordinator.sh/"
_QOS_LABEL: Final = _DOMAIN + "qosClass"
_PRIORITY_LABEL: Final = _DOMAIN + "priority"
_BURST: Final = _DOMAIN + "cpuBurst"
_LENT: Final = "node." + _DOMAIN + "extended-resource-spec"
_STATUS: Final = "scheduling." + _DOMAIN + "resource-status"
_SPEC: Final = "scheduling." + _DOMAIN + "resource-spec"

ANNOTATIONS: Final = (_BURST, _LENT, _STATUS, _SPEC)
LABELS: Final = (_QOS_LABEL, _PRIORITY_LABEL)

_BATCH_CPU, _BATCH_MEMORY = lent.BATCH

KEYS: Final[Mapping[str, Handling]] = MappingProxyType(
    {
        _QOS_LABEL: Handling.MAPPED,
        _PRIORITY_LABEL: Handling.MAPPED,
        f"{_LENT}[requests][{_BATCH_CPU}]": Handling.HONOURED,
        f"{_LENT}[limits][{_BATCH_CPU}]": Handling.HONOURED,
        f"{_LENT}[limits][{_BATCH_MEMORY}]": Handling.HONOURED,
        f"{_LENT}[requests][{_BATCH_MEMORY}]": Handling.IGNORED,
        f"{_LENT}[mid-cpu, mid-memory]": Handling.IGNORED,
        f"{_STATUS}[cpuset]": Handling.HONOURED,
        f"{_STATUS}[numaNodeResources]": Handling.MAPPED,
        f"{_STATUS}[cpuSharedPools]": Handling.IGNORED,
        f"{_SPEC}[requiredCPUBindPolicy]": Handling.MAPPED,
        f"{_SPEC}[preferredCPUBindPolicy]": Handling.MAPPED,
        f"{_SPEC}[preferredCPUExclusivePolicy]": Handling.IGNORED,
        f"{_BURST}[policy]": Handling.MAPPED,
        f"{_BURST}[cpuBurstPercent]": Handling.MAPPED,
        f"{_BURST}[cfsQuotaBurstPercent]": Handling.IGNORED,
        f"{_BURST}[cfsQuotaBurstPeriodSeconds]": Handling.IGNORED,
        f"{_DOMAIN}cpuQOS": Handling.IGNORED,
        f"{_DOMAIN}memoryQOS": Handling.IGNORED,
        f"{_DOMAIN}blkioQOS": Handling.IGNORED,
        f"{_DOMAIN}core-sched-group-id": Handling.IGNORED,
        f"{_DOMAIN}eviction-policy": Handling.IGNORED,
        f"{_DOMAIN}oom-score-adj": Handling.IGNORED,
        f"{_DOMAIN}priority-class": Handling.IGNORED,
        f"node.{_DOMAIN}resctrl": Handling.IGNORED,
        f"scheduling.{_DOMAIN}numa-topology-spec": Handling.IGNORED,
        f"scheduling.{_DOMAIN}device-allocated": Handling.IGNORED,
    }
)

_LENT_EXAMPLE: Final = '{"containers": {"<container>": {"requests": {"kubernetes.io/batch-cpu": "2000"}}}}'
_STATUS_EXAMPLE: Final = '{"cpuset": "0-3"}'
_SPEC_EXAMPLE: Final = '{"requiredCPUBindPolicy": "FullPCPUs"}'
_BURST_EXAMPLE: Final = '{"policy": "cpuBurstOnly", "cpuBurstPercent": 100}'


def read(annotations: Mapping[str, str], labels: Mapping[str, str], container: str, claims: Claims) -> None:
    """Add the claims of Koordinator's labels and annotations about one container and its pod."""
    if _QOS_LABEL in labels:
        claims.take(_QOS, _QOS_LABEL, labels[_QOS_LABEL], "label")
    if _PRIORITY_LABEL in labels:
        claims.take(_PRIORITY, _PRIORITY_LABEL, labels[_PRIORITY_LABEL], "label")
    if _LENT in annotations:
        _read_lent(annotations[_LENT], container, claims)
    if _STATUS in annotations:
        _read_status(claims.json_of(_STATUS, annotations[_STATUS], _STATUS_EXAMPLE), claims)
    if _SPEC in annotations:
        _read_spec(claims.json_of(_SPEC, annotations[_SPEC], _SPEC_EXAMPLE), claims)
    if _BURST in annotations:
        _read_burst(claims.json_of(_BURST, annotations[_BURST], _BURST_EXAMPLE), claims)


def _read_lent(text: str, container: str, claims: Claims) -> None:
    found = claims.json_of(_LENT, text, _LENT_EXAMPLE)
    try:
        own = child(child(found, "containers"), container)
        limits, requests = child(own, "limits"), child(own, "requests")
    except ValueError:
        claims.refuse(_LENT, text, _LENT_EXAMPLE)
        return
    lent.take(claims, f"{_LENT}[{container}]", requests, limits, lent.BATCH)


def _read_status(found: Mapping[str, Any], claims: Claims) -> None:
    if "cpuset" in found:
        claims.take(_CPUS, f"{_STATUS}[cpuset]", found["cpuset"])
    nodes = found.get("numaNodeResources")
    if not nodes:
        return
    name = f"{_STATUS}[numaNodeResources]"
    listed = _listed(nodes)
    if claims.take(_NODES, name, nodes if listed is None else listed):
        claims.take(_BOUND, name, listed)


def _listed(nodes: object) -> str | None:
    """Return the ids of chosen NUMA nodes as a list in our grammar; None for a value that Koordinator never writes."""
    if not isinstance(nodes, list) or not all(isinstance(entry, dict) for entry in nodes):
        return None
    ids = [entry.get("node", 0) for entry in nodes]  # Go omits a field with value 0
    return ",".join(map(str, ids)) if all(type(found) is int for found in ids) else None


def _read_spec(found: Mapping[str, Any], claims: Claims) -> None:
    for kind, meaning in (("requiredCPUBindPolicy", _REQUIRED), ("preferredCPUBindPolicy", _PREFERRED)):
        if found.get(kind):  # Go writes an empty text for an unset field
            claims.take(meaning, f"{_SPEC}[{kind}]", found[kind])


def _read_burst(found: Mapping[str, Any], claims: Claims) -> None:
    """Add the claims of the burst object. A percentage counts if the policy allows CPU burst or is not set."""
    policy = found.get("policy") or ""
    if policy in ("", "cpuBurstOnly", "auto") and "cpuBurstPercent" in found:
        claims.take(_PERCENT, f"{_BURST}[cpuBurstPercent]", found["cpuBurstPercent"])
    if policy:
        claims.take(_POLICY, f"{_BURST}[policy]", policy)


# --- values ---------------------------------------------------------------------------------------------


def _chosen(text: str) -> cpuset.CPUMask | None:
    return cpuset.parse(text) or None


def _percent(text: str) -> int:
    # mainline kernels refuse a burst above the quota; Koordinator's default is ten times the quota
    number: int = keys.read("priority", text)
    if number < 0:
        raise ValueError
    return min(number, 100)


# --- rights -----------------------------------------------------------------------------------------------


def _if_dedicated(value: Any, subject: gate.Subject) -> Any:
    return value if subject.qos is QoSClass.DEDICATED else None


def _if_pooled(value: Any, subject: gate.Subject) -> Any:
    return value if subject.qos in (QoSClass.SHARED, QoSClass.SYSTEM) else None


_QOS: Final = one_of(
    keys.QOS_CLASS,
    {
        "LSE": QoSClass.DEDICATED,
        "LSR": QoSClass.DEDICATED,
        "LS": QoSClass.SHARED,
        "BE": QoSClass.RECLAIMED,
        "SYSTEM": QoSClass.SYSTEM,
    },
)
_PRIORITY: Final = as_ours("priority")
_CPUS: Final = Meaning(ORDERED_CPUS, _chosen, "CPUs such as 0-3,8", _if_dedicated)
_NODES: Final = Meaning("numa-ids", keys.node_ids, "a list of objects with a node each", _if_dedicated)
_BOUND: Final = Meaning("numa", lambda _: Numa.SINGLE, "nodes as stated beside it", _if_dedicated)
_REQUIRED: Final = one_of(
    "cpu-placement",
    {
        "FullPCPUs": Placement.FULL_CORES,
        "SpreadByPCPUs": Placement.SPREAD,
        "Default": None,
        "ConstrainedBurst": None,
    },
)
_PREFERRED: Final = one_of(
    "cpu-placement",
    {
        "FullPCPUs": Placement.PACKED,
        "SpreadByPCPUs": Placement.SPREAD,
        "Default": None,
        "ConstrainedBurst": None,
    },
)
_POLICY: Final = one_of(
    "cpu-burst", {"none": 0, "cpuBurstOnly": 100, "cfsQuotaBurstOnly": 0, "auto": 100}, _if_pooled
)
_PERCENT: Final = Meaning("cpu-burst", _percent, "an integer from 0 to 10000", _if_pooled, numbers=True)
