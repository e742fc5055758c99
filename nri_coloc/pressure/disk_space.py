"""Find out from readings whether a file system of the node is short of space or inodes; pure.

    line + 2 %  ─────────────  a shortage ends
    line        ─────────────  a shortage begins, at the second reading in a row
    kubelet's own line ──────  it evicts pods, without regard to their class

The line is a part of the space, or of the inodes. The shortage of the images' file system must end below 20 % of free
space: to that point the kubelet deletes unused images, and no further (imageGCLowThresholdPercent).
"""

from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.readings import DiskLeft
from nri_coloc.core.settings import DiskTuning

UP: Final = 2
"""Readings in a row before a shortage begins."""

APART: Final = 0.02
"""Part of the whole between the line at which a shortage begins and the line at which it ends."""


class FileSystem(StrEnum):
    """The file systems that pods fill."""

    NODE = "node"
    """The kubelet's folder: volumes and logs."""
    IMAGES = "images"
    """Images and the writable layers of containers."""


class Lack(StrEnum):
    """The part of a file system that is short."""

    SPACE = "space"
    INODES = "inodes"


class Lines(NamedTuple):
    """Parts of a file system, 0 to 1, below which it is short."""

    space: float
    inodes: float


EVICTS_BELOW: Final = {FileSystem.NODE: Lines(0.10, 0.05), FileSystem.IMAGES: Lines(0.15, 0.05)}
"""The kubelet's defaults of `evictionHard` on Linux (pkg/kubelet/apis/config/v1beta1/defaults_linux.go)."""


IMAGES_COLLECTED_TO: Final = 0.20
"""Part of the space that the kubelet leaves free by default when it deletes images (imageGCLowThresholdPercent)."""


class Course(NamedTuple):
    """One file system over time.

    readings: readings in a row below the line.
    lack: the part that is short; None for no shortage.
    left: the last reading that could be read.
    """

    readings: int = 0
    lack: Lack | None = None
    left: DiskLeft | None = None


NO_COURSE: Final = Course()


class DiskShort(NamedTuple):
    """A file system that is short, its last reading and its lines."""

    file_system: FileSystem
    lack: Lack
    left: DiskLeft
    known: Lines

    @property
    def amount_left(self) -> int:
        """The available bytes, or the free inodes."""
        return self.left.available if self.lack is Lack.SPACE else self.left.free_inodes


def lines(tuning: DiskTuning) -> dict[FileSystem, Lines]:
    """Return the lines of all file systems."""
    return {
        name: Lines(space + tuning.above, inodes + tuning.above)
        for name, (space, inodes) in EVICTS_BELOW.items()
    }


def remark(tuning: DiskTuning) -> str:
    """Return why the node may stay closed with these settings, as a sentence with the remedy; "" for none."""
    opens = round(lines(tuning)[FileSystem.IMAGES].space + APART, 4)
    if not tuning.closes or opens <= IMAGES_COLLECTED_TO:
        return ""
    least = IMAGES_COLLECTED_TO - APART - EVICTS_BELOW[FileSystem.IMAGES].space
    return (
        f"pressure.disk is {tuning.above * 100:g}: a node that was closed may stay closed, because it opens from "
        f"{opens:.0%} of free space for images, and the kubelet deletes images to {IMAGES_COLLECTED_TO:.0%} only; "
        f"set {least * 100:.0f} or less"
    )


def followed(course: Course, left: DiskLeft | None, known: Lines) -> Course:
    """Return the course after one more reading; an unknown reading neither begins nor ends a shortage."""
    if left is None:
        return course._replace(readings=0)
    apart = 0.0 if course.lack is None else APART
    lack = _lack(left, Lines(known.space + apart, known.inodes + apart))
    if lack is None:
        return Course(left=left)
    readings = course.readings + 1
    return Course(readings, lack if course.lack is not None or readings >= UP else None, left)


def _lack(left: DiskLeft, known: Lines) -> Lack | None:
    if left.space < known.space:
        return Lack.SPACE
    return Lack.INODES if left.inodes_left < known.inodes else None
