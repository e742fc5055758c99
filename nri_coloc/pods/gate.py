"""Apply the operator's rules to a pod: its class and its pool, and the values that it may have.

If no annotation gives a class, the operator's rules decide, then Kubernetes' own QoS class (docs/annotations.md). The
pool comes from the pod's annotation, else from the first configured pool with a matching selector.

Annotations and labels are unprivileged input. Each rule returns the value that one subject gets for a readable value,
None for no value, or raises UnfitError. A percentage becomes bytes, an oom_score_adj is clamped to the class's band, a
privilege is denied. `keys` names the rule of each key. `unprivileged` does the same for a class's defaults. This module
does not know the annotation or label that a value comes from.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from nri_coloc.core.knobs import KERNELS_IO_WEIGHT, LEAST_MEMORY, MIN_SHARES
from nri_coloc.core.settings import ClassRule, ClassTuning, PoolTuning, Selector, Tuning
from nri_coloc.core.state import POOLS, SHARE, SYSTEM
from nri_coloc.core.texts import counted
from nri_coloc.core.value import replace
from nri_coloc.core.workload import (
    ISOLATED,
    Container,
    FindingKind,
    KubeQoS,
    Pod,
    QoSClass,
    Resources,
    Tolerance,
    Wish,
)
from nri_coloc.pods.quantity import Amount

BANDS: Final[Mapping[QoSClass, tuple[int, int]]] = MappingProxyType(
    {
        QoSClass.DEDICATED: (-998, 0),
        QoSClass.SHARED: (-998, 999),
        QoSClass.RECLAIMED: (500, 1000),
        QoSClass.SYSTEM: (-999, 999),
    }
)
"""Lowest and highest oom_score_adj of each class (docs/annotations.md)."""

_KUBE_SYSTEM: Final = "kube-system"
_UNTUNED: Final = ClassTuning()


def tuned(tuning: Tuning, qos: QoSClass) -> ClassTuning:
    """Return the operator's settings of a class."""
    return tuning.classes.get(qos, _UNTUNED)


def matches(namespace: str, globs: tuple[str, ...]) -> bool:
    """Return whether a namespace matches one of the operator's globs."""
    return any(fnmatchcase(namespace, glob) for glob in globs)


def by_operator(pod: Pod, tuning: Tuning) -> Iterator[tuple[ClassRule, str]]:
    """Yield the operator's rules that match a pod, each with its text; the first rule that the gate admits holds."""
    for number, rule in enumerate(tuning.rules, 1):
        if applies(rule, pod):
            yield rule, _rule_in_words(rule, number)


def by_kubernetes(pod: Pod) -> tuple[QoSClass, str]:
    """Return the class of a pod without a class by annotation, label or rule, and the reason."""
    if pod.namespace == _KUBE_SYSTEM:
        return QoSClass.SYSTEM, "namespace kube-system"
    if pod.kube_qos is KubeQoS.BEST_EFFORT:
        return QoSClass.RECLAIMED, "Kubernetes BestEffort"
    return QoSClass.SHARED, "default"


def is_given(qos: QoSClass, pod: Pod, tuning: Tuning) -> bool:
    """Return whether a pod has a class by its namespace and Kubernetes' QoS alone.

    The pod's author writes annotations and labels, even if an operator's rule names them. So only rules with a
    namespace count.
    """
    for rule in tuning.rules:
        if rule.namespace and applies(rule, pod):
            return qos is rule.qos
    return qos is by_kubernetes(pod)[0]


def applies(rule: Selector, pod: Pod) -> bool:
    """Return whether a pod matches every field that a selector sets."""
    if rule.annotation is not None and pod.annotations.get(rule.annotation[0]) != rule.annotation[1]:
        return False
    if rule.label is not None and pod.labels.get(rule.label[0]) != rule.label[1]:
        return False
    return not rule.namespace or fnmatchcase(pod.namespace, rule.namespace)


@lru_cache(maxsize=256)
def _rule_in_words(rule: ClassRule, number: int) -> str:
    parts = []
    if rule.annotation is not None:
        parts.append("annotation {}={}".format(*rule.annotation))
    if rule.label is not None:
        parts.append("label {}={}".format(*rule.label))
    if rule.namespace:
        parts.append(f"namespace {rule.namespace}")
    return f"rule {number} ({', '.join(parts)})"


