"""The last audit records, kept as the bytes that went out: `/v1/audit` answers from them.

Lending and placement have a ring each. The fast loop writes for as long as the node is busy; in one ring its records
pushed out every admission within hours.

A rendered line of 550 bytes costs 590 in memory; the same record as a dict costs four times that. So lines
are kept, and parsed again only when a client asks. The hooks never take this lock: the audit's own
thread appends, and HTTP threads copy references.
"""

import heapq
import json
from collections import deque
from itertools import islice
from threading import Lock
from typing import Any, Final, Literal

MAX_LIMIT: Final = 1000
"""Most records in one answer: half a megabyte, a few milliseconds of the interpreter."""

RingName = Literal["lending", "placement"]


class _Ring:
    """Holds `size` lines at most; the oldest leave first.

    `lost_before`: lines below this seq are gone, 0 while all of them are held.
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
    """Both rings, of `size` lines each; asked as if they were one."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self._rings: dict[RingName, _Ring] = {"lending": _Ring(size), "placement": _Ring(size)}
        self._newest = 0

    def resize(self, size: int) -> None:
        """Hold so many lines in each ring from now on."""
        with self._lock:
            self._rings = {name: ring.resized(size) for name, ring in self._rings.items()}

    def append(self, name: RingName, seq: int, line: bytes) -> None:
        """Keep one line; `seq` rises from call to call."""
        with self._lock:
            self._rings[name].append(seq, line)
            self._newest = seq

    def query(self, since: int = 0, pod: str = "", limit: int = 100) -> dict[str, Any]:
        """Return records with seq > since, oldest first, and in `next` the value to pass as `since` then.

        `pod` is "NAME" or "NAMESPACE/NAME", "" for all. A `since` that was never reached comes from before
        a restart of the daemon, where seq began at 1 again, and counts as 0. `lost_before`: for each ring the seq below
        which its records are gone, 0 while it has all of them.
        """
        with self._lock:
            held = [list(ring.lines) for ring in self._rings.values()]
            lost = {name: ring.lost_before for name, ring in self._rings.items()}
            newest = self._newest
        if since > newest:
            since = 0
        lines = heapq.merge(*held)
        records = (json.loads(line) for seq, line in lines if seq > since and _may_match(line, pod))
        wanted = (record for record in records if _matches(record, pod))
        page = list(islice(wanted, max(0, min(limit, MAX_LIMIT))))
        return {"records": page, "next": page[-1]["seq"] if page else since, "lost_before": lost}


def _may_match(line: bytes, pod: str) -> bool:
    """Spare most lines the parsing; a nested "pod" may still deceive this, `_matches` decides."""
    name = pod.rpartition("/")[2]
    return not pod or f'"pod": {json.dumps(name)}'.encode() in line


def _matches(record: dict[str, Any], pod: str) -> bool:
    namespace, slash, name = pod.rpartition("/")
    return not pod or (record["pod"] == name and (not slash or record["namespace"] == namespace))
