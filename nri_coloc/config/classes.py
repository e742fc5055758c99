"""Which class a pod has when no annotation says, or none that may.

The order is DESIGN 4.1's: the operator's rules, Kubernetes' own QoS. Each answer comes with its reason in
words. Knows neither annotations, ours or foreign (`annotations` asks those first), nor what a class means to
the policy; only the band of oom_score_adj is written here, because settings and gate share it.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from nri_coloc.model.tuning import ClassRule, ClassTuning, Selector, Tuning
from nri_coloc.model.workload import KubeQoS, Pod, QoSClass

BANDS: Final[Mapping[QoSClass, tuple[int, int]]] = MappingProxyType(
    {
        QoSClass.DEDICATED: (-998, 0),
        QoSClass.SHARED: (-998, 999),
        QoSClass.RECLAIMED: (500, 1000),
        QoSClass.SYSTEM: (-999, 999),
    }
)
"""oom_score_adj that a class may have, lowest and highest (DESIGN 4.2)."""

_KUBE_SYSTEM: Final = "kube-system"
_UNTUNED: Final = ClassTuning()


def tuned(tuning: Tuning, qos: QoSClass) -> ClassTuning:
    """Return the operator's settings of a class."""
    return tuning.classes.get(qos, _UNTUNED)


def matches(namespace: str, globs: tuple[str, ...]) -> bool:
    """Whether a namespace is one of those that the operator named."""
    return any(fnmatchcase(namespace, glob) for glob in globs)


def by_operator(pod: Pod, tuning: Tuning) -> Iterator[tuple[ClassRule, str]]:
    """Yield the operator's rules that fit a pod, each with its words; the first that the gate admits holds."""
    for number, rule in enumerate(tuning.rules, 1):
        if applies(rule, pod):
            yield rule, _rule_in_words(rule, number)


def by_kubernetes(pod: Pod) -> tuple[QoSClass, str]:
    """Return the class of a pod that no annotation, label or rule gives one, and where it comes from."""
    if pod.namespace == _KUBE_SYSTEM:
        return QoSClass.SYSTEM, "namespace kube-system"
    if pod.kube_qos is KubeQoS.BEST_EFFORT:
        return QoSClass.RECLAIMED, "Kubernetes BestEffort"
    return QoSClass.SHARED, "default"


def is_given(qos: QoSClass, pod: Pod, tuning: Tuning) -> bool:
    """Return whether a pod has a class by its namespace and Kubernetes' QoS alone.

    Annotations and labels are the author's, also those that a rule of the operator names: only a rule that names a
    namespace counts.
    """
    rule = next((rule for rule in tuning.rules if rule.namespace and applies(rule, pod)), None)
    return qos is (rule.qos if rule is not None else by_kubernetes(pod)[0])


def applies(rule: ClassRule | Selector, pod: Pod) -> bool:
    """Whether all that a selector names holds for a pod."""
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
