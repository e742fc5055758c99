"""The table of our annotation keys, and a pod's annotations sorted by key and container.

A key is one entry of the table: parser, allowed values, rights, and the value that holds without the key. The hook
needs one lookup; no pydantic here. Rules of `gate` decide whether a pod may have a readable value. Parsers raise
ValueError. Its text is not shown: the finding carries `allowed`.

Annotations stand in three places (docs/annotations.md: `<key>`, `<key>.<container>`, `containers`). They are sorted
before any value is read. A pod's author decides how much is written, so the number of findings, the length of texts
and the caches are bounded. The runtime sends maps in any order, so keys are taken in sorted order: the same pod gives
the same findings.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import LEAST_MEMORY, MAX_IO_WEIGHT, MIN_WEIGHT
from nri_coloc.core.workload import (
    PREFIX,
    Finding,
    FindingKind,
    Numa,
    Placement,
    QoSClass,
    Texts,
    Tolerance,
    Wish,
)
from nri_coloc.pods import gate, quantity
from nri_coloc.pods.gate import Subject

CONTAINERS: Final = "containers"
RECORD: Final = "record"
QOS_CLASS: Final = "qos-class"

EVICT_AT: Final = f"{PREFIX}evict-at"
"""The annotation that the controller writes before it evicts a pod, with the time. It asks for nothing, but a sandbox
that the kubelet creates again carries it, for example after a reboot (docs/kubernetes.md)."""

_WRITTEN_BY_US: Final = frozenset({EVICT_AT, f"{PREFIX}lent"})
"""Annotations that programs of ours write on pods. They ask the daemon for nothing. `lent` has the lent amounts of each
container; no program writes it yet, and the daemon takes these amounts from the companion's facts."""

ALL: Final = "*"
"""The key in a finding about all keys of a pod together."""

MAX_VALUE: Final = 1024
"""Characters of one value: enough for a CPU list of a large machine."""

_MOST_NODES: Final = 1024
"""MAX_NUMNODES with the largest CONFIG_NODES_SHIFT (10) of any architecture (mm/Kconfig, arch/*/Kconfig)."""

_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,10}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Key:
    """One annotation key.

    parse: return the value of a text, or raise ValueError.
    allowed: the allowed values, in words.
    used: return the value of this key in a wish, in words.
    right: return the value that a subject gets, None for no value; raise UnfitError if it must not have it.
    knob: the field of `Knobs` that it orders, "" for none.
    """

    parse: Callable[[str], Any]
    allowed: str
    used: Callable[[Wish], str]
    right: Callable[[Any, Subject], Any] = gate.granted
    knob: str = ""


def read(key: str, text: str) -> Any:
    """Return the value of a known key; raise ValueError if the key does not allow the text."""
    if len(text) > MAX_VALUE:
        raise ValueError(f"longer than {MAX_VALUE} characters")
    return KEYS[key].parse(text.strip())


def judge(key: str, value: Any, subject: Subject) -> Any:
    """Return the value that this subject gets for a known key, None for no value; raise UnfitError otherwise."""
    return KEYS[key].right(value, subject)


def base_of(name: str) -> str:
    """Return the known key of an annotation's name in a finding, or "unknown".

    It is used for metric labels: names that a pod's author invents must not become label values.
    """
    key = name.removeprefix(PREFIX).partition(".")[0].partition("[")[0]
    return key if key in KEYS or key in (CONTAINERS, RECORD, ALL) else "unknown"


def _integer(low: int, high: int, sign: str = "") -> Callable[[str], int]:
    def parse(text: str) -> int:
        text = text.removesuffix(sign)
        # int() alone would take "1_000" and digits of other scripts
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return parse


def _name(text: str) -> str:
    # runc makes a folder name of an rdt class: neither a slash nor a leading dot may pass
    if not _NAME.fullmatch(text):
        raise ValueError
    return text


def _set_of(*allowed: str) -> Callable[[str], frozenset[str]]:
    def parse(text: str) -> frozenset[str]:
        parts = frozenset(part.strip() for part in text.split(","))
        if not parts <= frozenset(allowed):
            raise ValueError
        return parts

    return parse


def _avoidance(text: str) -> frozenset[str]:
    return frozenset() if text == "none" else _set_of("throttle", "degrade", "evict")(text)


def node_ids(text: str) -> cpuset.CPUMask:
    """Return a list of NUMA nodes as a mask; raise ValueError for an empty list or an id that no kernel has."""
    mask = cpuset.parse(text)
    if not mask or mask.bit_length() > _MOST_NODES:
        raise ValueError
    return mask


def _choice(
    values: type[StrEnum], used: Callable[[Wish], str], right: Callable[[Any, Subject], Any] = gate.granted
) -> Key:
    return Key(values, "one of " + ", ".join(values), used, right)


def _knob(
    name: str,
    parse: Callable[[str], Any],
    allowed: str,
    *,
    otherwise: str,
    right: Callable[[Any, Subject], Any],
) -> Key:
    def used(wish: Wish) -> str:
        value = getattr(wish.knobs, name)
        return otherwise if value is None else str(value)

    return Key(parse, allowed, used, right, name)


