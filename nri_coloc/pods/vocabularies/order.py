"""Which vocabularies there are, in what order they are heard, and which of a pod's keys any of them reads.

Most pods carry none of these keys, and for them `found` is all that is done: one pass over the annotations for our
prefix, and a comparison of names for theirs.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.metadata import KnownKeys
from nri_coloc.core.settings import ClassRule, Selector, Tuning
from nri_coloc.core.workload import Pod
from nri_coloc.pods.vocabularies import katalyst, koordinator, noderesource, volcano
from nri_coloc.pods.vocabularies.claims import Claims, Handling
from nri_coloc.pods.written import PODS_KEPT, Pairs, ours


class Vocabulary(NamedTuple):
    """`keys`: all keys that it has, as the documentation lists them; `read` makes claims of what is there."""

    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    keys: Mapping[str, Handling]
    read: Callable[[Mapping[str, str], Mapping[str, str], str, Claims], None]


VOCABULARIES: Final[Mapping[str, Vocabulary]] = MappingProxyType(
    {
        name: Vocabulary(module.ANNOTATIONS, module.LABELS, module.KEYS, module.read)
        for name, module in (
            ("Katalyst", katalyst),
            ("Koordinator", koordinator),
            ("Volcano", volcano),
            ("nri-plugins", noderesource),
        )
    }
)
"""In the order of DESIGN 4.1."""

_ANNOTATIONS: Final = frozenset(name for each in VOCABULARIES.values() for name in each.annotations)
_LABELS: Final = frozenset(label for each in VOCABULARIES.values() for label in each.labels)


def known_keys(tuning: Tuning) -> KnownKeys:
    """Return the names that a vocabulary, or a rule of the operator, reads."""
    annotations, labels = set(_ANNOTATIONS), set(_LABELS)
    members = (member for pool in tuning.pools for member in pool.members)
    selectors: tuple[ClassRule | Selector, ...] = (*tuning.rules, *members)
    for selector in selectors:
        annotations.update(pair[0] for pair in (selector.annotation,) if pair is not None)
        labels.update(pair[0] for pair in (selector.label,) if pair is not None)
    for kind, _, key in (pool.group_by.partition(":") for pool in tuning.pools):
        {"annotation": annotations, "label": labels}.get(kind, set()).add(key)
    return KnownKeys(frozenset(annotations), frozenset(labels))


class Found(NamedTuple):
    """What a pod carries that anybody reads: our annotations, theirs, and their labels; each sorted."""

    ours: Pairs = ()
    theirs: Pairs = ()
    labels: Pairs = ()


NOTHING: Final = Found()
SILENT: Final = Claims()


def found(pod: Pod) -> Found:
    """Return what of a pod is to be read; NOTHING, the very object, for most."""
    annotations, labels = pod.annotations, pod.labels
    mine = ours(annotations)
    # whole names and no prefixes: a fifth of the cost, and an unread key costs nothing further
    if not mine and _ANNOTATIONS.isdisjoint(annotations) and _LABELS.isdisjoint(labels):
        return NOTHING
    return Found(
        mine,
        _pairs(annotations, _ANNOTATIONS & annotations.keys()),
        _pairs(labels, _LABELS & labels.keys()),
    )


def _pairs(texts: Mapping[str, str], names: Iterable[str]) -> Pairs:
    return tuple((name, texts[name]) for name in sorted(names))


def claims_of(carried: Found, container: str) -> Claims:
    """Return what the others say about a container ("" for the pod); the same ones are read once."""
    if not carried.theirs and not carried.labels:
        return SILENT
    return _read(carried.theirs, carried.labels, container)


@lru_cache(maxsize=PODS_KEPT)
def _read(annotations: Pairs, labels: Pairs, container: str) -> Claims:
    claims = Claims()
    for vocabulary in VOCABULARIES.values():
        vocabulary.read(dict(annotations), dict(labels), container, claims)
    return claims
