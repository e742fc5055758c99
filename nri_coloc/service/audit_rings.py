"""Keep audit records as written bytes: the latest records, and the records that explain the present values.

Lending and placement have a ring each. The fast loop writes while the node is busy; in a common ring its records
displaced every admission within hours. For each live container, pod and pool, the admission and the last decision on
each value are kept outside the rings.

A rendered line of 550 bytes costs 590 in memory; the same record as a dict costs four times that. So lines are kept,
and parsed only when a client asks. Hooks never take the lock of a ring: the audit's own thread appends, and HTTP
threads copy references.
"""

import errno
import heapq
import json
import os
import select
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Final, Literal

from nri_coloc.core.reasons import AuditEvent, Reason

MAX_LIMIT: Final = 1000
"""Records in one answer at most: usually half a megabyte, a few milliseconds of the interpreter."""

MAX_ANSWER: Final = 1 << 20
"""Bytes of the records in one answer at most, and of its kept records: a record may be ten times the usual one."""

RingName = Literal["lending", "placement"]


class _Ring:
    """Holds at most `size` lines; the oldest line is dropped first.

    lost_before: lines below this seq were dropped, 0 while none was.
    """

    def __init__(self, size: int) -> None:
        self.lines: deque[tuple[int, bytes]] = deque(maxlen=size)
        self.lost_before = 0

    def append(self, seq: int, line: bytes) -> None:
        if len(self.lines) == self.lines.maxlen:
            self.lost_before = self.lines[0][0] + 1
        self.lines.append((seq, line))

    def resized(self, size: int) -> "_Ring":
        ring = _Ring(size)
        ring.lost_before = self.lost_before
        for seq, line in self.lines:
            ring.append(seq, line)
        return ring


class Rings:
    """Both rings, of `size` lines each, queried as one."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self._rings: dict[RingName, _Ring] = {"lending": _Ring(size), "placement": _Ring(size)}
        self._newest = 0

    def resize(self, size: int) -> None:
        """Set the number of lines in each ring."""
        with self._lock:
            self._rings = {name: ring.resized(size) for name, ring in self._rings.items()}

    def append(self, name: RingName, seq: int, line: bytes) -> None:
        """Keep one line; `seq` rises from call to call."""
        with self._lock:
            self._rings[name].append(seq, line)
            self._newest = seq

    def query(self, since: int = 0, pod: str = "", limit: int = 100) -> dict[str, Any]:
        """Return records with seq > since, oldest first; `next` is the `since` of the following query.

        more: whether there are more records. `MAX_ANSWER` may end the answer before `limit` does.

        `pod` is "NAME" or "NAMESPACE/NAME", "" for all. A `since` above the newest seq is from before a restart, after
        which seq begins at 1; it counts as 0. `lost_before`: for each ring, the seq below which records were dropped, 0
        while none was.
        """
        with self._lock:
            held = [list(ring.lines) for ring in self._rings.values()]
            lost = {name: ring.lost_before for name, ring in self._rings.items()}
            newest = self._newest
        if since > newest:
            since = 0
        lines, mark = heapq.merge(*held), _mark(pod) if pod else b""
        records = ((json.loads(line), len(line)) for seq, line in lines if seq > since and mark in line)
        wanted = ((record, size) for record, size in records if _matches(record, pod))
        page, more = _within_answer(wanted, min(limit, MAX_LIMIT))
        after = page[-1]["seq"] if page else since
        return {"records": page, "next": after, "more": more, "lost_before": lost}


def _within_answer(
    records: Iterable[tuple[dict[str, Any], int]], most: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the first records that fit into an answer together, and whether there are more.

    records: each with its bytes.
    most: the most records of the answer.
    """
    page: list[dict[str, Any]] = []
    total = 0
    for record, size in records:
        total += size
        if len(page) >= most or (page and total > MAX_ANSWER):
            return page, True
        page.append(record)
    return page, False


def _mark(pod: str) -> bytes:
    """Return the part of each line about a pod that names it. The namespace stands before the name."""
    namespace, slash, name = pod.rpartition("/")
    of_namespace = f'"namespace": {json.dumps(namespace)}, ' if slash else ""
    return f'{of_namespace}"pod": {json.dumps(name)}'.encode()


def _matches(record: dict[str, Any], pod: str) -> bool:
    namespace, slash, name = pod.rpartition("/")
    return not pod or (record["pod"] == name and (not slash or record["namespace"] == namespace))


ADMISSION: Final = ""
"""The key of the admission among a container's values."""

MOST_SUBJECTS: Final = 8192
"""Containers, pods and pools with an entry; above it the oldest entries are dropped."""

MOST_BYTES: Final = 16 * 1024
"""Bytes of one line; a longer line is not kept."""

MOST_CHARACTERS: Final = 64 << 20
"""Characters of a file that is read."""

_HEAD: Final = '{"nri-coloc-records": 1}'

Line = tuple[Any, bytes]
"""A value, and the line of the record that decided for it."""


