"""Return the workload of a pod, so that a restarted or rescheduled pod keeps its workload's history.

The runtime does not know a pod's owner, but controllers give names and labels by fixed rules. This module derives the
owner from these names. If no rule matches, the pod's name is its workload. A wrong guess mixes two histories of one
namespace: that costs accuracy, never safety. So a pod's author can only harm forecasts of the pods of one namespace.
"""

import re
from typing import Final, NamedTuple

from nri_coloc.core.workload import Pod

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""The alphabet of generated suffixes (k8s.io/apimachinery, util/rand): no vowels, no digits that look like vowels."""

_COPY: Final = re.compile(rf"(?P<owner>.+)-{_RANDOM}{{5}}")
"""A pod of a ReplicaSet, DaemonSet or Job."""

_REVISION: Final = re.compile(rf"(?P<owner>.+)-{_RANDOM}{{6,10}}")
"""A Deployment's ReplicaSet: the hash is a 32-bit number, its digits mapped to the alphabet."""

_ORDINAL: Final = re.compile(r"(?P<owner>.+)-[0-9]{1,5}")
"""A pod of a StatefulSet."""

_SCHEDULED: Final = re.compile(r"(?P<owner>.+)-[0-9]{8,10}")
"""A CronJob's Job: the minutes (older: seconds) since 1970."""

_HASH_LABEL: Final = "pod-template-hash"
_ORDINAL_LABEL: Final = "statefulset.kubernetes.io/pod-name"
_JOB_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
LABELS: Final = frozenset({_HASH_LABEL, _ORDINAL_LABEL, *_JOB_LABELS})
"""All labels that are read here."""


class OnlinePod(NamedTuple):
    """The facts about an online pod that lending needs.

    workload: "namespace/workload", the key of its history.
    cpu_milli: its CPU request in thousandths of a CPU, 0 if unknown.
    memory_bytes: its memory request in bytes, 0 if unknown.
    memory_limit: bytes, with the runtime class's overhead; None for no limit.
    own_cpus: it runs on owned CPUs, which are not lent, so only its memory counts.
    lent_to: ids of its reclaimed containers.
    on_reserved: it may run on CPUs that are neither lent nor owned, as a node agent may.
    """

    workload: str
    cpu_milli: int = 0
    memory_bytes: int = 0
    memory_limit: int | None = None
    own_cpus: bool = False
    lent_to: tuple[str, ...] = ()
    on_reserved: bool = False


def workload_of(pod: Pod) -> str:
    """Return "namespace/workload", equal for all replicas of a pod and for their successors."""
    return f"{pod.namespace}/{_owner(pod)}"


def _owner(pod: Pod) -> str:
    """Return the owner's name: from labels if there are any (exact), else from the pod's name (a guess)."""
    name, labels = pod.name, pod.labels
    template = labels.get(_HASH_LABEL)
    if template:
        return name.partition(f"-{template}-")[0]
    if labels.get(_ORDINAL_LABEL) == name:
        return _without(_ORDINAL, name)
    for label in _JOB_LABELS:
        if labels.get(label):
            return _without(_SCHEDULED, labels[label])
    return _by_name(name)


def _by_name(name: str) -> str:
    owner = _without(_COPY, name)
    if owner == name:
        return _without(_ORDINAL, name)
    for kind in (_SCHEDULED, _REVISION):
        shorter = _without(kind, owner)
        if shorter != owner:
            return shorter
    return owner


def _without(suffix: re.Pattern[str], name: str) -> str:
    found = suffix.fullmatch(name)
    return found["owner"] if found else name
