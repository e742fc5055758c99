"""host.io_limits: one line a device, v1 and v2, and back."""

from pathlib import Path

import pytest

from nri_coloc.core.readings import IOReading
from nri_coloc.host import counters, io_limits, originals, write_back
from nri_coloc.host import files as host_files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.originals import Entry

READ, WRITE = io_limits.NAMES[1]
POD = "kubepods/pod1"


def writer(root: Path, version: int, texts: dict[str, str]) -> CgroupWriter:
    folder = root / "cgroup" / POD
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    mount = str(root / "cgroup")
    layout = CgroupLayout(version, cpu=mount, cpuset=mount, memory=mount, blkio=mount, unified=mount)
    return CgroupWriter(layout, Journal(str(root / "journal")), "/", lambda _path: None)


def text(root: Path, name: str) -> str:
    return (root / "cgroup" / POD / name).read_text().strip()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("io.max", "8:0 rbps=5 wbps=5"), (READ, "8:0 5")],
)
def test_a_limit_is_one_line(name: str, expected: str):
    assert io_limits.line(name, "8:0", 5) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("io.max", "8:0 rbps=max wbps=max"), (READ, "8:0 0")], ids=["v2", "v1"]
)
def test_no_limit_is_a_line_too(name: str, expected: str):
    assert io_limits.line(name, "8:0", None) == expected
    assert io_limits.shown(expected) == {}


def test_limits_are_read_by_device():
    shown = "8:0 rbps=5 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=max riops=9 wiops=max\nrubbish"
    assert sorted(io_limits.shown(shown)) == ["8:0", "8:16"]


def test_a_foreign_limit_of_operations_stays_ours_is_held():
    shown = "8:0 rbps=5 wbps=5 riops=7 wiops=max"
    assert io_limits.holds("io.max", shown, "8:0", 5)
    assert not io_limits.holds("io.max", shown, "8:0", 6)
    assert not io_limits.holds("io.max", shown, "8:16", 5)


@pytest.mark.parametrize(("version", "texts"), [(2, {"io.max": ""}), (1, {READ: "", WRITE: ""})], ids=str)
def test_a_limit_is_journalled_and_taken_back(tmp_path: Path, version: int, texts: dict[str, str]):
    files = writer(tmp_path, version, texts)
    applied = files.limit_io(POD, ["8:0"], 4096)
    assert not applied.failures
    assert files.io_limited() == {POD}
    assert all("8:0" in text(tmp_path, name) for name in texts)
    assert not files.limit_io(POD, ["8:0"], 4096).corrected, "what holds is not written again"
    assert files.unlimit_io(POD) == ()
    assert files.io_limited() == set()
    assert all(io_limits.shown(text(tmp_path, name)) == {} for name in texts)


def test_a_limit_outlasts_the_restoring_of_other_files(tmp_path: Path):
    files = writer(tmp_path, 2, {"io.max": ""})
    files.limit_io(POD, ["8:0"], 4096)
    files.put_back(POD, frozenset())
    assert "rbps=4096" in text(tmp_path, "io.max")


def test_a_former_limit_is_restored(tmp_path: Path):
    was = "8:0 rbps=99 wbps=max riops=max wiops=max"
    files = writer(tmp_path, 2, {"io.max": was})
    files.limit_io(POD, ["8:0"], 4096)
    files.unlimit_io(POD)
    assert text(tmp_path, "io.max") == was


@pytest.mark.parametrize(
    ("version", "texts", "low"),
    [
        (2, {"io.max": "8:0 rbps=99 wbps=max riops=max wiops=max"}, "rbps=99 wbps=4096"),
        (1, {READ: "8:0 99", WRITE: ""}, "99"),
    ],
    ids=["v2", "v1"],
)
def test_a_lower_former_limit_stays(tmp_path: Path, version: int, texts: dict[str, str], low: str):
    files = writer(tmp_path, version, texts)
    applied = files.limit_io(POD, ["8:0"], 4096)
    assert not applied.failures
    name = next(iter(texts))
    assert io_limits.shown(text(tmp_path, name))["8:0"] == low


