"""Of each live container, pod and pool the admission and the last decision on each value, as the lines that went out.

The rings hold the newest records; here are those that explain the present, however old they are. Entries outlive the
daemon by a file; losing it costs explaining only. A record that decides for the same value again is no new decision:
so an admission by this process does not replace that by the previous one.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from threading import Lock
from typing import Any, Final

from nri_coloc.model.reasons import AuditEvent, Reason

ADMISSION: Final = ""
"""The key of an admission among the values of a container."""

MOST_SUBJECTS: Final = 8192
"""Containers, pods and pools with an entry; beyond it the oldest entries go."""

MOST_BYTES: Final = 16 * 1024
"""Of one line; a longer one is not kept here."""

MOST_CHARACTERS: Final = 64 << 20
"""Of a file that is read."""

_HEAD: Final = '{"nri-coloc-records": 1}'

Line = tuple[Any, bytes]
"""A value, and the line of the record that decided for it."""


class KeptRecords:
    """`take` is for the audit's thread, all else for any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[str, dict[str, Line]] = {}
        self._changed = False

    def take(self, fields: Mapping[str, Any], line: bytes) -> None:
        """Learn from a record that was written."""
        subject = _subject(fields)
        if not subject or len(line) > MOST_BYTES or fields["reason"] == Reason.REFUSED_STRICT:
            return
        with self._lock:
            if fields["event"] == AuditEvent.RELEASE:
                self._changed |= self._entries.pop(subject, None) is not None
                return
            decided = self._news(subject, fields)
            if decided:
                self._note(subject, decided, line)

    def _news(self, subject: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a record decides for; a second admission repeats what its pool's record decided."""
        decided = dict(fields["after"])
        if fields["event"] != AuditEvent.ADMIT:
            return decided
        if ADMISSION in self._entries.get(subject, {}):
            of_pool = self._entries.get(f"pool {fields['pool']}", {})
            return {k: value for k, value in decided.items() if k not in of_pool or of_pool[k][0] != value}
        return {**decided, ADMISSION: None}

    def _note(self, subject: str, decided: Mapping[str, Any], line: bytes) -> None:
        entry = self._entries.setdefault(subject, {})
        for name, value in decided.items():
            if name not in entry or entry[name][0] != value:
                entry[name] = (value, line)
                self._changed = True
        while len(self._entries) > MOST_SUBJECTS:
            del self._entries[next(iter(self._entries))]

    def of_pod(self, pod: str) -> list[dict[str, Any]]:
        """Return the records kept of a pod ("NAME" or "NAMESPACE/NAME") and of all pools, oldest first."""
        namespace, _, name = pod.rpartition("/")
        with self._lock:
            lines = {line: None for entry in self._entries.values() for _, line in entry.values()}
        mark = f'"pod": {json.dumps(name)}'.encode()
        records = [json.loads(line) for line in lines if mark in line or b'"pod": ""' in line]
        wanted = [
            r for r in records if not r["pod"] or (r["pod"] == name and namespace in ("", r["namespace"]))
        ]
        return sorted(wanted, key=lambda record: str(record["ts"]))

    def prune(self, containers: Collection[str], pods: Collection[str]) -> None:
        """Drop the entries of containers (ids) and pods (uids) that do not live any more."""
        with self._lock:
            gone = [subject for subject in self._entries if not _lives(subject, containers, pods)]
            for subject in gone:
                del self._entries[subject]
            self._changed |= bool(gone)

    def changed(self) -> bool:
        """Whether anything changed since this was asked last."""
        with self._lock:
            changed, self._changed = self._changed, False
            return changed

    def text(self) -> str:
        """Return everything as a file's text."""
        with self._lock:
            entries = {subject: dict(entry) for subject, entry in self._entries.items()}
        return "\n".join(
            (_HEAD, *(row for subject, entry in entries.items() for row in _rows(subject, entry)), "")
        )

    def load(self, text: str) -> bool:
        """Take over what a previous process kept; False for a text that is no such file. Broken rows are left out."""
        head, _, rest = text.partition("\n")
        if head != _HEAD:
            return False
        for row in rest.splitlines():
            try:
                found = json.loads(row)
                subject, record = str(found["subject"]), found["record"]
                decided = {name: record["after"].get(name) for name in map(str, found["values"])}
                line = json.dumps(record).encode()
                if subject == _subject(record) and record["ts"]:
                    with self._lock:
                        self._note(subject, decided, line)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
        return True


def _subject(fields: Mapping[str, Any]) -> str:
    """Return whom a record's values belong to: a container, a pod, or a pool; "" for none of them."""
    if fields["container_id"]:
        return f"container {fields['container_id']}"
    if fields["pod_uid"]:
        return f"pod {fields['pod_uid']}"
    return f"pool {fields['pool']}" if fields["pool"] and not fields["pod"] else ""


def _lives(subject: str, containers: Collection[str], pods: Collection[str]) -> bool:
    kind, _, name = subject.partition(" ")
    if kind == "container":
        return name in containers
    return kind != "pod" or name in pods


def _rows(subject: str, entry: Mapping[str, Line]) -> Iterator[str]:
    """Write each line once, with the values that it decided for."""
    values: dict[bytes, list[str]] = {}
    for name, (_, line) in entry.items():
        values.setdefault(line, []).append(name)
    for line, names in values.items():
        yield f'{{"subject": {json.dumps(subject)}, "values": {json.dumps(names)}, "record": {line.decode()}}}'
