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

_SCALES: Final = {
    "cores": 1000.0,
    "core": 1000.0,
    "s": 1.0,
    "ms": 1e-3,
    "bytes": 1.0,
    "": 1.0,
    "KiB": 1024.0,
    "MiB": 1024.0**2,
    "GiB": 1024.0**3,
}
"""What one unit of a sentence is worth in the unit of `inputs`."""


def malformed(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each record whose `because` has another form, or a figure that `inputs` lacks."""
    for record in records:
        because, inputs = record["because"], record.get("inputs", {})
        if "details" in inputs:
            continue  # cut off
        name = f"{record['event']} {record['reason']}"
        found = FORM.fullmatch(because)
        if found is None:
            yield f"{name}: not `<what was done>: <cause> (figures)`: {because}"
            continue
        for figure in (found["figures"] or "").split(", "):
            key, is_figure, value = figure.partition("=")
            if is_figure and not _is_among(inputs, key, value):
                yield f"{name}: {figure!r} is not in the inputs: {because} {inputs}"


def _is_among(inputs: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether a figure of a sentence is one of the inputs, within the digits that it shows."""
    keys = (name, *(f"{name}_{unit}" for unit in ("milli", "bytes", "s", "cpus")))
    return any(_agrees(inputs[key], value) for key in keys if key in inputs)


def _agrees(known: Any, value: str) -> bool:
    if not isinstance(known, int | float):
        return value == (known or "none")
    number, _, unit = value.partition(" ")
    return abs(float(number) * _SCALES[unit] - known) <= max(0.006 * _SCALES[unit], 1e-5 * abs(known))


def broken(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each record that is too long, or has no figures."""
    for record in records:
        name = f"{record['event']} {record['reason']}"
        if len(record["because"]) > LONGEST_SENTENCE:
            yield f"{name}: a sentence of {len(record['because'])} characters: {record['because']}"
        if record["event"] in EXPLAINED and not record.get("inputs"):
            yield f"{name}: no inputs: {record['because']}"
