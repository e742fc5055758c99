"""Who may ask for what: annotations are unprivileged input (DESIGN 4.1).

Judges a well-formed value for one subject and returns what it comes to: a percentage becomes bytes, an
oom_score_adj is clamped to the class's band, a privilege is refused. Knows nothing of where a value was
written. The subtle thing is the memory request, which the runtime is never told: `certain_request` returns a
bound that the true request cannot be below, so that nobody is protected beyond what the scheduler granted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from nri_coloc.config.classes import BANDS, matches, tuned
from nri_coloc.config.keys import QOS_CLASS
from nri_coloc.config.membership import pools_of
from nri_coloc.config.quantity import Amount
from nri_coloc.model.knobs import PAGE
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import ISOLATED, Container, FindingKind, KubeQoS, Pod, QoSClass, Resources

_UNLIMITED: Final = 1 << 62
"""cgroup v1 says "no limit" as the largest page-aligned int64; no machine has an eighth of this."""

_NO_RESOURCES: Final = Resources()


class UnfitError(ValueError):
    """A well-formed value that this subject cannot have."""

    def __init__(self, kind: FindingKind, allowed: str) -> None:
        super().__init__(allowed)
        self.kind = kind
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Subject:
    """For whom values are judged. `limit` and `request` are bytes, 0 where there is none or none is known.

    `resources` are the kubelet's own values of the container. `whole_pod`: no container is known yet, so nothing
    can be said about memory, which is a container's.
    """

    pod: Pod
    qos: QoSClass
    tuning: Tuning
    limit: int = 0
    request: int = 0
    whole_pod: bool = False
    resources: Resources = _NO_RESOURCES


def judge(key: str, value: Any, subject: Subject) -> Any:
    """Return what a value comes to for this subject, None for nothing; raise UnfitError if it may not be."""
    rule = _RULES.get(key)
    return value if rule is None else rule(value, subject)


def admit_class(qos: QoSClass, pod: Pod, tuning: Tuning) -> QoSClass:
    """Return the class if the pod may name it itself; raise UnfitError otherwise."""
    if qos is QoSClass.SYSTEM:
        _need_namespace(pod, qos, tuning, "the class system")
    if qos is QoSClass.DEDICATED and pod.kube_qos is KubeQoS.BEST_EFFORT:
        raise UnfitError(FindingKind.DENIED, "dedicated needs a CPU request; this pod has no request at all")
    return qos


def known_limit(container: Container) -> int:
    """Return the memory limit in bytes, 0 for none."""
    limit = container.resources.memory_limit or 0
    return limit if 0 < limit < _UNLIMITED else 0


def certain_request(pod: Pod, container: Container, node_memory_bytes: int) -> int:
    """Return bytes that the container's memory request cannot be below; 0 where nothing is certain.

    Guaranteed: requests equal limits. Burstable: the kubelet writes
    oom_score_adj = 1000 - floor(1000 * request / capacity), so request >= (1000 - oom_score_adj) * capacity
    / 1000 (pkg/kubelet/qos/policy.go). It raises 1000 to 999 and writes -997 for critical pods whatever they
    asked for: outside of 3 to 998 the value tells nothing.

    An in-place resize leaves the score as it was. No request is above its limit: a limit below what the score tells
    shows that the score is of a request that holds no more.
    """
    qos, score, limit = pod.kube_qos, container.oom_score_adj, known_limit(container)
    if qos is KubeQoS.GUARANTEED:
        return limit
    if qos is not KubeQoS.BURSTABLE or score is None or not 3 <= score <= 998:
        return 0
    told = max(0, node_memory_bytes) * (1000 - score) // 1000
    return 0 if 0 < limit < told else told


def _need_namespace(pod: Pod, qos: QoSClass, tuning: Tuning, what: str) -> None:
    globs = tuned(tuning, qos).allow_namespaces
    if not matches(pod.namespace, globs):
        allowed = ", ".join(globs) or "no namespace"
        raise UnfitError(FindingKind.DENIED, f"{what} only in classes.{qos}.allowNamespaces: {allowed}")


def _bytes_of_limit(amount: Amount, subject: Subject) -> int | None:
    if subject.whole_pod:
        return None
    found = amount.of(subject.limit)
    if found is None:
        raise UnfitError(
            FindingKind.INVALID, "a quantity such as 512Mi: there is no memory limit to be part of"
        )
    return max(PAGE, found)


def _bytes_of_request(amount: Amount, subject: Subject) -> int | None:
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


def _within_band(value: int, subject: Subject) -> int:
    low, high = BANDS[subject.qos]
    return min(max(value, low), high)


def _own_pool(name: str, subject: Subject) -> str | None:
    if subject.qos is QoSClass.DEDICATED and name == ISOLATED:
        return name
    pools = pools_of(subject.qos, subject.tuning)
    if not pools:  # the class has no pools to choose from: the key says nothing
        return None
    if name not in pools:
        raise UnfitError(FindingKind.INVALID, f"for class {subject.qos}: {', '.join(pools)}")
    return name


def _hands_off(parts: frozenset[str], subject: Subject) -> frozenset[str]:
    _need_namespace(subject.pod, subject.qos, subject.tuning, "preserve")
    return parts


def _avoidance(parts: frozenset[str], subject: Subject) -> frozenset[str]:
    if not parts:
        _need_namespace(subject.pod, subject.qos, subject.tuning, "avoidance none")
    return parts


_RULES: Final[Mapping[str, Callable[[Any, Subject], Any]]] = MappingProxyType(
    {
        QOS_CLASS: lambda qos, subject: admit_class(qos, subject.pod, subject.tuning),
        "cpu-pool": _own_pool,
        "memory-limit": _bytes_of_limit,
        "memory-high": _bytes_of_limit,
        "memory-low": _bytes_of_request,
        "memory-min": _bytes_of_request,
        "oom-score-adj": _within_band,
        "avoidance": _avoidance,
        "preserve": _hands_off,
    }
)
