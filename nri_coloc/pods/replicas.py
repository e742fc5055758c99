"""Find the workload of a pod, so that a restarted or rescheduled pod keeps the history of its workload.

The runtime is told no owner, but controllers give names and labels by fixed rules, which are read backwards here. A
name that no rule fits is its own workload. A wrong guess blends two histories of one namespace: that costs accuracy,
never safety, and an author can harm the prediction of the own namespace's pods only.
"""

import re
from typing import Final, NamedTuple

from nri_coloc.core.workload import Pod

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""The letters of generated suffixes (k8s.io/apimachinery, util/rand: no vowels, nothing that looks like one)."""

_COPY: Final = re.compile(rf"(?P<owner>.+)-{_RANDOM}{{5}}")
"""A pod of a ReplicaSet, DaemonSet or Job."""

_REVISION: Final = re.compile(rf"(?P<owner>.+)-{_RANDOM}{{6,10}}")
"""A Deployment's ReplicaSet: the hash is a 32-bit number whose digits were mapped to the alphabet."""

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
    """The facts that lending needs about a pod that is not reclaimed.

    `cpu_milli` and `memory_bytes` are its requests, 0 where not known; `memory_limit`: bytes, what the
    runtime class takes on top of the containers (overhead) included, None for none.
    `own_cpus`: it runs on CPUs that somebody owns, which are not lent, so that only its memory counts. `lent_to`: the
    ids of its containers that are lent to themselves. `on_reserved`: it may run on CPUs that are neither lent nor
    anybody's, as a node agent may.
    """

    workload: str
    cpu_milli: int = 0
    memory_bytes: int = 0
    memory_limit: int | None = None
    own_cpus: bool = False
    lent_to: tuple[str, ...] = ()
    on_reserved: bool = False


def workload_of(pod: Pod) -> str:
    """Return "namespace/workload", the same for all copies of a pod and for what comes after it."""
    return f"{pod.namespace}/{_owner(pod)}"


def _owner(pod: Pod) -> str:
    """Labels say it exactly; the name is guessed from where a runtime or a test passes none."""
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
