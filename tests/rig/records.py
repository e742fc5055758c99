"""The rules that hold for every record of the audit, in every test."""

import json
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


def broken(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each record that is too long, or has no figures."""
    for record in records:
        name = f"{record['event']} {record['reason']}"
        if len(record["because"]) > LONGEST_SENTENCE:
            yield f"{name}: a sentence of {len(record['because'])} characters: {record['because']}"
        if record["event"] in EXPLAINED and not record.get("inputs"):
            yield f"{name}: no inputs: {record['because']}"