_OWN: Final = {QoSClass.SHARED: SHARE, QoSClass.SYSTEM: SYSTEM}
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A group becomes part of a pool name in the audit and in `/v1/state`, but a pod's author writes its text."""


def pools_of(qos: QoSClass, tuning: Tuning) -> tuple[str, ...]:
    """Return the pools that a pod of a class may name, the class's default first; empty if the class has no pools."""
    own = _OWN.get(qos)
    if own is None:
        return ()
    return (own, *(pool.name for pool in tuning.pools if pool.qos is qos and pool.name not in POOLS))


def joined(wish: Wish, pod: Pod, tuning: Tuning, because: str = "") -> Wish:
    """Return a wish with its final pool and group; `because` is the reason of the pool that the wish names."""
    if not tuning.pools or wish.qos not in _OWN:
        return wish
    if wish.pool:
        named = (pool for pool in tuning.pools if pool.name == wish.pool and pool.name not in POOLS)
        found = next(named, None)
    else:
        found, because = _selected(wish.qos, pod, tuning)
    if found is None:
        return wish
    group = _group(found, pod)
    return replace(wish, pool=f"{found.name}/{group}" if group else found.name, pool_because=because)


def _selected(qos: QoSClass, pod: Pod, tuning: Tuning) -> tuple[PoolTuning | None, str]:
    for pool in tuning.pools:
        for number, selector in enumerate(pool.members, 1):
            if pool.qos is qos and applies(selector, pod):
                return pool, f"member rule {number}"
    return None, ""


def _group(pool: PoolTuning, pod: Pod) -> str:
    kind, _, key = pool.group_by.partition(":")
    if kind == "pod":
        return "/".join(part for part in (pod.namespace, pod.name) if part)
    found = {
        "namespace": pod.namespace,
        "label": pod.labels.get(key, ""),
        "annotation": pod.annotations.get(key, ""),
    }.get(kind, "")
    return found if _GROUP.fullmatch(found) else ""


_T = TypeVar("_T")

_NO_RESOURCES: Final = Resources()

_UNTOLD_SCORES: Final = {KubeQoS.BEST_EFFORT: 1000, KubeQoS.BURSTABLE: 999, KubeQoS.GUARANTEED: -997}
"""The highest score that the kubelet writes for each QoS class (pkg/kubelet/qos/policy.go)."""


class UnfitError(ValueError):
    """A readable value that this subject must not have."""

    def __init__(self, kind: FindingKind, allowed: str) -> None:
        super().__init__(allowed)
        self.kind = kind
        self.allowed = allowed


class ShortError(UnfitError):
    """The pod's CPU request is too small for the class."""

    def __init__(self, allowed: str) -> None:
        super().__init__(FindingKind.DENIED, allowed)


class Subject(NamedTuple):
    """The container whose values are judged, with the kubelet's own values.

    limit: memory limit in bytes; 0 for none or unknown.
    request: memory request in bytes; 0 for none or unknown.
    cpu_request: the pod's CPU request, thousandths of a CPU; None if unknown.
    whole_pod: no container is known yet. A pod has neither memory values nor an OOM score.
    resources: the container's resources.
    score: oom_score_adj of the container; None if the runtime does not report it.
    """

    pod: Pod
    qos: QoSClass
    tuning: Tuning
    limit: int = 0
    request: int = 0
    cpu_request: int | None = None
    whole_pod: bool = False
    resources: Resources = _NO_RESOURCES
    score: int | None = None


def figures(container: Container, qos: QoSClass) -> tuple[int | None, int | None, int | None, bool]:
    """Return the values of a container that its wish follows from, beside its name and its pod.

    They are CPU shares, the memory limit in bytes, the OOM score and, for class reclaimed, whether it has a quota.
    """
    resources = container.resources
    has_quota = qos is QoSClass.RECLAIMED and (resources.quota or 0) > 0
    return resources.shares, resources.memory_limit, container.oom_score_adj, has_quota


