"""The rules that hold for every record of the audit, in every test."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from nri_coloc.service.audit import LONGEST_SENTENCE

EXPLAINED: Final = frozenset(
    {
        *("container.admit", "container.update", "pod.limit", "path.limit", "pool.resize"),
        *("reclaim.suppress", "reclaim.grow", "reclaim.memory", "write.failed", "admin.call"),
    }
)
"""Events whose records have the figures of the decision in `inputs`."""


def sentence_of(record: Mapping[str, Any]) -> str:
    """Return the whole sentence of a record, also where `because` is only its beginning."""
    return str(record.get("inputs", {}).get("details") or record.get("because", ""))


def lines(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of an audit file, without lines that a kill or a full disk has torn."""
    for line in text.split(b"\n"):
        with suppress(ValueError):
            yield json.loads(line)


FORM: Final = re.compile(r"(?P<done>[^:]+): (?P<cause>.+?)(?: \((?P<figures>[^()]*=[^()]*)\))?", re.DOTALL)
"""`<what was done>: <cause> (name=value unit, …)`"""

_AT_THE_END: Final = re.compile(r"\(([^()]*=[^()]*)\)$")
"""The figures of a sentence."""

_SCALES: Final = {
    "cores": 1000.0,
    "core": 1000.0,
    "s": 1.0,
    "ms": 1e-3,
    "%": 1e-2,
    "bytes": 1.0,
    "": 1.0,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
    "MiB/s": 1024.0**2,
}
"""What one unit of a sentence is worth in the unit of `inputs`."""

_ROUNDED: Final = {"MiB/s": 0.06}
"""The largest difference between a figure and its input, in the unit of the sentence; 0.006 otherwise."""


def malformed(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each record whose `because` has another form, or a figure that `inputs` lacks."""
    for record in records:
        name = f"{record['event']} {record['reason']}"
        yield from (f"{name}: {one}" for one in mistakes(record["because"], record.get("inputs", {})))


def mistakes(because: str, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if `because` has another form, and one for each of its figures that `inputs` lacks."""
    if "details" in inputs:
        return  # cut off
    if FORM.fullmatch(because) is None:
        yield f"not `<what was done>: <cause> (figures)`: {because}"
    yield from unknown_figures(because, inputs)


def unknown_figures(because: str, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each figure at the end of `because` that `inputs` lacks, or has with another value."""
    found = _AT_THE_END.search(because)
    for figure in found[1].split(", ") if found else ():
        name, is_figure, value = figure.partition("=")
        if is_figure and not _is_among(inputs, name, value):
            yield f"{figure!r} is not in the inputs: {because} {inputs}"


def _is_among(inputs: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether a figure of a sentence is one of the inputs, within the digits that it shows."""
    keys = (name, *(f"{name}_{unit}" for unit in ("milli", "bytes", "s", "cpus")))
    return any(_agrees(inputs[key], value) for key in keys if key in inputs)


def _agrees(known: Any, value: str) -> bool:
    if known is None:
        return value in ("none", "unknown")
    if not isinstance(known, int | float) or isinstance(known, bool):
        return value == (str(known) or "none")
    number, _, unit = value.partition(" ")
    if unit not in _SCALES or not re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?", number):
        return False
    most = max(_ROUNDED.get(unit, 0.006) * _SCALES[unit], 1e-5 * abs(known))
    return abs(float(number) * _SCALES[unit] - known) <= most


def broken(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each record that is too long, or has no figures."""
    for record in records:
        name = f"{record['event']} {record['reason']}"
        if len(record["because"]) > LONGEST_SENTENCE:
            yield f"{name}: a sentence of {len(record['because'])} characters: {record['because']}"
        if record["event"] in EXPLAINED and not record.get("inputs"):
            yield f"{name}: no inputs: {record['because']}"