class KeptRecords:
    """The records that explain the present values. `take` is for the audit's thread, all other methods for any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[str, dict[str, Line]] = {}
        self._changed = False

    def take(self, fields: Mapping[str, Any], line: bytes) -> None:
        """Update the entries with a written record."""
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
        """Return the values that a record decides; a second admission only repeats the values of its pool's record."""
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
        """Return the kept records of a pod ("NAME" or "NAMESPACE/NAME") and of all pools, oldest first.

        If not all fit into an answer, the newest of the pod itself come first, then the newest of pools.
        """
        namespace, _, name = pod.rpartition("/")
        with self._lock:
            lines = {line: None for entry in self._entries.values() for _, line in entry.values()}
        mark = _mark(pod)
        records = [(json.loads(line), len(line)) for line in lines if mark in line or b'"pod": ""' in line]
        wanted = [
            (r, size)
            for r, size in records
            if not r["pod"] or (r["pod"] == name and namespace in ("", r["namespace"]))
        ]
        wanted.sort(key=lambda each: (bool(each[0]["pod"]), str(each[0]["ts"])), reverse=True)
        page, _ = _within_answer(wanted, len(wanted))
        return sorted(page, key=lambda record: str(record["ts"]))

    def prune(self, containers: Collection[str], pods: Collection[str], pools: Collection[str]) -> None:
        """Drop the entries of all other containers, pods and pools.

        containers, pods, pools: live container ids, pod uids and names. A pool's group may be named by a pod's label.
        """
        living = {"container": containers, "pod": pods, "pool": pools}
        with self._lock:
            gone = [subject for subject in self._entries if not _lives(subject, living)]
            for subject in gone:
                del self._entries[subject]
            self._changed |= bool(gone)

    def changed(self) -> bool:
        """Return whether an entry changed since the last call."""
        with self._lock:
            changed, self._changed = self._changed, False
            return changed

    def text(self) -> str:
        """Return all entries as a file's text."""
        with self._lock:
            entries = {subject: dict(entry) for subject, entry in self._entries.items()}
        return "\n".join(
            (_HEAD, *(row for subject, entry in entries.items() for row in _rows(subject, entry)), "")
        )

    def load(self, text: str) -> bool:
        """Add the entries of the previous process, without broken rows; return False if the text is no such file."""
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
    """Return the owner of a record's values: a container, a pod or a pool; "" for none."""
    if fields["container_id"]:
        return f"container {fields['container_id']}"
    if fields["pod_uid"]:
        return f"pod {fields['pod_uid']}"
    return f"pool {fields['pool']}" if fields["pool"] and not fields["pod"] else ""


def _lives(subject: str, living: Mapping[str, Collection[str]]) -> bool:
    kind, _, name = subject.partition(" ")
    return name in living[kind]


def _rows(subject: str, entry: Mapping[str, Line]) -> Iterator[str]:
    """Yield a row for each line, with the values that it decides."""
    values: dict[bytes, list[str]] = {}
    for name, (_, line) in entry.items():
        values.setdefault(line, []).append(name)
    for line, names in values.items():
        yield f'{{"subject": {json.dumps(subject)}, "values": {json.dumps(names)}, "record": {line.decode()}}}'


PATIENCE_S: Final = 0.5
"""Seconds that the first write to a blocked reader waits; below the second that shutdown grants the audit."""

_CAUSES: Final = {
    errno.EPIPE: "broken_pipe",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EAGAIN: "blocked",
}

LOST_CAUSES: Final = (
    "blocked",
    "broken_pipe",
    "io_error",
    "no_space",
    "overflow",
    "unfollowed",
    "unrenderable",
)
"""Every value of the label `why` of `nri_coloc_audit_lost_total`."""

Lost = Callable[[str, int], None]
"""Called with one of `LOST_CAUSES` and the number of lost records."""


class LineWriter:
    """Writes lines from one thread. It waits `patience_s` seconds for a blocked reader, once per blockage."""

    def __init__(self, fd: int, lost: Lost, patience_s: float = PATIENCE_S) -> None:
        self._fd = fd
        self._lost = lost
        self._patience_ms = int(patience_s * 1000)
        self._stuck = False
        self._torn = False
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, line: bytes) -> bool:
        """Write one line with its newline; return False if it was lost, which is counted."""
        # a partly written line is ended first, so that the next line stays readable
        rest = memoryview(b"\n" + line if self._torn else line)
        while rest:
            taken, cause = self._write_some(rest[: select.PIPE_BUF])
            if cause:
                self._lost(cause, 1)
                return False
            rest = rest[taken:]
            self._torn = len(rest) > 0
        return True

    def _write_some(self, piece: memoryview) -> tuple[int, str]:
        """Return the number of written bytes and "", or 0 and the cause."""
        if not self._poll.poll(0 if self._stuck else self._patience_ms):
            self._stuck = True
            return 0, "blocked"
        self._stuck = False
        try:
            return os.write(self._fd, piece), ""
        except OSError as error:
            return 0, _CAUSES.get(error.errno or 0, "io_error")
