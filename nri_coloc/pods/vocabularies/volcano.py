"""Volcano: one annotation with a QoS level, and a switch for the kernel's CPU burst.

Its levels order CPU time (LC and HLS before LS before the rest); none of them means owned CPUs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nri_coloc.core.workload import QoSClass
from nri_coloc.pods import keys
from nri_coloc.pods.vocabularies.claims import Claims, Handling, one_of

_DOMAIN: Final = "volcano.sh/"
_LEVEL: Final = _DOMAIN + "qos-level"
_BURST: Final = _DOMAIN + "enable-quota-burst"
_BURST_TIME: Final = _DOMAIN + "quota-burst-time"

ANNOTATIONS: Final = (_LEVEL, _BURST, _BURST_TIME)
LABELS: Final = ()

KEYS: Final[Mapping[str, Handling]] = MappingProxyType(
    {
        _LEVEL: Handling.MAPPED,
        _BURST: Handling.MAPPED,
        _BURST_TIME: Handling.IGNORED,
        _DOMAIN + "topology-decision": Handling.IGNORED,
    }
)

_QOS: Final = one_of(
    keys.QOS_CLASS,
    {
        "LC": QoSClass.SHARED,
        "HLS": QoSClass.SHARED,
        "LS": QoSClass.SHARED,
        "BE": QoSClass.RECLAIMED,
        # numbers that its agent writes for these words, and that older pods carry
        "2": QoSClass.SHARED,
        "1": QoSClass.SHARED,
        "0": None,
        "-1": QoSClass.RECLAIMED,
    },
)
_WHOLE_QUOTA: Final = one_of("cpu-burst", {"true": 100, "false": None})


def read(annotations: Mapping[str, str], _labels: Mapping[str, str], _container: str, claims: Claims) -> None:
    """Add the claims of Volcano's annotations. They are the pod's and hold for every container."""
    if _LEVEL in annotations:
        claims.take(_QOS, _LEVEL, annotations[_LEVEL])
    # a time in µs limits the burst, and we have no key for it: no burst is better than too much
    if _BURST in annotations and annotations.get(_BURST_TIME, "0") == "0":
        claims.take(_WHOLE_QUOTA, _BURST, annotations[_BURST])
