"""Which of the operator's pools a pod is in: by its annotation, else by the first pool whose selectors fit.

Only pods of class shared and system are in one, each in pools of its own kind. A pool with groups is one pool for
each group, `name/GROUP`; a pod that says no group, or none that could be a name, is in the pool without a group.
"""

import re
from dataclasses import replace
from typing import Final

from nri_coloc.config.classes import applies
from nri_coloc.model.state import POOLS, SHARE, SYSTEM
from nri_coloc.model.tuning import PoolTuning, Tuning
from nri_coloc.model.workload import Pod, QoSClass, Wish

_OWN: Final = {QoSClass.SHARED: SHARE, QoSClass.SYSTEM: SYSTEM}
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A group becomes part of a name in the audit and in `/v1/state`; labels and annotations are whatever a pod says."""


def pools_of(qos: QoSClass, tuning: Tuning) -> tuple[str, ...]:
    """Return the pools that a pod of a class may name: its own first; none where the class has no choice."""
    own = _OWN.get(qos)
    if own is None:
        return ()
    return (own, *(pool.name for pool in tuning.pools if pool.qos is qos and pool.name not in POOLS))


def joined(wish: Wish, pod: Pod, tuning: Tuning, because: str = "") -> Wish:
    """Return a wish with the pool that holds, its group in it; `because`: where the wish's own pool was said."""
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