def test_devices_before_a_refused_device_are_told(tmp_path: Path):
    files = writer(tmp_path, 2, {"io.max": ""})
    applied = files.limit_io(POD, ["8:0", "no device"], 4096)
    assert applied.failures
    assert [one.name for one in applied.corrected] == ["io.max"]


def test_devices_after_a_refused_device_are_limited(tmp_path: Path):
    files = writer(tmp_path, 2, {"io.max": ""})
    applied = files.limit_io(POD, ["no device", "8:0"], 4096)
    assert applied.failures
    assert "8:0 rbps=4096" in text(tmp_path, "io.max")


class LostDisk:
    """A file of limits whose devices are gone: the kernel answers ENODEV for them, and takes the others."""

    def __init__(self, *lost: str) -> None:
        self.lost = lost
        self.written: list[str] = []

    def write(self, file: str, text: str) -> bool:
        if text.startswith(self.lost):
            return False
        self.written.append(text)
        Path(file).write_text(text)
        return True


@pytest.fixture
def lost_disk(monkeypatch: pytest.MonkeyPatch) -> LostDisk:
    disk = LostDisk("8:0 ")
    monkeypatch.setattr(host_files, "write", disk.write)
    return disk


def test_a_disk_that_is_gone_keeps_no_other_unlimited(tmp_path: Path, lost_disk: LostDisk):
    applied = writer(tmp_path, 2, {"io.max": ""}).limit_io(POD, ["8:0", "8:16"], 4096)
    assert lost_disk.written == ["8:16 rbps=4096 wbps=4096"]
    assert [one.reason for one in applied.failures] == ["the device is gone"]
    assert not applied.absent


def test_a_disk_that_is_gone_keeps_no_other_limited(tmp_path: Path, lost_disk: LostDisk):
    file = tmp_path / "io.max"
    file.write_text("8:0 rbps=5 wbps=5\n8:16 rbps=5 wbps=5")
    assert io_limits.restore(str(file), "8:0 rbps=9 wbps=9")
    assert lost_disk.written == ["8:16 rbps=max wbps=max"]


def test_an_unknown_original_is_no_limit():
    assert originals.unknown("/pod1/io.max", "8:0 rbps=5 wbps=5") == Entry("", is_known=False)


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    files = writer(tmp_path, 2, {})
    assert files.limit_io(POD, ["8:0"], 4096).absent == ("io.max",)
    assert files.unlimit_io(POD) == ()


def test_a_gone_file_is_restored_by_doing_nothing(tmp_path: Path):
    assert not write_back.restore(str(tmp_path / "io.max"), "", 2)


class TestByDevice:
    V2 = b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n8:16 8:32 rbytes=5 wbytes=0 rios=1 wios=0\n"

    def test_v2_is_read_by_device(self):
        found = counters.io_by_device(self.V2)
        assert found == {"8:0": IOReading(1, 2, 3, 4), "8:32": IOReading(5, 0, 1, 0)}

    def test_v1_is_read_by_device(self):
        moved, served = b"8:0 Read 10\n8:0 Write 20\nTotal 30", b"8:0 Read 1\n8:0 Write 2\nTotal 3"
        assert counters.blkio_by_device(moved, served) == {"8:0": IOReading(10, 20, 1, 2)}

    def test_v1_leaves_out_devices_without_io(self):
        moved, served = b"7:0 Read 0\n7:0 Write 0\n8:0 Read 10", b"7:0 Read 0\n8:0 Read 1"
        assert counters.blkio_by_device(moved, served) == {"8:0": IOReading(10, 0, 1, 0)}

    @pytest.mark.parametrize("broken", [None, b"8:0 rbytes=x wbytes=2"])
    def test_a_broken_text_is_unknown(self, broken: bytes | None):
        assert counters.io_by_device(broken) is None

    def test_stolen_time_is_the_eighth_figure(self):
        assert counters.stolen_us(b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1") == 80_000
        assert counters.stolen_us(b"cpu 1 2 3") is None
