"""Keep the Kubernetes Events of this node until the companion has recorded them: one entry a subject and reason. Pure.

    occurred ─▶ counted in its entry ─▶ published under the next sequence number ─▶ recorded

An entry is published when it is new, and again when it has occurred since, `REPEAT_S` after the last time at the
earliest. At most `MOST_SENT` entries are published and not recorded. Recorded entries are kept, so that their count
goes on. If there are more than `MOST_KEPT` entries, one is dropped: a recorded one if there is any, else the oldest of
the namespace with the most entries. So a tenant with many pods pushes out its own entries first. For the same reason
namespaces are published round-robin.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Final, NamedTuple

from nri_coloc.core.texts import cut
from nri_coloc.kubernetes.event_reasons import (
    LONGEST_MESSAGE,
    NORMAL,
    EventReason,
    Occurrence,
    Subject,
)

MOST_KEPT: Final = 256
MOST_SENT: Final = 32
REPEAT_S: Final = 60.0

MOST_TEXTS: Final = 4
"""Topics whose newest text is in a message, such as annotations of one pod."""


@dataclass(frozen=True, slots=True)
class Entry:
    """All occurrences of one reason for one subject.

    texts: topic and newest text of each topic, the newest first.
    count: occurrences, 1 at least.
    first_s, last_s: times of the first and the last occurrence.
    sequence: number of the last publication; 0 for none yet.
    published: `count` at that publication.
    published_s: time of it.
    is_open: published, and not yet recorded.
    """

    subject: Subject
    reason: EventReason
    texts: tuple[tuple[str, str], ...]
    count: int
    first_s: float
    last_s: float
    sequence: int = 0
    published: int = 0
    published_s: float = 0.0
    is_open: bool = False

    @property
    def message(self) -> str:
        """Return the newest texts, joined and cut."""
        return cut("; ".join(text for _, text in self.texts), LONGEST_MESSAGE)

    @property
    def is_warning(self) -> bool:
        """Return whether the type of the Event is Warning."""
        return self.reason not in NORMAL

    @property
    def is_recorded(self) -> bool:
        """Return whether every occurrence was recorded."""
        return not self.is_open and self.published == self.count


class Batch(NamedTuple):
    """Published entries for one answer, in order of their sequence numbers.

    lost: entries that were dropped before all their occurrences were recorded.
    """

    entries: tuple[Entry, ...] = ()
    lost: int = 0

    @property
    def newest(self) -> int:
        """Return the highest sequence number, 0 without entries."""
        return self.entries[-1].sequence if self.entries else 0


class NodeEvents:
    """The entries of one node; one thread at a time. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Subject, EventReason], Entry] = {}
        self._sequence = 0
        self._lost = 0

    def occurred(self, occurrence: Occurrence, now_s: float) -> None:
        """Count one occurrence."""
        key = occurrence.subject, occurrence.reason
        known = self._entries.get(key)
        self._entries[key] = _first(occurrence, now_s) if known is None else _again(known, occurrence, now_s)
        if len(self._entries) > MOST_KEPT:
            self._drop_one(kept=key)

    def publish(self, now_s: float) -> Batch:
        """Publish entries that are due, and return all that are published and not recorded."""
        published = [entry for entry in self._entries.values() if entry.is_open]
        due = (entry for entry in self._entries.values() if _is_due(entry, now_s))
        for entry in _in_turn(due) if len(published) < MOST_SENT else ():
            self._sequence += 1
            changed = replace(
                entry, sequence=self._sequence, published=entry.count, published_s=now_s, is_open=True
            )
            self._entries[entry.subject, entry.reason] = changed
            published.append(changed)
            if len(published) == MOST_SENT:
                break
        return Batch(tuple(sorted(published, key=lambda entry: entry.sequence)), self._lost)

    def recorded(self, sequence: int) -> None:
        """Note that all entries up to a sequence number were recorded."""
        for key, entry in self._entries.items():
            if entry.is_open and entry.sequence <= sequence:
                self._entries[key] = replace(entry, is_open=False)

    def _drop_one(self, kept: tuple[Subject, EventReason]) -> None:
        """Drop an entry other than `kept`."""
        others = {key: entry for key, entry in self._entries.items() if key != kept}
        sizes = Counter(subject.namespace for subject, _ in self._entries)
        candidates = [key for key, entry in others.items() if entry.is_recorded]
        if not candidates:
            most = max(sizes[subject.namespace] for subject, _ in others)
            candidates = [key for key in others if sizes[key[0].namespace] == most]
            self._lost += 1
        del self._entries[min(candidates, key=lambda key: others[key].last_s)]


def _first(occurrence: Occurrence, now_s: float) -> Entry:
    return Entry(
        subject=occurrence.subject,
        reason=occurrence.reason,
        texts=((occurrence.topic, occurrence.text),),
        count=1,
        first_s=now_s,
        last_s=now_s,
    )


def _again(known: Entry, occurrence: Occurrence, now_s: float) -> Entry:
    others = (each for each in known.texts if each[0] != occurrence.topic)
    texts = ((occurrence.topic, occurrence.text), *others)[:MOST_TEXTS]
    return replace(known, texts=texts, count=known.count + 1, last_s=now_s)


def _is_due(entry: Entry, now_s: float) -> bool:
    if entry.is_open or entry.published == entry.count:
        return False
    return not entry.published or now_s - entry.published_s >= REPEAT_S


def _in_turn(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries in order of their namespaces: one of each, then the second of each."""
    by_namespace: dict[str, list[Entry]] = {}
    for entry in entries:
        by_namespace.setdefault(entry.subject.namespace, []).append(entry)
    yield from filter(None, chain.from_iterable(zip_longest(*by_namespace.values())))
