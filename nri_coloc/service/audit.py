"""The audit: one JSON object a line for everything that was decided (DESIGN 4.6).

Knows the fields of a record and their order, and how records travel: `submit` runs on the hook's thread,
after the reply has left, and only appends to a bounded queue; the thread `audit` renders and writes. It does
not know what is worth a record: callers do.

The subtle thing is who waits for whom. A hook may wait for another submitter (a few hundred nanoseconds)
but never for the audit's thread, which therefore takes no lock that `submit` takes: `deque` is safe for
an appender and a taker by itself. Losing is allowed, silence is not: `seq` is given at submission, so what
fell out of the queue leaves a gap, and the next record says in `dropped` how wide it is.
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
from nri_coloc.core.value import value
from nri_coloc.core.workload import Pod
from nri_coloc.service.audit_rings import KeptRecords, LineWriter, Lost, RingName, Rings

QUEUE_BOUND: Final = 65536
"""Records that may wait to be written: 65 sweeps over 1000 containers; about 60 MB at the very worst."""

QUIET_S: Final = 0.01
PATIENCE_S: Final = 0.5
ENOUGH: Final = 4096
"""Records are written when no new one came for QUIET_S; in a storm of starts, which brings several records a hook,
when the oldest has waited for PATIENCE_S or ENOUGH of them wait. Rendering takes the interpreter's lock for
20 µs a record: put off, it hits few hooks; done at once, it was 15 µs on the median of every CreateContainer."""

BURST: Final = 2
STEP_ASIDE_S: Final = 5e-4
"""The pause after so many records, for the hooks. Letting go of the interpreter's lock in a write is not enough: it is
taken back before a hook's thread has woken. So a hook that comes in a burst waits for all of it, and one of eight
records was what the p99 of a CreateContainer in a storm came from; 50 µs between two kept the audit in the way of every
hook (decision 25)."""

HASTE: Final = 1024
"""A burst is one record longer for each so many that wait: these are memory, a kilobyte each."""

CLOSE_S: Final = 1.0
"""Seconds for flushing at a shutdown; SIGTERM promises an exit within two seconds."""

LONGEST_SENTENCE: Final = 160
"""Characters of a `because`: one look at a terminal."""

LONGEST_DETAILS: Final = 1000
"""Characters of the whole sentence beside a shortened one: values of annotations, paths and CPU lists have no end."""

# JSON as ASCII (the default): pod names and annotation values are hostile input, and escaped they can
# neither start a line nor steer a terminal. NaN is not JSON; `_render` deals with the refusal.
_to_json: Final = json.JSONEncoder(allow_nan=False, default=repr).encode


@value
class Record:
    """One thing that happened, before it has a place in the sequence; "" and {} are "does not apply".

    `latency_us` is None where no hook was answered. `extra` holds fields beyond the contract's; it
    cannot replace one of those.
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


def record_of(
    decision: Decision,
    state: NodeState,
    decision_id: str,
    latency_us: int | None,
    previous: NodeState | None = None,
) -> Record:
    """Put a decision in the audit's words; `previous` names pods that the decision's event removed."""
    return worded(decision, pod_of(decision, state, previous), decision_id, latency_us)


def worded(decision: Decision, pod: Pod, decision_id: str, latency_us: int | None) -> Record:
    """Put a decision about a known pod in the audit's words."""
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
    """Return the pod that a decision is about, an empty one for a decision about none."""
    pod_id = decision.subject.container.pod_id if decision.subject else decision.pod_id
    place = state.pods.get(pod_id) or (previous.pods.get(pod_id) if previous else None)
    return place.pod if place else Pod(pod_id)


def _named(knobs: Knobs) -> dict[str, KnobValue]:
    # most decisions have no `before`: naming fourteen absent knobs costs 1.5 µs on the hook's thread
    return {} if knobs is NO_KNOBS else knobs.named()


class AuditLog:
    """Takes records from any thread, writes them on its own; nothing here raises or blocks a submitter.

    `kept`: the records that explain the present, however old.
    """

    def __init__(
        self,
        fd: int,
        ring_size: int,
        lost: Lost,
        clock: Callable[[], int] = time.time_ns,
        queue_bound: int = QUEUE_BOUND,
    ) -> None:
        self._queue: deque[tuple[int, int, Record | Callable[[], Record]]] = deque(maxlen=queue_bound)
        self._submitters = Lock()
        self._submitted = 0
        self._written = 0
        self._clock = clock
        self._lost = lost
        self._lines = LineWriter(fd, lost)
        self._rings = Rings(ring_size)
        self.kept = KeptRecords()
        self._wake = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread; what was submitted before is written first."""
        self._thread.start()

    def submit(self, record: Record | Callable[[], Record]) -> int:
        """Queue one record, or what makes it, and return its seq; the oldest one falls out of a full queue.

        Making a record costs a hook's thread 6 µs; left to the audit's own thread it costs the next hook nothing.
        """
        with self._submitters:
            self._submitted = seq = self._submitted + 1
            self._queue.append((seq, self._clock(), record))
        if not self._wake.is_set():
            self._wake.set()
        return seq

    def keep(self, records: int) -> None:
        """Answer from the last `records` of placement, and as many of lending, from now on."""
        self._rings.resize(records)

    def query(self, since: int = 0, pod: str = "", limit: int = 100) -> dict[str, Any]:
        """Answer `/v1/audit`; see `Rings.query`. For a pod, `kept` has the records that explain it and the pools."""
        found = self._rings.query(since, pod, limit)
        return {**found, "kept": self.kept.of_pod(pod)} if pod else found

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Write what waits, within the bound; False when something had to be left behind."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._queue and not self._thread.is_alive()

    def drain(self) -> None:
        """Write everything that waits; the audit's thread only."""
        # The flag falls only after a pause without records, so that in a storm no hook pays for waking us;
        # and before the queue is looked at again: a record that comes in between is found below.
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

    def _made(self, make: Callable[[], Record]) -> Record | None:
        """Make a record that was left to us; whose author failed costs this one record."""
        try:
            return make()
        except Exception:  # noqa: BLE001 - its author's mistake may not end the audit
            self._lost("unrenderable", 1)
            return None

    def _render(self, fields: dict[str, Any]) -> bytes:
        """Render one record; one whose `extra` is no JSON goes out with the contract's fields alone."""
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
    """Lay a record out in the order of the contract; what only some records have comes last."""
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
    inputs = {**extra.get("inputs", {}), "details": _cut(because, LONGEST_DETAILS)}
    return _shortened(because), {**extra, "inputs": inputs}


def _shortened(sentence: str) -> str:
    """Return the first clauses of a sentence that fit, without those that follow them."""
    head = sentence[: LONGEST_SENTENCE + 1]
    clauses = head.rpartition("; ")[0]
    return clauses or _cut(sentence, LONGEST_SENTENCE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def timestamp(at_ns: int) -> str:
    """Write nanoseconds since 1970 as RFC 3339, UTC, cut to the microsecond."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"
