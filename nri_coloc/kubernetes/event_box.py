"""Take the Events of this node from all threads, and give them to the thread of the companion's connection."""

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from nri_coloc.kubernetes import event_reasons
from nri_coloc.kubernetes.event_reasons import Occurrence
from nri_coloc.kubernetes.node_events import Batch, NodeEvents


class EventBox:
    """The Events of this node; any thread may call. No hook does: records come from the audit's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._events = NodeEvents()

    def record(self, fields: Mapping[str, Any]) -> None:
        """Take an audit record; most are no Event."""
        occurrence = event_reasons.of_record(fields)
        if occurrence is not None:
            self.occurred(occurrence)

    def occurred(self, occurrence: Occurrence) -> None:
        """Count one occurrence."""
        with self._lock:
            self._events.occurred(occurrence, self._clock())

    def publish(self, now_s: float) -> Batch:
        """Return the Events that the companion has to record."""
        with self._lock:
            return self._events.publish(now_s)

    def recorded(self, sequence: int) -> None:
        """Note that the companion recorded all Events up to a sequence number."""
        with self._lock:
            self._events.recorded(sequence)
