"""A node whose disks are short takes no new reclaimed pods, says why, and opens again."""

from collections.abc import Iterable
from typing import Any

import pytest

from nri_coloc.core.readings import DiskLeft
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import DiskTuning, PressureTuning, Tuning
from nri_coloc.pressure import disk_space
from nri_coloc.pressure.disk_space import NO_COURSE, FileSystem, Lack
from nri_coloc.pressure.disks import LOOK_S, Disks

GIB = 1 << 30
IMAGES = disk_space.lines(DiskTuning())[FileSystem.IMAGES]


def disk(space: float = 50.0, inodes: float = 50.0) -> DiskLeft:
    """Return a file system with these percentages left."""
    return DiskLeft(100 * GIB, int(space * GIB), 1000, int(inodes * 10))


def lack(readings: Iterable[DiskLeft | None]) -> Lack | None:
    course = NO_COURSE
    for left in readings:
        course = disk_space.followed(course, left, IMAGES)
    return course.lack


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([disk(15.9), disk(15.9)], Lack.SPACE),
        ([disk(15.9)], None),
        ([disk(15.9), disk(16.0), disk(15.9)], None),
        ([disk(15.9), None, disk(15.9)], None),
        ([disk(9), disk(9), None, None], Lack.SPACE),
        ([disk(9), disk(9), disk(17.9)], Lack.SPACE),
        ([disk(9), disk(9), disk(18)], None),
        ([disk(inodes=5.9), disk(inodes=5.9)], Lack.INODES),
        ([disk(9, 5), disk(9, 5), disk(50, 7.9)], Lack.INODES),
        ([DiskLeft(100, 50, 0, 0)] * 3, None),
    ],
    ids=[
        "twice below the line",
        "once",
        "not in a row",
        "not in a row that was read",
        "unknown ends nothing",
        "less than two percent more",
        "two percent more",
        "inodes",
        "space, then inodes",
        "no fixed number of inodes",
    ],
)
def test_a_shortage_begins_and_ends(readings, expected):
    assert lack(readings) is expected


def test_the_lines_lie_between_kubelet_and_image_collection():
    for name, (evicts, collects_to) in {"node": (0.10, 1.0), "images": (0.15, 0.20)}.items():
        line = disk_space.lines(DiskTuning())[FileSystem(name)].space
        assert evicts < line
        assert line + disk_space.APART < collects_to


@pytest.mark.parametrize(
    ("tuning", "remark"),
    [
        (DiskTuning(closes=True, above=0.03), ""),
        (DiskTuning(closes=False, above=0.04), ""),
        (
            DiskTuning(closes=True, above=0.04),
            (
                "pressure.disk is 4: a node that was closed may stay closed, because it opens from 21% of free "
                "space for images, and the kubelet deletes images to 20% only; set 3 or less"
            ),
        ),
    ],
    ids=["3", "off", "4"],
)
def test_a_line_above_image_collection_is_remarked(tuning: DiskTuning, remark: str):
    assert disk_space.remark(tuning) == remark


class Rig:
    """Two file systems that the test fills; `records` has the audit."""

    def __init__(self) -> None:
        self.tuning = Tuning(pressure=PressureTuning(disk=DiskTuning(closes=True)))
        self.left: dict[str, DiskLeft | None] = {"node": disk(), "images": disk()}
        self.reads = 0
        self.records: list[tuple[Reason, str, dict[str, Any]]] = []
        self.disks = Disks(self, self, self)
        self.now = 0.0

    def node(self) -> DiskLeft | None:
        self.reads += 1
        return self.left["node"]

    def images(self) -> DiskLeft | None:
        return self.left["images"]

    def said(self, event: AuditEvent, reason: Reason, because: str, **fields: Any) -> None:
        assert event is AuditEvent.PRESSURE_DISK
        self.records.append((reason, because, fields["extra"]["inputs"]))

    def turns(self, seconds: int) -> str:
        for _ in range(seconds):
            self.now += 1.0
            self.disks.look(self.now)
        return self.disks.shortage

    @property
    def reasons(self) -> list[Reason]:
        return [reason for reason, *_ in self.records]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_full_disk_closes_the_node(rig: Rig):
    rig.left["images"] = disk(12.5)
    shortage = (
        "the file system of images and containers is short of space"
        " (available=12.5 GiB, total=100 GiB, space_line=0.16)"
    )
    assert rig.turns(2) == shortage
    ((reason, because, inputs),) = rig.records
    assert (reason, because) == (Reason.DISK_SPACE, f"no new reclaimed pods: {shortage}")
    assert inputs == {
        "file_system": "images",
        "space_line": 0.16,
        "inodes_line": 0.06,
        "total_bytes": 100 * GIB,
        "available_bytes": 12 * GIB + GIB // 2,
        "inodes": 1000,
        "free_inodes": 500,
    }


def test_a_lack_of_inodes_closes_the_node(rig: Rig):
    rig.left["node"] = disk(inodes=3)
    assert "short of inodes (free_inodes=30, inodes=1000, inodes_line=0.06)" in rig.turns(2)
    assert rig.reasons == [Reason.DISK_INODES]


def test_the_end_of_a_lack_names_what_was_short(rig: Rig):
    rig.left["node"] = disk(inodes=3)
    rig.turns(30)
    rig.left["node"] = disk(inodes=40)
    rig.turns(int(LOOK_S))
    assert rig.records[-1][1] == (
        "shortage ended: the file system of the kubelet has enough inodes again"
        " (free_inodes=400, inodes=1000, inodes_line=0.06)"
    )


def test_the_node_opens_when_space_is_free(rig: Rig):
    rig.left["images"] = disk(12)
    rig.turns(30)
    rig.left["images"] = disk(40)
    assert rig.turns(int(LOOK_S)) == ""
    assert rig.reasons == [Reason.DISK_SPACE, Reason.CALM]


def test_a_level_at_the_line_does_not_flap(rig: Rig):
    for _ in range(30):
        rig.left["node"] = disk(10.9)
        rig.turns(10)
        rig.left["node"] = disk(12.9)
        rig.turns(10)
    assert rig.reasons == [Reason.DISK_SPACE]


def test_the_disks_are_read_every_ten_seconds(rig: Rig):
    rig.turns(60)
    assert rig.reads == 6


def test_the_setting_off_reads_nothing_and_opens(rig: Rig):
    rig.left["node"] = disk(1)
    rig.turns(2)
    rig.tuning = Tuning(pressure=PressureTuning(disk=DiskTuning(closes=False)))
    reads = rig.reads
    assert rig.turns(60) == ""
    assert (rig.reads, rig.disks.left) == (reads, {})
    assert rig.reasons == [Reason.DISK_SPACE, Reason.RECONFIGURED]


def test_disks_that_cannot_be_read_close_nothing(rig: Rig):
    rig.left = {"node": None, "images": None}
    assert rig.turns(30) == ""
    assert rig.disks.left == {}
