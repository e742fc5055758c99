"""List the vocabularies in their order, and find the keys of a pod that one of them reads.

Most pods have none of these keys. Then only `found` runs: one pass over the annotations for our prefix, and
a comparison of names for the other vocabularies.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.settings import ClassRule, Selector, Tuning
from nri_coloc.core.workload import KnownKeys, Pod
from nri_coloc.pods.keys import PODS_KEPT, Pairs, ours
from nri_coloc.pods.vocabularies import katalyst, koordinator, noderesource, volcano
from nri_coloc.pods.vocabularies.claims import Claims, Handling


class Vocabulary(NamedTuple):
    """Another agent's annotations and labels.

    annotations: names that `read` uses.
    labels: names that `read` uses.
    keys: all keys of the vocabulary, as in the documentation.
    read: add the claims of one container from annotations and labels.
    """

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
"""In the order of docs/vocabularies.md: the first vocabulary with a claim for a key wins."""

_ANNOTATIONS: Final = frozenset(name for each in VOCABULARIES.values() for name in each.annotations)
_LABELS: Final = frozenset(label for each in VOCABULARIES.values() for label in each.labels)


def known_keys(tuning: Tuning) -> KnownKeys:
    """Return the names of annotations and labels that a vocabulary or an operator's rule reads."""
    annotations, labels = set(_ANNOTATIONS), set(_LABELS)
    members = (member for pool in tuning.pools for member in pool.members)
    selectors: tuple[ClassRule | Selector, ...] = (*tuning.rules, *members)
    pairs = {selector.annotation for selector in selectors if selector.annotation is not None}
    annotations.update(name for name, _ in pairs)
    for selector in selectors:
        labels.update(pair[0] for pair in (selector.label,) if pair is not None)
    for kind, _, key in (pool.group_by.partition(":") for pool in tuning.pools):
        {"annotation": annotations, "label": labels}.get(kind, set()).add(key)
    return KnownKeys(frozenset(annotations), frozenset(labels), frozenset(pairs))


class Found(NamedTuple):
    """The annotations and labels of a pod that are read, each sorted by name.

    ours: annotations with our prefix.
    theirs: annotations of other vocabularies.
    labels: labels of other vocabularies.
    """

    ours: Pairs = ()
    theirs: Pairs = ()
    labels: Pairs = ()


NOTHING: Final = Found()
SILENT: Final = Claims()


def found(pod: Pod) -> Found:
    """Return the annotations and labels of a pod that are read; for most pods the object NOTHING itself."""
    annotations, labels = pod.annotations, pod.labels
    mine = ours(annotations)
    # comparing whole names instead of prefixes costs a fifth, and unknown keys cost nothing further
    if not mine and _ANNOTATIONS.isdisjoint(annotations) and _LABELS.isdisjoint(labels):
        return NOTHING
    return Found(mine, _pairs(annotations, _ANNOTATIONS), _pairs(labels, _LABELS))


def _pairs(texts: Mapping[str, str], names: frozenset[str]) -> Pairs:
    return (
        ()
        if names.isdisjoint(texts)
        else tuple([(name, texts[name]) for name in sorted(names & texts.keys())])
    )


def claims_of(carried: Found, container: str) -> Claims:
    """Return other vocabularies' claims about a container ("" for the pod), cached."""
    if not carried.theirs and not carried.labels:
        return SILENT
    return _read(carried.theirs, carried.labels, container)


@lru_cache(maxsize=PODS_KEPT)
def _read(annotations: Pairs, labels: Pairs, container: str) -> Claims:
    claims = Claims()
    for vocabulary in VOCABULARIES.values():
        vocabulary.read(dict(annotations), dict(labels), container, claims)
    return claims
