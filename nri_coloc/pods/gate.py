"""Limit values to the rights of a pod: annotations and labels are unprivileged input (docs/annotations.md).

Each rule returns the value that one subject gets for a readable value, None for no value, or raises UnfitError. A
percentage becomes bytes, an oom_score_adj is clamped to the class's band, a privilege is denied. `keys` names the rule
of each key. `unprivileged` does the same for a class's defaults. This module
does not know the annotation or label that a value comes from.
"""

from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from nri_coloc.core.knobs import KERNELS_IO_WEIGHT, LEAST_MEMORY, MIN_SHARES
from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.value import replace
from nri_coloc.core.workload import ISOLATED, FindingKind, KubeQoS, Pod, QoSClass, Resources, Tolerance
from nri_coloc.pods.classes import BANDS, matches, pools_of, tuned
from nri_coloc.pods.quantity import Amount

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
            f"a pod that requests {least / 1000:g} CPUs (classes.dedicated.minRequest); "
            f"this one requests {known / 1000:g}"
        )


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
    if subject.qos is QoSClass.DEDICATED and name == ISOLATED:
        return name
    pools = pools_of(subject.qos, subject.tuning)
    if not pools:  # the class has no pools to choose from: the key has no effect
        return None
    if name not in pools:
        raise UnfitError(FindingKind.INVALID, f"for class {subject.qos}: {', '.join(pools)}")
    return name


def hands_off(parts: frozenset[str], subject: Subject) -> frozenset[str]:
    _need_namespace(subject.pod, subject.qos, subject.tuning, "preserve")
    return parts


def avoidance(parts: frozenset[str], subject: Subject) -> frozenset[str]:
    if not parts:
        _need_namespace(subject.pod, subject.qos, subject.tuning, "avoidance none")
    if subject.qos is QoSClass.RECLAIMED and "throttle" not in parts:
        # without eviction orders no action would be left against a pod that hurts online pods
        _need_namespace(subject.pod, subject.qos, subject.tuning, "avoidance without throttle")
    return parts


def tolerance(wanted: Tolerance, subject: Subject) -> Tolerance | None:
    """Return the tolerance of an online container; no verdict protects any other."""
    return wanted if subject.qos in (QoSClass.DEDICATED, QoSClass.SHARED) else None