def _avoidance_used(wish: Wish) -> str:
    if wish.avoidance is None:
        return "the class's own"
    return ",".join(sorted(wish.avoidance)) or "none"


def _burst_used(wish: Wish) -> str:
    return "none" if wish.cpu_burst_percent is None else str(wish.cpu_burst_percent)


_A_LIMIT: Final = f"{quantity.AMOUNT_ALLOWED}, of the memory limit; {LEAST_MEMORY} bytes at least"
_PROTECTED: Final = f"{quantity.AMOUNT_ALLOWED}, of the memory request"
_NAME_ALLOWED: Final = "a name of 1 to 63 letters, digits, '.', '_' and '-', starting with a letter or digit"

KEYS: Final[Mapping[str, Key]] = MappingProxyType(
    {
        QOS_CLASS: _choice(QoSClass, lambda w: w.qos, gate.admit_class),
        "cpu-pool": Key(_name, _NAME_ALLOWED, lambda w: w.pool or "the class's own pool", gate.own_pool),
        "numa": _choice(Numa, lambda w: w.numa),
        "numa-count": Key(
            _integer(1, _MOST_NODES),
            f"an integer from 1 to {_MOST_NODES}",
            lambda w: str(w.numa_count or "any"),
        ),
        "numa-ids": Key(
            node_ids, "NUMA nodes such as 0 or 0-1,3", lambda w: cpuset.render(w.numa_ids) or "any"
        ),
        "cpu-placement": _choice(Placement, lambda w: w.placement),
        "memory-limit": _knob(
            "memory_limit", quantity.limit, _A_LIMIT, otherwise="the kubelet's", right=gate.bytes_of_limit
        ),
        "memory-high": _knob(
            "memory_high", quantity.limit, _A_LIMIT, otherwise="none", right=gate.bytes_of_limit
        ),
        "memory-low": _knob(
            "memory_low", quantity.amount, _PROTECTED, otherwise="none", right=gate.bytes_of_request
        ),
        "memory-min": _knob(
            "memory_min", quantity.amount, _PROTECTED, otherwise="none", right=gate.bytes_of_request
        ),
        "io-weight": _knob(
            "io_weight",
            _integer(MIN_WEIGHT, MAX_IO_WEIGHT),
            "an integer from 1 to 10000",
            otherwise="100",
            right=gate.io_weight,
        ),
        "blockio-class": _knob(
            "blockio_class", _name, _NAME_ALLOWED, otherwise="none", right=gate.blockio_class
        ),
        "rdt-class": _knob("rdt_class", _name, _NAME_ALLOWED, otherwise="none", right=gate.rdt_class),
        "oom-score-adj": _knob(
            "oom_score_adj",
            _integer(-1000, 1000),
            "an integer from -1000 to 1000",
            otherwise="the kubelet's",
            right=gate.score,
        ),
        "cpu-burst": Key(_integer(0, 100, sign="%"), "a percentage of the quota, from 0 to 100", _burst_used),
        "priority": Key(
            # the range of Kubernetes' own pod priorities (HighestUserDefinablePriority)
            _integer(-1_000_000_000, 1_000_000_000),
            "an integer from -1000000000 to 1000000000",
            lambda w: str(w.priority),
        ),
        "avoidance": Key(
            _avoidance, "none, or a comma list of throttle, degrade, evict", _avoidance_used, gate.avoidance
        ),
        "tolerance": _choice(Tolerance, lambda w: w.tolerance, gate.tolerance),
        "preserve": Key(
            _set_of("cpu", "memory"),
            "a comma list of cpu, memory",
            lambda w: ",".join(sorted(w.preserve)) or "nothing",
            gate.hands_off,
        ),
    }
)


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
        for owner in (container, "") if container else ("",):
            found = self.values.get(owner, {}).get(key)
            if found is not None:
                yield found

    def named(self, container: str) -> set[str]:
        """Return the keys that are set for a container or its pod."""
        return self.values.get(container, {}).keys() | self.values.get("", {}).keys()

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
    if isinstance(annotations, Texts) and len(annotations) >= _MANY:
        return _ours_once(_Same(annotations))
    return _ours(annotations)


_MANY: Final = 32
"""Annotations from which a pod's are sorted once for all its containers; its author decides how many both are."""


class _Same:
    """Texts as the key of a cache. Only the same object is equal: to compare contents costs as much as to sort them."""

    __slots__ = ("texts",)

    def __init__(self, texts: Texts) -> None:
        self.texts = texts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.texts is other.texts

    def __hash__(self) -> int:
        return id(self.texts)


@lru_cache(maxsize=PODS_KEPT)
def _ours_once(annotations: _Same) -> Pairs:
    return _ours(annotations.texts)


def _ours(annotations: Mapping[str, str]) -> Pairs:
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
def by_container(pairs: Pairs) -> Written:
    """Return annotations sorted by container, cached: a pod's containers are created one by one."""
    written = Written()
    for name, value in pairs:
        key, _, container = name.removeprefix(PREFIX).partition(".")
        if key != CONTAINERS and name not in _WRITTEN_BY_US:
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
