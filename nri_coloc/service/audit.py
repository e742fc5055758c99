"""Write the audit: one JSON object a line for each decision (docs/audit.md).

This module knows the fields of a record and their order; callers decide which events get a record. `submit` runs on
the hook's thread after the reply, and only appends to a bounded queue. The thread `audit` renders and writes.

A hook may wait for another submitter (a few hundred nanoseconds), but never for the audit's thread. So the audit's
thread takes no lock that `submit` takes: a `deque` alone is safe for one appender and one taker. Records may be lost,
but never silently. `seq` is assigned at submission, so a record that fell out of the queue leaves a gap, and the next
record has the size of the gap in `dropped`.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from threading import Event, Lock, Thread
from typing import Any, Final

from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import NO_KNOBS, Knobs, KnobValue
from nri_coloc.core.reasons import AuditEvent, Reason, is_of_lending
from nri_coloc.core.state import NodeState
from nri_coloc.core.texts import cut
from nri_coloc.core.value import value
from nri_coloc.core.workload import Pod
from nri_coloc.service.audit_rings import KeptRecords, LineWriter, Lost, RingName, Rings

QUEUE_BOUND: Final = 65536
"""Records that may wait to be written: 65 sweeps over 1000 containers; about 60 MB at the very worst."""

QUIET_S: Final = 0.01
PATIENCE_S: Final = 0.5
ENOUGH: Final = 4096
"""Records are written after QUIET_S without a new record. While many containers start, with several records a hook,
they are written when the oldest has waited for PATIENCE_S, or when ENOUGH records wait. Rendering takes the
interpreter's lock for 20 µs a record. Delayed rendering affects few hooks; immediate rendering cost 15 µs on the median
of every CreateContainer."""

BURST: Final = 2
STEP_ASIDE_S: Final = 5e-4
"""After BURST records the audit's thread pauses for STEP_ASIDE_S seconds, so that hooks can run. Releasing the
interpreter's lock in a write is not enough: the audit's thread takes it again before a hook's thread wakes. So a hook
waits for the whole burst. Bursts of eight records caused the p99 of CreateContainer during many starts. A pause of
50 µs between two records delayed every hook (decision 25)."""

HASTE: Final = 1024
"""A burst is one record longer for each HASTE waiting records, because a waiting record takes a kilobyte."""

CLOSE_S: Final = 1.0
"""Seconds for flushing at a shutdown; SIGTERM promises an exit within two seconds."""

LONGEST_SENTENCE: Final = 160
"""Characters of a `because`: readable in a terminal."""

LONGEST_DETAILS: Final = 1000
"""Characters of the whole sentence in `details`: annotation values, paths and CPU lists have no limit."""

# JSON as ASCII (the default): pod names and annotation values are hostile input. Escaped they can neither
# start a line nor control a terminal. NaN is not JSON; `_render` handles the error.
_to_json: Final = json.JSONEncoder(allow_nan=False, default=repr).encode


@value
class Record:
    """One event, before it has a sequence number; "" and {} mean "does not apply".

    latency_us: microseconds; None if no hook was answered.
    extra: further fields, which cannot replace a field of the contract.
    """

    event: AuditEvent
    reason: Reason
    because: str
    decision_id: str = ""
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    container_id: str = ""
    class_: str = ""
    pool: str = ""
    before: Mapping[str, KnobValue] = field(default_factory=dict)
    after: Mapping[str, KnobValue] = field(default_factory=dict)
    latency_us: int | None = None
    key: str = ""
    value: str = ""
    allowed: str = ""
    used: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


def worded(decision: Decision, pod: Pod, decision_id: str, latency_us: int | None) -> Record:
    """Return the audit record of a decision about a known pod."""
    subject = decision.subject
    qos = subject.qos if subject else decision.qos
    return Record(
        event=decision.event,
        reason=decision.reason,
        because=decision.because,
        decision_id=decision_id,
        namespace=pod.namespace,
        pod=pod.name,
        pod_uid=pod.uid,
        container=subject.container.name if subject else "",
        container_id=subject.id if subject else "",
        class_=qos.value if qos else "",
        pool=decision.pool or (subject.pool if subject else ""),
        before=_named(decision.before),
        after=_named(decision.after),
        latency_us=latency_us,
        key=decision.key,
        value=decision.value,
        allowed=decision.allowed,
        used=decision.used,
    )


def pod_of(decision: Decision, state: NodeState, previous: NodeState | None) -> Pod:
    """Return the pod of a decision; an empty pod if the decision is about no pod."""
    pod_id = decision.subject.container.pod_id if decision.subject else decision.pod_id
    place = state.pods.get(pod_id) or (previous.pods.get(pod_id) if previous else None)
    return place.pod if place else _NO_POD


_NO_POD: Final = Pod("")


def _named(knobs: Knobs) -> dict[str, KnobValue]:
    # most decisions have no `before`: naming fourteen absent knobs costs 1.5 µs on the hook's thread
    return {} if knobs is NO_KNOBS else knobs.named()


Follower = Callable[[Mapping[str, Any]], None]
"""Takes the fields of a record after it was written, on the audit's thread."""


