"""Sort a pod's annotations with our prefix by container, before any value is read.

This module knows the three places of docs/annotations.md (`<key>`, `<key>.<container>`, `containers`) and the names of
the keys, but not the meaning of a value. A pod's author decides how much is written, so the number of findings, the
length of texts and the caches are bounded. The runtime sends maps in any order, so keys are taken in sorted order:
the same pod gives the same findings.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from nri_coloc.core.workload import PREFIX, Finding, FindingKind
from nri_coloc.pods.keys import CONTAINERS, KEYS, QOS_CLASS, RECORD

Pairs = tuple[tuple[str, str], ...]
"""Annotations of one pod as (name, value), sorted."""

MAX_FINDINGS: Final = 16
"""Findings of one pod: enough to correct honest mistakes, too few to flood the audit."""

_MAX_TEXT: Final = 256
_MAX_ESCAPED: Final = 512
"""Characters of a shown text, and of its JSON form in an audit line, in which an emoji takes twelve."""

PODS_KEPT: Final = 8
"""Pods whose sorted annotations are cached while their containers are created; at most 2 MiB for each pod."""

_EXAMPLE: Final = '{"<container>": {"<key>": "<value>"}}'


@dataclass(slots=True)
class Written:
    """The sorted annotations of one pod. They are filled once, then only read.

    values: by container ("" is the pod): key to (name as written, value).
    refused: container and finding of each annotation that has no effect.
    """

    values: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    refused: list[tuple[str, Finding]] = field(default_factory=list)

    def candidates(self, key: str, container: str) -> Iterator[tuple[str, str]]:
        """Yield (name, value) of a key: the container's own first, then the pod's."""
        for owner in dict.fromkeys((container, "")):
            found = self.values.get(owner, {}).get(key)
            if found is not None:
                yield found

    def asked(self, container: str) -> list[str]:
        """Return the keys that are set for a container or its pod, in the table's order, without the class."""
        present = self.values.get(container, {}).keys() | self.values.get("", {}).keys()
        return [key for key in KEYS if key in present and key != QOS_CLASS] if present else []

    def findings(self, container: str) -> list[Finding]:
        """Return the findings about keys of the pod and of one container, without the pod's other containers."""
        return [finding for owner, finding in self.refused if owner in ("", container)]

    def add(self, container: str, key: str, name: str, value: str) -> None:
        """Store the value of a known key, or note why the key has no effect."""
        if key in KEYS:
            self.values.setdefault(container, {}).setdefault(key, (name, value))
        elif key == RECORD:
            allowed = "nothing: only the plugin writes this key"
            self.refuse(name, value, allowed, FindingKind.DENIED, container)
        elif len(self.refused) < MAX_FINDINGS:
            self.refuse(name, value, _hint(key), container=container)

    def refuse(
        self,
        name: str,
        value: str,
        allowed: str,
        kind: FindingKind = FindingKind.INVALID,
        container: str = "",
    ) -> None:
        """Note an annotation that has no effect."""
        if len(self.refused) < MAX_FINDINGS:
            self.refused.append((container, Finding(kind, shown(name), shown(value), allowed, "nothing")))


def ours(annotations: Mapping[str, str]) -> Pairs:
    """Return the annotations with our prefix, sorted by name; most pods have none."""
    mine = [name for name in annotations if name.startswith(PREFIX)]
    return tuple((name, annotations[name]) for name in sorted(mine)) if mine else ()


def shown(text: str) -> str:
    """Return a pod's text, encodable and cut to the length that an audit record may hold."""
    return _shown(text[:_MAX_TEXT])


@lru_cache(maxsize=256)
def _shown(text: str) -> str:
    """Return the text of `shown`, cached: the containers of a pod have the same texts, one after another."""
    text = text.encode("utf-8", "backslashreplace").decode()[:_MAX_TEXT]
    if text.isascii() and text.isprintable():
        return text
    return text[: bisect_right([*accumulate(map(_escaped, text))], _MAX_ESCAPED)]


def _escaped(sign: str) -> int:
    """Return the maximum number of characters that a sign takes in an audit line, as JSON in ASCII."""
    if sign > "\uffff":
        return 12
    return 1 if " " <= sign <= "~" else 6


@lru_cache(maxsize=PODS_KEPT)
def read(pairs: Pairs) -> Written:
    """Return annotations sorted by container, cached: a pod's containers are created one by one."""
    written = Written()
    for name, value in pairs:
        key, _, container = name.removeprefix(PREFIX).partition(".")
        if key != CONTAINERS:
            written.add(container, key, name, value)
    for name, value in pairs:  # last, so that a key of its own wins over the JSON
        if name == PREFIX + CONTAINERS:
            _read_containers(written, name, value)
        elif name.startswith(PREFIX + CONTAINERS + "."):
            written.refuse(name, value, f"{PREFIX}{CONTAINERS} for all containers together")
    return written


def _read_containers(written: Written, name: str, text: str) -> None:
    try:
        containers = _parsed(text)
    except (ValueError, RecursionError):
        written.refuse(name, text, f"JSON such as {_EXAMPLE}, each key once")
        return
    for container, values in sorted(containers.items()):
        for key, value in sorted(values.items()):
            written.add(container, key, f"{name}[{container}][{key}]", value)


def _parsed(text: str) -> dict[str, dict[str, str]]:
    found = json.loads(text, object_pairs_hook=_unique)
    if not isinstance(found, dict) or "" in found or not all(_is_texts(values) for values in found.values()):
        raise ValueError("not containers with keys and texts")
    return found


def _is_texts(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _hint(key: str) -> str:
    import difflib  # only needed after a mistake

    near = difflib.get_close_matches(key[:64], KEYS, n=1)
    return f"did you mean {PREFIX}{near[0]}?" if near else "one of " + ", ".join(KEYS)
