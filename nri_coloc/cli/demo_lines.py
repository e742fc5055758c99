"""The demo without a terminal: one plain line for each audit record; and code that both displays share.

Only the daemon's words are shown. The hour is the record's time, converted to the simulated day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Protocol, Self, TextIO

from nri_coloc.core.texts import plain

Record = Mapping[str, Any]

EVENT_WIDTH: Final = 18
"""The length of "annotation.invalid"."""

_RESIZES: Final = ("pool.resize", "reclaim.suppress", "reclaim.grow")


@dataclass(frozen=True, slots=True)
class Scene:
    """A moment of the day: its hour, the conversion of real time into hours, and the daemon's /v1/state."""

    hour: float
    began_at: float
    hours_per_second: float
    state: Mapping[str, Any]

    def clock(self, record: Record) -> str:
        """Return the hour of a record as HH:MM; an earlier record gets the day's first minute."""
        at = datetime.fromisoformat(record["ts"]).timestamp()
        return clock(max(0.0, at - self.began_at) * self.hours_per_second)


class Show(Protocol):
    """A display of the day: it gets each new scene and its records."""

    def news(self, scene: Scene, records: Sequence[Record]) -> None: ...


class PlainLines:
    """A display that writes a line for each record."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.flush()

    def news(self, scene: Scene, records: Sequence[Record]) -> None:
        for record in records:
            self._out.write(f"{scene.clock(record)} {line(record)}\n")
        if records:
            self._out.flush()


def clock(hour: float) -> str:
    """Return an hour as HH:MM, at most 23:59."""
    minutes = min(int(hour * 60), 24 * 60 - 1)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def line(record: Record) -> str:
    """Return a record in one line: event, subject, class, CPUs, reason."""
    words = (record["event"].ljust(EVENT_WIDTH), subject(record), record["class"], placement(record))
    said = " ".join(word for word in words if word)
    return plain(f"{said} {record['reason']}: {record['because']}")


def subject(record: Record) -> str:
    """Return the subject of a record: namespace/pod/container as far as it names them, else the pool."""
    parts = (record["namespace"], record["pod"], record["container"])
    return "/".join(part for part in parts if part) or record["pool"]


def placement(record: Record) -> str:
    """Return the CPUs that a record itself names; the state is of a later moment."""
    before, after = record["before"].get("cpus", ""), record["after"].get("cpus", "")
    if record["event"] in _RESIZES:
        return f"CPUs {before or 'none'} -> {after or 'none'}" if before != after else ""
    return f"CPUs {after}" if after else ""
