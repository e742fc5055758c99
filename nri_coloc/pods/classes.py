"""Return the class and the pool of a pod, each with its reason.

If no annotation gives a class, the operator's rules decide, then Kubernetes' own QoS class (docs/annotations.md). The
pool comes from the pod's annotation, else from the first configured pool with a matching selector. The oom_score_adj
band of each class is here because settings and gate share it.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from nri_coloc.core.settings import ClassRule, ClassTuning, PoolTuning, Selector, Tuning
from nri_coloc.core.state import POOLS, SHARE, SYSTEM
from nri_coloc.core.value import replace
from nri_coloc.core.workload import KubeQoS, Pod, QoSClass, Wish

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
    rule = next((rule for rule in tuning.rules if rule.namespace and applies(rule, pod)), None)
    return qos is (rule.qos if rule is not None else by_kubernetes(pod)[0])


def applies(rule: ClassRule | Selector, pod: Pod) -> bool:
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
