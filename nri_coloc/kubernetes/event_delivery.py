"""Keep the Events that the companion has to write into the API server, and the order in which it tries them. Pure.

The daemon repeats an Event until a sequence number says that it was recorded. Numbers belong to one connection, because
a restarted daemon counts from 1 again; an Event of an earlier connection is still written.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from nri_coloc.kubernetes.event_messages import Told
from nri_coloc.kubernetes.event_reasons import Subject

MOST_WAITING: Final = 256
"""Events of all connections together. One connection has 32 at most."""

GIVE_UP_S: Final = 600.0
"""Seconds for which an Event may fail while others are written. Until then no later number is confirmed, so that the
daemon sends no more than 31 other Events: an admission webhook that is down for one namespace must not hold up all."""


class _Key(NamedTuple):
    """An Event: its subject and reason."""

    subject: Subject
    reason: str


class _Failing(NamedTuple):
    """An Event that fails.

    written: number of Events that were written before its last try.
    since_s: time of the first try before which another Event had been written after a failed one; None for none.
    """

    written: int
    since_s: float | None = None


class Delivery:
    """Events that wait to be written; one thread at a time.

    lost: Events that were given up, or dropped because too many waited.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._waiting: dict[_Key, Told] = {}
        self._open: dict[int, _Key] = {}
        self._newest = 0
        self._written = 0
        self._refused: dict[_Key, int] = {}
        self._failing: dict[_Key, _Failing] = {}

    @property
    def recorded(self) -> int:
        """Return the sequence number up to which all Events of this connection were written."""
        return min(self._open) - 1 if self._open else self._newest

    def connected(self) -> None:
        """Begin with the numbers of a new connection."""
        self._open, self._newest = {}, 0

    def take(self, events: Iterable[Told], newest: int = 0) -> None:
        """Take the Events of an answer; known Events are repetitions.

        newest: highest sequence number of the answer. An Event that was left out is confirmed like a written one:
            otherwise the daemon repeats it for ever, and 32 such Events leave no place for others.
        """
        for event in events:
            if event.sequence > self._newest:
                self._newest = event.sequence
                self._end(
                    self._waiting.get(_key(event))
                )  # the daemon dropped its entry, and counts from 1 again
                self._open[event.sequence] = _key(event)
                self._waiting[_key(event)] = event
        self._newest = max(self._newest, newest)
        while len(self._waiting) > MOST_WAITING:
            self._drop(self._waiting[next(iter(self._waiting))])

    def first(self) -> Told | None:
        """Return the Event to write next; None if none waits."""
        return next(iter(self._waiting.values()), None)

    def written(self, event: Told) -> None:
        """Note that an Event is in the API server."""
        self._written += 1
        self._close(event)

    def failed(self, event: Told, now_s: float) -> None:
        """Put an Event behind all others, to be tried again: the API server gave no answer, or was busy.

        Give it up if it has failed for `GIVE_UP_S` while others were written. now_s: on any monotonic clock.
        """
        before = self._failing.get(_key(event), _Failing(self._written))
        if before.written < self._written:
            since_s = now_s if before.since_s is None else before.since_s
            if now_s - since_s >= GIVE_UP_S:
                self._drop(event)
                return
            before = _Failing(self._written, since_s)
        if self._waiting.get(_key(event)) is event:
            self._failing[_key(event)] = before
            self._waiting[_key(event)] = self._waiting.pop(_key(event))

    def refused(self, event: Told, now_s: float) -> None:
        """Note that the API server forbids an Event.

        If it allowed another one in the meantime, the Event itself is forbidden and is given up. Otherwise rights may
        be missing, which an operator can add.
        """
        since = self._refused.setdefault(_key(event), self._written)
        if since < self._written:
            self._drop(event)
        else:
            self.failed(event, now_s)

    def impossible(self, event: Told) -> None:
        """Give an Event up, such as one of a namespace that is gone."""
        self._drop(event)

    def _drop(self, event: Told) -> None:
        self.lost += 1
        self._close(event)

    def _close(self, event: Told) -> None:
        self._refused.pop(_key(event), None)
        self._failing.pop(_key(event), None)
        if self._waiting.get(_key(event)) is event:
            del self._waiting[_key(event)]
            self._end(event)

    def _end(self, event: Told | None) -> None:
        """Let no number wait for an Event: it was written or given up, or another one stands for it."""
        if event is not None and self._open.get(event.sequence) == _key(event):
            del self._open[event.sequence]


def _key(event: Told) -> _Key:
    return _Key(event.subject, event.reason)