def granted(value: _T, _subject: Subject) -> _T:
    """Return the value: every pod may have it."""
    return value


def admit_class(qos: QoSClass, subject: Subject) -> QoSClass:
    """Return the class if the pod may name it; raise UnfitError otherwise."""
    if qos is QoSClass.SYSTEM:
        _need_namespace(subject.pod, qos, subject.tuning, "the class system")
    if qos is QoSClass.DEDICATED:
        _need_request(subject)
    return qos


def admit_rule(rule: ClassRule, subject: Subject) -> QoSClass:
    """Return the class of an operator's rule that matches the pod; raise UnfitError if the pod must not have it.

    A tenant writes labels and annotations, so only a rule with a namespace may grant class system. Owned CPUs need
    a CPU request, whatever the rule.
    """
    return (
        rule.qos if rule.namespace and rule.qos is not QoSClass.DEDICATED else admit_class(rule.qos, subject)
    )


def _need_request(subject: Subject) -> None:
    """Raise ShortError if the pod's CPU request is below the minimum of class dedicated.

    Before any container is known, an unknown request passes. Later an unknown request counts as the container's,
    because a pod requests at least as much as each container.
    """
    least = max(1, tuned(subject.tuning, QoSClass.DEDICATED).min_request)
    known = subject.cpu_request
    if subject.pod.kube_qos is KubeQoS.BEST_EFFORT:
        known = 0
    elif known is None:
        known = least if subject.whole_pod else subject.resources.cpu_request
    if known < least:
        raise ShortError(
            f"a pod that requests {counted(least / 1000, 'CPU')} (classes.dedicated.minRequest); "
            f"this one requests {known / 1000:g}"
        )


def is_privileged(defaults: ClassTuning) -> bool:
    """Return whether a class's defaults may favour a container: `unprivileged` could change them."""
    shares = defaults.cpu_shares or 0
    return defaults.oom_score_adj is not None or defaults.io_weight > KERNELS_IO_WEIGHT or shares > MIN_SHARES


@lru_cache(maxsize=1024)
def unprivileged(defaults: ClassTuning, qos: QoSClass, kube_qos: KubeQoS, score: int | None) -> ClassTuning:
    """Return a class's defaults for a pod whose author chose the class: no lower OOM score, no higher weights.

    score: the kubelet's oom_score_adj of the container, None if the runtime does not report it.
    """
    lowers = defaults.oom_score_adj is not None and defaults.oom_score_adj < _own_score(kube_qos, score)
    outweighs = defaults.io_weight > KERNELS_IO_WEIGHT and _is_offline(qos, kube_qos)
    return replace(
        defaults,
        oom_score_adj=None if lowers else defaults.oom_score_adj,
        io_weight=KERNELS_IO_WEIGHT if outweighs else defaults.io_weight,
        cpu_shares=None if (defaults.cpu_shares or 0) > MIN_SHARES else defaults.cpu_shares,
    )


def is_allowed(pod: Pod, qos: QoSClass, tuning: Tuning) -> bool:
    """Return whether the operator grants the privileges of a class to the pod's namespace."""
    return matches(pod.namespace, tuned(tuning, qos).allow_namespaces)


def _need_namespace(pod: Pod, qos: QoSClass, tuning: Tuning, words: str) -> None:
    if not is_allowed(pod, qos, tuning):
        allowed = ", ".join(tuned(tuning, qos).allow_namespaces) or "no namespace"
        raise UnfitError(FindingKind.DENIED, f"{words} only in classes.{qos}.allowNamespaces: {allowed}")


def bytes_of_limit(amount: Amount, subject: Subject) -> int | None:
    """Return an amount in bytes, a percentage taken of the memory limit; None while no container is known."""
    if subject.whole_pod:
        return None
    found = amount.of(subject.limit)
    if found is None:
        raise UnfitError(
            FindingKind.INVALID, "a quantity such as 512Mi: there is no memory limit to be part of"
        )
    if found < LEAST_MEMORY:
        words = f"at least {LEAST_MEMORY} bytes, because no container starts with less; this gives {found}"
        raise UnfitError(FindingKind.INVALID, words)
    return found


