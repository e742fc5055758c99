"""Katalyst: a QoS level, and three annotations that hold JSON objects of texts ("enhancements").

Katalyst merges the three objects before it reads them. So an inner key counts in any of them, and the last one
wins. If a value is no text, only its key is lost. Only "true" switches a key on. Unknown inner keys are ignored,
as Katalyst ignores them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nri_coloc.core.workload import Numa, Placement, QoSClass
from nri_coloc.pods import gate, keys
from nri_coloc.pods.gate import BANDS
from nri_coloc.pods.vocabularies.claims import (
    EVEN_PARTS,
    ONE_SOCKET,
    Claims,
    Handling,
    Meaning,
    as_ours,
    one_of,
)

_DOMAIN: Final = "katalyst.kubewharf.io/"
_LEVEL: Final = _DOMAIN + "qos_level"
_CPU: Final = _DOMAIN + "cpu_enhancement"
_MEMORY: Final = _DOMAIN + "memory_enhancement"
_NETWORK: Final = _DOMAIN + "network_enhancement"
_EXAMPLE: Final = '{"<key>": "<text>"}'

ANNOTATIONS: Final = (_LEVEL, _CPU, _MEMORY, _NETWORK)
LABELS: Final = ()

KEYS: Final[Mapping[str, Handling]] = MappingProxyType(
    {
        _LEVEL: Handling.MAPPED,
        f"{_MEMORY}[numa_binding]": Handling.MAPPED,
        f"{_MEMORY}[numa_exclusive]": Handling.MAPPED,
        f"{_MEMORY}[oom_priority]": Handling.MAPPED,
        f"{_MEMORY}[rss_overuse_threshold]": Handling.IGNORED,
        f"{_CPU}[cpuset_pool]": Handling.MAPPED,
        f"{_CPU}[{_DOMAIN}numa_number]": Handling.MAPPED,
        f"{_CPU}[{_DOMAIN}numa_ids]": Handling.MAPPED,
        f"{_CPU}[full_pcpus_pairing]": Handling.MAPPED,
        f"{_CPU}[cpu_burst_policy]": Handling.MAPPED,
        f"{_CPU}[cpu_burst_percent]": Handling.MAPPED,
        f"{_CPU}[cpu_burst_threshold]": Handling.IGNORED,
        f"{_CPU}[distribute_evenly_across_numa]": Handling.MAPPED,
        f"{_CPU}[align_by_socket]": Handling.MAPPED,
        f"{_CPU}[numa_share]": Handling.IGNORED,
        f"{_CPU}[numa_affinity]": Handling.IGNORED,
        f"{_CPU}[suppression_tolerance_rate]": Handling.IGNORED,
        f"{_NETWORK}[namespace_type]": Handling.IGNORED,
        f"{_NETWORK}[topology_affinity_restricted]": Handling.IGNORED,
        f"{_DOMAIN}net_class_id": Handling.IGNORED,
        f"{_DOMAIN}numa_bind_result": Handling.IGNORED,
        f"{_DOMAIN}nic_selection_result": Handling.IGNORED,
        f"{_DOMAIN}gpu_selection_result": Handling.IGNORED,
        f"{_DOMAIN}resource_package": Handling.IGNORED,
        f"{_DOMAIN}pod_soft_evict_notify": Handling.IGNORED,
        f"{_DOMAIN}pod_evict_score": Handling.IGNORED,
        f"{_DOMAIN}cpu_weight_demand_cores": Handling.IGNORED,
        f"{_DOMAIN}cpu_weight_burst_ratio": Handling.IGNORED,
    }
)

_NEVER_KILLED: Final = 300
_NOT_COMPARED: Final = -300


def _oom_score(priority: int, subject: gate.Subject) -> int | None:
    """Return the score (higher is killed first) of a priority (higher survives), as far as the gate admits it.

    For reclaimed pods, -100 to -1 orders them within the class's band. For other pods the kubelet's scores are
    better, because they follow from the requests. 300 is the lowest score of the band, -300 has no effect.
    """
    score = _in_band(priority, subject)
    return None if score is None else keys.judge("oom-score-adj", score, subject)


def _in_band(priority: int, subject: gate.Subject) -> int | None:
    low, high = BANDS[subject.qos]
    if priority == _NEVER_KILLED:
        return low
    if priority == _NOT_COMPARED or subject.qos is not QoSClass.RECLAIMED:
        return None
    clamped = min(max(priority, -100), -1)
    return high - (high - low) * (clamped + 100) // 100


def _not_reclaimed(percent: int, subject: gate.Subject) -> int | None:
    return None if subject.qos is QoSClass.RECLAIMED else percent


def _at_most_whole(text: str) -> int:
    # Katalyst reads more than 100 as 100; the range of `priority` limits the number of digits
    return min(_natural(text), 100)


def _natural(text: str) -> int:
    number: int = keys.read("priority", text)
    if number < 0:
        raise ValueError
    return number


_QOS: Final = one_of(
    keys.QOS_CLASS,
    {
        "dedicated_cores": QoSClass.DEDICATED,
        "shared_cores": QoSClass.SHARED,
        "reclaimed_cores": QoSClass.RECLAIMED,
        "system_cores": QoSClass.SYSTEM,
    },
)
_BINDING: Final = one_of("numa", {"true": Numa.SINGLE, "false": Numa.NONE})
_EXCLUSIVE: Final = one_of("numa", {"true": Numa.EXCLUSIVE, "false": None})
_BURST_POLICY: Final = one_of("cpu-burst", {"default": None, "closed": 0, "static": 100}, _not_reclaimed)
_BURST_PERCENT: Final = Meaning("cpu-burst", _at_most_whole, "an integer from 0 to 100", _not_reclaimed)


class _Pair(NamedTuple):
    """An inner key (finer) that counts only if another key (ruling) has the value `on`, and then comes first."""

    finer: str
    finer_meaning: Meaning
    ruling: str
    ruling_meaning: Meaning
    on: str


_PAIRS: Final = (
    _Pair("numa_exclusive", _EXCLUSIVE, "numa_binding", _BINDING, "true"),
    _Pair("cpu_burst_percent", _BURST_PERCENT, "cpu_burst_policy", _BURST_POLICY, "static"),
)

_SIMPLE: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "oom_priority": Meaning(
            "oom-score-adj",
            lambda text: keys.read("oom-score-adj", text),
            "a text with an integer from -1000 to 1000; reclaimed pods are ordered from -100 to -1",
            _oom_score,
        ),
        "cpuset_pool": as_ours("cpu-pool"),
        _DOMAIN + "numa_number": as_ours("numa-count"),
        _DOMAIN + "numa_ids": as_ours("numa-ids"),
        "align_by_socket": one_of(ONE_SOCKET, {"true": True, "false": None}),
        "distribute_evenly_across_numa": one_of(EVEN_PARTS, {"true": True, "false": None}),
        "full_pcpus_pairing": one_of("cpu-placement", {"true": Placement.FULL_CORES, "false": None}),
    }
)


_INNER: Final = frozenset({*_SIMPLE, *(key for pair in _PAIRS for key in (pair.finer, pair.ruling))})


def read(annotations: Mapping[str, str], _labels: Mapping[str, str], _container: str, claims: Claims) -> None:
    """Add the claims of Katalyst's annotations. They are the pod's and hold for every container."""
    if _LEVEL in annotations:
        claims.take(_QOS, _LEVEL, annotations[_LEVEL])
    inner: dict[str, tuple[str, Any]] = {}
    for outer in (_CPU, _MEMORY, _NETWORK):
        if outer in annotations:
            found = claims.json_of(outer, annotations[outer], _EXAMPLE)
            inner.update({key: (f"{outer}[{key}]", found[key]) for key in _INNER & found.keys()})
    for pair in _PAIRS:
        _paired(pair, inner, claims)
    for key, meaning in _SIMPLE.items():
        if key in inner:
            claims.take(meaning, *inner[key])


def _paired(pair: _Pair, inner: Mapping[str, tuple[str, Any]], claims: Claims) -> None:
    ruling = inner.get(pair.ruling)
    if ruling is None:
        return
    if ruling[1] == pair.on and pair.finer in inner:
        claims.take(pair.finer_meaning, *inner[pair.finer])
    claims.take(pair.ruling_meaning, *ruling)