class AuditLog:
    """Takes records from any thread and writes them on its own thread. It never raises or blocks a submitter.

    kept: the records that explain the present values, of any age.
    followers: get each record after it was written.
    """

    def __init__(
        self,
        fd: int,
        ring_size: int,
        lost: Lost,
        clock: Callable[[], int] = time.time_ns,
        queue_bound: int = QUEUE_BOUND,
        *,
        followers: tuple[Follower, ...] = (),
    ) -> None:
        self._queue: deque[tuple[int, int, Record | Callable[[], Record]]] = deque(maxlen=queue_bound)
        self._submitters = Lock()
        self._submitted = 0
        self._written = 0
        self._clock = clock
        self._lost = lost
        self._followers = followers
        self._lines = LineWriter(fd, lost)
        self._rings = Rings(ring_size)
        self.kept = KeptRecords()
        self._wake = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread; earlier records are written first."""
        self._thread.start()

    def submit(self, record: Record | Callable[[], Record]) -> int:
        """Queue one record, or a function that makes it, and return its seq. A full queue drops its oldest record.

        Making a record costs a hook's thread 6 µs. If the audit's thread makes it, the next hook has no cost.
        """
        with self._submitters:
            self._submitted = seq = self._submitted + 1
            self._queue.append((seq, self._clock(), record))
        if not self._wake.is_set():
            self._wake.set()
        return seq

    def keep(self, records: int) -> None:
        """Set the number of records that `query` can return: as many of placement as of lending."""
        self._rings.resize(records)

    def query(self, since: int = 0, pod: str = "", limit: int = 100) -> dict[str, Any]:
        """Return the body of `/v1/audit` (see `Rings.query`). For a pod, `kept` has the records that explain it."""
        found = self._rings.query(since, pod, limit)
        return {**found, "kept": self.kept.of_pod(pod)} if pod else found

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Write the waiting records within `timeout_s` seconds; return False if some were not written."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._queue and not self._thread.is_alive()

    def drain(self) -> None:
        """Write all waiting records; for the audit's thread only."""
        # The flag is cleared only after a pause without records, so that during many starts no hook pays for a wake-up.
        # It is cleared before the queue is read again: a record submitted in between is found below.
        if not self._queue:
            self._wake.clear()
        in_burst = 0
        for _ in range(len(self._queue)):
            seq, at_ns, record = self._queue.popleft()
            self._write(seq, at_ns, record)
            in_burst += 1
            if in_burst >= BURST + len(self._queue) // HASTE and not self._closing.is_set():
                time.sleep(STEP_ASIDE_S)
                in_burst = 0

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._let_the_storm_pass()
            self.drain()
        self.drain()  # records that came during the turn before

    def _let_the_storm_pass(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._closing.is_set():
            seen = self._submitted
            self._closing.wait(QUIET_S)
            if self._submitted == seen or len(self._queue) > ENOUGH or time.monotonic() > deadline:
                return

    def _write(self, seq: int, at_ns: int, queued: Record | Callable[[], Record]) -> None:
        dropped = seq - self._written - 1
        self._written = seq
        if dropped:
            self._lost("overflow", dropped)
        record = queued if isinstance(queued, Record) else self._made(queued)
        if record is None:
            return
        fields = _fields(record, seq, at_ns, dropped)
        line = self._render(fields)
        self.kept.take(fields, line)
        ring: RingName = "lending" if is_of_lending(record.event, record.reason) else "placement"
        self._rings.append(ring, seq, line)
        self._lines.write(line + b"\n")
        for follower in self._followers:
            self._inform(follower, fields)

    def _inform(self, follower: Follower, fields: dict[str, Any]) -> None:
        """Pass a record on; a follower's error loses this record for it only."""
        try:
            follower(fields)
        except Exception:  # noqa: BLE001 - its author's mistake may not end the audit
            self._lost("unfollowed", 1)

    def _made(self, make: Callable[[], Record]) -> Record | None:
        """Return a record made on this thread; None if its function fails, which loses this record only."""
        try:
            return make()
        except Exception:  # noqa: BLE001 - its author's mistake may not end the audit
            self._lost("unrenderable", 1)
            return None

    def _render(self, fields: dict[str, Any]) -> bytes:
        """Return the line of one record; if its `extra` is no JSON, with the contract's fields only."""
        try:
            return _encode(fields)
        except Exception:  # noqa: BLE001 - `extra` may hold anything; its author's mistake may not end the audit
            self._lost("unrenderable", 1)
            return _encode({name: fields[name] for name in FIELDS if name in fields})


def _encode(fields: dict[str, Any]) -> bytes:
    return _to_json(fields).encode("ascii")


FIELDS: Final = (
    *("seq", "ts", "decision_id", "event", "namespace", "pod", "pod_uid", "container", "container_id"),
    *("class", "pool", "before", "after", "reason", "because", "latency_us"),
    *("key", "value", "allowed", "used", "dropped"),
)
"""Every field of the contract, in the order of a line."""

_ANNOTATION_EVENTS: Final = (AuditEvent.ANNOTATION_INVALID, AuditEvent.ANNOTATION_DENIED)


def _fields(record: Record, seq: int, at_ns: int, dropped: int) -> dict[str, Any]:
    """Return a record's fields in the order of the contract; fields that only some records have come last."""
    because, extra = _within_bounds(record)
    fields: dict[str, Any] = {
        "seq": seq,
        "ts": timestamp(at_ns),
        "decision_id": record.decision_id,
        "event": record.event.value,
        "namespace": record.namespace,
        "pod": record.pod,
        "pod_uid": record.pod_uid,
        "container": record.container,
        "container_id": record.container_id,
        "class": record.class_,
        "pool": record.pool,
        "before": record.before,
        "after": record.after,
        "reason": record.reason.value,
        "because": because,
        "latency_us": record.latency_us,
    }
    if record.event in _ANNOTATION_EVENTS:
        fields |= {"key": record.key, "value": record.value, "allowed": record.allowed, "used": record.used}
    if dropped:
        fields["dropped"] = dropped
    return {**fields, **extra, **fields} if extra else fields


def _within_bounds(record: Record) -> tuple[str, Mapping[str, Any]]:
    """Return a record's sentence, shortened if too long, and its extra fields; `details` has the whole sentence."""
    because, extra = record.because, record.extra
    if len(because) <= LONGEST_SENTENCE:
        return because, extra
    inputs = {**extra.get("inputs", {}), "details": cut(because, LONGEST_DETAILS)}
    return _shortened(because), {**extra, "inputs": inputs}


def _shortened(sentence: str) -> str:
    """Return the first clauses of a sentence, as many as `LONGEST_SENTENCE` allows."""
    head = sentence[: LONGEST_SENTENCE + 1]
    clauses = head.rpartition("; ")[0]
    return clauses or cut(sentence, LONGEST_SENTENCE)


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def timestamp(at_ns: int) -> str:
    """Return nanoseconds since 1970 as RFC 3339 text, UTC, cut to the microsecond."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"