def bytes_of_request(amount: Amount, subject: Subject) -> int | None:
    """Return a protection in bytes, at most the memory request; None while no container is known."""
    if subject.whole_pod:
        return None
    found = amount.of(subject.request)
    if found is None:
        raise UnfitError(
            FindingKind.INVALID, "a quantity such as 512Mi: no memory request is known to be part of"
        )
    if found > subject.request:
        raise UnfitError(
            FindingKind.DENIED,
            f"at most the container's own memory request, of which {subject.request} bytes are certain",
        )
    return found


def score(value: int, subject: Subject) -> int | None:
    """Return a score clamped to the class's band. A score below the kubelet's needs an allowed namespace."""
    if subject.whole_pod:
        return None
    low, high = BANDS[subject.qos]
    fitted, own = min(max(value, low), high), _own_score(subject.pod.kube_qos, subject.score)
    if value < own and fitted < own:
        words = f"{own}, the kubelet's own score, or more; less"
        _need_namespace(subject.pod, subject.qos, subject.tuning, words)
    elif fitted < own and not is_allowed(subject.pod, subject.qos, subject.tuning):
        return own  # the band alone would lower it
    return fitted


def _own_score(kube_qos: KubeQoS, score: int | None) -> int:
    """Return the kubelet's oom_score_adj; if it is unknown, the highest one that the kubelet writes."""
    return _UNTOLD_SCORES.get(kube_qos, 0) if score is None else score


def io_weight(value: int, subject: Subject) -> int:
    """Return the weight. An offline pod needs an allowed namespace for more than the kernel's default."""
    if value > KERNELS_IO_WEIGHT and _is_offline(subject.qos, subject.pod.kube_qos):
        words = f"at most {KERNELS_IO_WEIGHT} for a BestEffort or reclaimed pod; more"
        _need_namespace(subject.pod, subject.qos, subject.tuning, words)
    return value


def blockio_class(name: str, subject: Subject) -> str:
    """Return the name. A blockio class may hold weights, so an offline pod needs an allowed namespace."""
    if _is_offline(subject.qos, subject.pod.kube_qos):
        _need_namespace(subject.pod, subject.qos, subject.tuning, "for a BestEffort or reclaimed pod")
    return name


def _is_offline(qos: QoSClass, kube_qos: KubeQoS) -> bool:
    return qos is QoSClass.RECLAIMED or kube_qos is KubeQoS.BEST_EFFORT


def rdt_class(name: str, subject: Subject) -> str:
    """Return the name in an allowed namespace only: an RDT class takes cache and bandwidth that no pod requests."""
    _need_namespace(subject.pod, subject.qos, subject.tuning, "an RDT class")
    return name


def own_pool(name: str, subject: Subject) -> str | None:
    """Return a pool that the class may name, or `isolated` for class dedicated; None if the class has no pools."""
    if subject.qos is QoSClass.DEDICATED and name == ISOLATED:
        return name
    pools = pools_of(subject.qos, subject.tuning)
    if not pools:  # the class has no pools to choose from: the key has no effect
        return None
    if name not in pools:
        raise UnfitError(FindingKind.INVALID, f"for class {subject.qos}: {', '.join(pools)}")
    return name


def hands_off(parts: frozenset[str], subject: Subject) -> frozenset[str]:
    """Return the values to leave alone, in an allowed namespace only."""
    _need_namespace(subject.pod, subject.qos, subject.tuning, "preserve")
    return parts


def avoidance(parts: frozenset[str], subject: Subject) -> frozenset[str]:
    """Return the allowed actions. To allow none, or no throttling of a reclaimed pod, needs an allowed namespace."""
    if not parts:
        _need_namespace(subject.pod, subject.qos, subject.tuning, "avoidance none")
    if subject.qos is QoSClass.RECLAIMED and "throttle" not in parts:
        # without eviction orders no action would be left against a pod that hurts online pods
        _need_namespace(subject.pod, subject.qos, subject.tuning, "avoidance without throttle")
    return parts


def tolerance(wanted: Tolerance, subject: Subject) -> Tolerance | None:
    """Return the tolerance of an online container; no verdict protects any other."""
    return wanted if subject.qos in (QoSClass.DEDICATED, QoSClass.SHARED) else None
