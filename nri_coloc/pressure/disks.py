"""Read the file systems of the node every ten seconds, and record when a shortage begins and ends.

While a file system is short the node takes no new reclaimed pods. Running pods keep their CPUs and memory.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from nri_coloc.core.decisions import Figure
from nri_coloc.core.readings import DiskLeft
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import sentence
from nri_coloc.core.settings import DiskTuning, Tuning
from nri_coloc.pressure import disk_space
from nri_coloc.pressure.disk_space import NO_COURSE, Course, DiskShort, FileSystem, Lack, Lines

LOOK_S: Final = 10.0
"""Seconds between two readings, as often as the kubelet reads. The first short one is confirmed by the next turn."""

REASONS: Final = {Lack.SPACE: Reason.DISK_SPACE, Lack.INODES: Reason.DISK_INODES}


class Node(Protocol):
    """The settings."""

    @property
    def tuning(self) -> Tuning: ...


class DiskFiles(Protocol):
    """Reads the file systems; returns None for one that cannot be read."""

    def node(self) -> DiskLeft | None: ...
    def images(self) -> DiskLeft | None: ...


class Report(Protocol):
    """Records an event of the node."""

    def said(self, event: AuditEvent, reason: Reason, because: str, **fields: Any) -> None: ...


class Disks:
    """`look` belongs to one thread; `shortage` and `left` may be read by any.

    shortage: the file system that is short, as a sentence with its figures; "" for none.
    """

    def __init__(self, node: Node, files: DiskFiles, report: Report) -> None:
        self._node = node
        self._reads = {FileSystem.NODE: files.node, FileSystem.IMAGES: files.images}
        self._report = report
        self._looked_at = float("-inf")
        self.shortage = ""
        self._courses: Mapping[FileSystem, Course] = {}

    @property
    def short(self) -> tuple[DiskShort, ...]:
        """The file systems that are short."""
        known = disk_space.lines(self._node.tuning.pressure.disk)
        return tuple(
            DiskShort(name, one.lack, one.left, known[name])
            for name, one in self._courses.items()
            if one.lack is not None and one.left is not None
        )

    @property
    def left(self) -> Mapping[str, DiskLeft]:
        """What is left of each file system that could be read."""
        return {name.value: one.left for name, one in self._courses.items() if one.left is not None}

    def look(self, now: float) -> None:
        """Read the file systems if it is time; none with `pressure.disk: off`."""
        tuning = self._node.tuning.pressure.disk
        if tuning.closes and now - self._looked_at < LOOK_S and not self._confirms():
            return
        self._looked_at = now
        before, known = self._courses, disk_space.lines(tuning)
        self._courses = self._read(known) if tuning.closes else {}
        self.shortage = next(
            (_words(name, one, known[name]) for name, one in self._courses.items() if one.lack), ""
        )
        for name in FileSystem:
            self._record(name, before.get(name, NO_COURSE), self._courses.get(name, NO_COURSE), tuning)

    def _confirms(self) -> bool:
        return any(one.readings and not one.lack for one in self._courses.values())

    def _read(self, known: Mapping[FileSystem, Lines]) -> dict[FileSystem, Course]:
        found = {
            name: disk_space.followed(self._courses.get(name, NO_COURSE), read(), known[name])
            for name, read in self._reads.items()
        }
        return {name: one for name, one in found.items() if one.left is not None}

    def _record(self, name: FileSystem, before: Course, now: Course, tuning: DiskTuning) -> None:
        """Record the beginning and the end of a shortage, and another lack."""
        if before.lack is now.lack:
            return
        known = disk_space.lines(tuning)[name]
        inputs = _figures(name, now, known)
        if now.lack is not None:
            self._say(REASONS[now.lack], f"no new reclaimed pods: {_words(name, now, known)}", inputs)
        elif tuning.closes and before.lack is not None:
            ended = f"shortage ended: the file system of {_NAMES[name]} has enough {before.lack} again"
            self._say(Reason.CALM, sentence(ended, inputs, _SHOWN[before.lack]), inputs)
        else:
            self._say(Reason.RECONFIGURED, "shortage ignored: pressure.disk is off", inputs)

    def _say(self, reason: Reason, because: str, inputs: Mapping[str, Figure]) -> None:
        self._report.said(AuditEvent.PRESSURE_DISK, reason, because, extra={"inputs": inputs})


def _words(name: FileSystem, one: Course, known: Lines) -> str:
    """Return a shortage as a sentence."""
    text = f"the file system of {_NAMES[name]} is short of {one.lack}"
    return sentence(text, _figures(name, one, known), _SHOWN[one.lack] if one.lack else ())


def _figures(name: FileSystem, one: Course, known: Lines) -> dict[str, Figure]:
    left = one.left
    return {
        "file_system": name.value,
        "space_line": round(known.space, 4),
        "inodes_line": round(known.inodes, 4),
        "total_bytes": None if left is None else left.total,
        "available_bytes": None if left is None else left.available,
        "inodes": None if left is None else left.inodes,
        "free_inodes": None if left is None else left.free_inodes,
    }


_NAMES: Final = {FileSystem.NODE: "the kubelet", FileSystem.IMAGES: "images and containers"}

_SHOWN: Final = {
    Lack.SPACE: ("available_bytes", "total_bytes", "space_line"),
    Lack.INODES: ("free_inodes", "inodes", "inodes_line"),
}
