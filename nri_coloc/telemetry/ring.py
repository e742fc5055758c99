"""The last audit records, kept as the bytes that went out: what `/v1/audit` answers from.

A rendered line of 550 bytes costs 590 in memory; the same record as a dict costs four times that. So lines
are kept, and parsed again only when somebody asks. The hooks never take this lock: the audit's own
thread appends, and HTTP threads copy references.
"""

import json
from collections import deque
from itertools import islice
from threading import Lock
from typing import Any, Final

MAX_LIMIT: Final = 1000
"""Most records in one answer: half a megabyte, a few milliseconds of the interpreter."""


class Ring:
    """Holds `size` lines at most; the oldest leave first."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self._lines: deque[tuple[int, bytes]] = deque(maxlen=size)
        self._newest = 0

    def resize(self, size: int) -> None:
        """Hold so many lines from now on."""
        with self._lock:
            self._lines = deque(self._lines, maxlen=size)

    def append(self, seq: int, line: bytes) -> None:
        """Keep one line; `seq` rises from call to call."""
        with self._lock:
            self._lines.append((seq, line))
            self._newest = seq

    def query(self, since: int = 0, pod: str = "", limit: int = 100) -> dict[str, Any]:
        """Return records with seq > since, oldest first, and in `next` the value to pass as `since` then.

        `pod` is "NAME" or "NAMESPACE/NAME", "" for all. A `since` that was never reached comes from before
        a restart of the daemon, where seq began at 1 again, and counts as 0.
        """
        with self._lock:
            lines = list(self._lines)
            newest = self._newest
        if since > newest:
            since = 0
        records = (json.loads(line) for seq, line in lines if seq > since and _may_match(line, pod))
        wanted = (record for record in records if _matches(record, pod))
        page = list(islice(wanted, max(0, min(limit, MAX_LIMIT))))
        return {"records": page, "next": page[-1]["seq"] if page else since}


def _may_match(line: bytes, pod: str) -> bool:
    """Spare most lines the parsing; a nested "pod" may still deceive this, `_matches` decides."""
    name = pod.rpartition("/")[2]
    return not pod or f'"pod": {json.dumps(name)}'.encode() in line


def _matches(record: dict[str, Any], pod: str) -> bool:
    namespace, slash, name = pod.rpartition("/")
    return not pod or (record["pod"] == name and (not slash or record["namespace"] == namespace))
