"""Collect the values that other vocabularies give one container, under our keys.

A claim is a value that is read but not judged yet. `annotations` takes the claims of a key after our own annotations,
in the order in which they were made, and passes each to the gate. This module knows no foreign key. A pod's author
writes the texts, so their length is bounded, and JSON is parsed once for all containers of a pod.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.workload import Finding, FindingKind, Wish
from nri_coloc.pods import gate, keys
from nri_coloc.pods.keys import shown

ORDERED_CPUS: Final = "ordered-cpus"
CPU_REQUEST: Final = "cpu-request"
LENT_SHARES: Final = "lent-shares"
LENT_QUOTA: Final = "lent-quota"
INIT: Final = "init-container"
EVEN_PARTS: Final = "even-parts"
ONE_SOCKET: Final = "one-socket"

USED: Final[Mapping[str, Callable[[Wish], str]]] = MappingProxyType(
    {
        ORDERED_CPUS: lambda wish: cpuset.render(wish.cpus_ordered) or "CPUs chosen by the plugin",
        CPU_REQUEST: lambda wish: str(wish.cpu_milli or "the request by the kubelet's cpu shares"),
        INIT: lambda wish: "an init container" if wish.init else "a container like any other",
        EVEN_PARTS: lambda wish: "equal to the CPU" if wish.evenly else "equal to the core",
        ONE_SOCKET: lambda wish: (
            "one if possible" if wish.one_socket else "one, or as many as numa-count needs"
        ),
        LENT_SHARES: lambda wish: f"shares {wish.knobs.shares}",
        LENT_QUOTA: lambda wish: f"quota {wish.knobs.quota}" if wish.knobs.quota else "no quota",
    }
)
"""Keys that only other vocabularies have, with the text of the value that a wish has for each."""

DOCUMENTS_KEPT: Final = 8
"""Parsed annotations in the cache: as many as one pod can have. All of them together take 2 MiB."""

MAX_TEXT: Final = 4096
"""Characters of one inner value: more than a CPU list of every second CPU of a 768-CPU machine."""


class Handling(StrEnum):
    """The treatment of a foreign key; `docs/vocabularies.md` gives the reasons."""

    HONOURED = "honoured"
    MAPPED = "mapped"
    IGNORED = "ignored"


Fit = Callable[[Any, gate.Subject], Any]
"""Return the value that a subject gets, None for no value; raise UnfitError if it must not have it."""


class Meaning(NamedTuple):
    """The meaning of a foreign key.

    key: our key for it.
    parse: return the value of a text, None for no value; raise ValueError, or UnfitError with its own text.
    allowed: the allowed values, in words.
    fit: a check of its own; None for the gate's check of our key.
    numbers: whether a JSON number is allowed as well as a text.
    """

    key: str
    parse: Callable[[str], Any]
    allowed: str
    fit: Fit | None = None
    numbers: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """One value for one of our keys.

    key: our key.
    name: the foreign key as written.
    text: its value as written.
    source: "annotation" or "label".
    value: the value that was read.
    problem: the allowed values in words, if the text could not be read.
    fit: a check of its own; None for the gate's check of our key.
    """

    key: str
    name: str
    text: str
    source: str
    value: Any = None
    problem: str = ""
    fit: Fit | None = None

    def judged(self, subject: gate.Subject) -> Any:
        """Return the value that a subject gets, None for no value; raise UnfitError if it must not have it."""
        if self.problem:
            raise gate.UnfitError(FindingKind.INVALID, self.problem)
        if self.fit is not None:
            return self.fit(self.value, subject)
        return keys.judge(self.key, self.value, subject) if self.key in keys.KEYS else self.value


@dataclass(slots=True)
class Claims:
    """The claims about one container by key, in their order, and findings about unreadable annotations."""

    by_key: dict[str, list[Claim]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def take(self, meaning: Meaning, name: str, value: object, source: str = "annotation") -> bool:
        """Add one value as a claim and return whether it could be read.

        An unreadable value is a claim too, so that it is reported when its key is judged.
        """
        try:
            found, problem = meaning.parse(_text(value, numbers=meaning.numbers)), ""
        except gate.UnfitError as unfit:
            found, problem = None, unfit.allowed
        except ValueError:
            # a boolean or number is shown as the text that is allowed, without its quotes
            found, problem = (
                None,
                f"{'' if isinstance(value, str) else 'a text in quotes: '}{meaning.allowed}",
            )
        if found is not None or problem:
            claim = Claim(
                key=meaning.key,
                name=name,
                text=as_shown(value),
                source=source,
                value=found,
                problem=problem,
                fit=meaning.fit,
            )
            self.by_key.setdefault(meaning.key, []).append(claim)
        return not problem

    def json_of(self, name: str, text: str, example: str) -> Mapping[str, Any]:
        """Return the JSON object of an annotation; an empty object, and a finding, if it has none."""
        found = _object(text)
        if found is None:
            self.refuse(name, text, example)
        return found or {}

    def refuse(self, name: str, text: str, example: str) -> None:
        """Note an annotation that has no effect."""
        allowed = f"JSON such as {example}"
        self.findings.append(Finding(FindingKind.INVALID, shown(name), shown(text), allowed, "nothing"))


def as_shown(value: object) -> str:
    """Return a value as text. Objects and lists are only named: they may be as long as an annotation."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if value is None or isinstance(value, int | float) else "an object or a list"


def as_ours(key: str, fit: Fit | None = None) -> Meaning:
    """Return the meaning of a foreign key with the same grammar as our key."""
    return Meaning(key, lambda text: keys.read(key, text), keys.KEYS[key].allowed, fit)


def one_of(key: str, values: dict[str, Any], fit: Fit | None = None) -> Meaning:
    """Return the meaning of a foreign key with a fixed list of values."""

    def parse(text: str) -> Any:
        if text not in values:
            raise ValueError
        return values[text]

    return Meaning(key, parse, "one of " + ", ".join(values), fit)


def child(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the inner object of a name, empty if it is missing; raise ValueError if it is no object."""
    inner = found.get(name)
    if inner is not None and not isinstance(inner, dict):
        raise ValueError(f"{name} is no object")
    return inner or {}


def _text(value: object, *, numbers: bool) -> str:
    if numbers and type(value) is int:
        value = str(value)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError("no text, or too long a one")
    return value


@lru_cache(maxsize=DOCUMENTS_KEPT)
def _object(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object of a text, None if it has none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
