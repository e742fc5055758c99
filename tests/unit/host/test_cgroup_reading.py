"""host/readings.py: one cgroup's files, of either version, as one value."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core.readings import GroupReading, IOReading
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.counters import Schedstat
from nri_coloc.host.files import READ_SIZE
from nri_coloc.host.readings import MOST_TASKS, CgroupReader
from nri_coloc.sim.cgroup_tree import CgroupTree

POD = "kubepods/burstable/pod1"
PSI = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}"

V1_TEXTS = {
    "cpuacct.usage": "5000000",
    "cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 70000",
    "memory.usage_in_bytes": "900",
    "memory.stat": "total_cache 400\ntotal_rss 500\ntotal_inactive_file 100",
    "memory.limit_in_bytes": "4096",
    "blkio.throttle.io_service_bytes_recursive": "8:0 Read 10\n8:0 Write 20\nTotal 30",
    "blkio.throttle.io_serviced_recursive": "8:0 Read 1\n8:0 Write 2\nTotal 3",
}
V2_TEXTS = {
    "cpu.stat": "usage_usec 5000\nuser_usec 0\nsystem_usec 0\nnr_periods 9\nnr_throttled 3\nthrottled_usec 70",
    "memory.current": "900",
    "memory.stat": "anon 500\nfile 400\ninactive_file 100",
    "memory.max": "4096",
    "io.stat": "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0",
}
PRESSURES = {"cpu.pressure": (1, 2), "memory.pressure": (3, 4), "io.pressure": (5, 6)}


class Bed:
    def __init__(self, folder: Path, version: int, *, legacy: bool = False) -> None:
        self.tree = CgroupTree(folder, version, 0b1111, 1, legacy=legacy)
        self.tree.plant()
        self.tree.make(POD)
        self.folder = folder
        self.reader = CgroupReader(cgroup_layout.detect(str(folder)), str(folder))
        for name, text in (V1_TEXTS if version == 1 else V2_TEXTS).items():
            self.tree.write(POD, name, text)
        for name, totals in PRESSURES.items():
            self.tree.write(POD, name, PSI.format(*totals))

    def file(self, name: str) -> Path:
        return self.tree.folder(name, POD) / name

    def container(self) -> GroupReading:
        found = self.reader.container(POD, 7.0)
        assert found is not None
        return found

    def group(self) -> GroupReading:
        found = self.reader.group(POD, 7.0)
        assert found is not None
        return found


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def bed(request, tmp_path):
    return Bed(tmp_path, request.param)


def test_both_versions_tell_the_same(bed):
    found = bed.group()
    assert (found.at, found.usage_us) == (7.0, 5000)
    assert (found.memory_stall_us, found.io_stall_us) == (3, 5)
    assert found.memory is not None
    assert (found.memory.working_set, found.memory.limit) == (800, 4096)
    assert found.io == IOReading(10, 20, 1, 2)


def test_its_key_is_the_one_that_the_fast_tick_uses(bed):
    name = "cpuacct.usage" if bed.tree.version == 1 else "cpu.stat"
    assert bed.group().key == bed.tree.folder(name, POD).stat().st_ino


def test_a_containers_reading_leaves_expensive_values_to_its_pod(bed):
    found = bed.container()
    assert (found.io, found.memory_stall_us, found.io_stall_us) == (None, None, None)
    assert (found.usage_us, found.memory, found.cpu_stall_us) == (5000, bed.group().memory, 1)


def test_how_cpu_time_was_had_is_in_the_containers_reading_alone(bed):
    found = bed.container()
    assert (found.throttled_us, found.throttled_periods, found.run_delay_us) == (70, 3, None)
    assert (bed.group().throttled_us, bed.group().throttled_periods, bed.group().cpu_stall_us) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize("read", ["group", "container"])
def test_a_cgroup_that_is_not_there_is_none(bed, read):
    assert getattr(bed.reader, read)("kubepods/absent", 1.0) is None


@pytest.mark.parametrize("content", [b"", b"max\n", b"-1\n", b"\xff\0garbage", b"7" * (READ_SIZE + 5)])
def test_files_that_make_no_sense_are_parts_that_are_none(bed, content):
    for path in bed.folder.rglob(f"**/{POD}/*"):
        if path.is_file():
            path.write_bytes(content)
    found, of_container = bed.group(), bed.container()
    assert (of_container.throttled_us, of_container.throttled_periods, of_container.cpu_stall_us) == (
        None,
        None,
        None,
    )
    assert (found.usage_us, found.memory, found.memory_stall_us, found.io_stall_us) == (
        None,
        None,
        None,
        None,
    )


def test_files_that_are_not_there_are_parts_that_are_none(bed):
    for path in bed.folder.rglob(f"**/{POD}/*"):
        if path.is_file():
            path.unlink()
    found, of_container = bed.group(), bed.container()
    assert (found.usage_us, found.memory, found.io) == (None,) * 3
    assert (of_container.throttled_us, of_container.cpu_stall_us) == (None, None)


def test_a_file_that_refuses_to_be_read_is_none(bed):
    file = bed.file("memory.stat")
    file.unlink()
    file.mkdir()  # opens, and reading it is EISDIR
    assert bed.group().memory is None


def test_a_cgroup_made_anew_while_it_is_read_has_no_reading(bed, monkeypatch):
    io = bed.reader._io
    spare = bed.folder / "spare"  # holds the old folder's inode, so that the new one gets another
    folder = Path(cgroup_layout.detect(str(bed.folder)).cpuacct or "") / POD

    def made_anew(below):
        folder.rename(spare)
        shutil.copytree(spare, folder)
        return io(below)

    monkeypatch.setattr(bed.reader, "_io", made_anew)
    assert bed.reader.group(POD, 1.0) is None


def test_a_path_that_leads_out_of_the_hierarchy_is_refused(bed):
    with pytest.raises(ValueError, match="lead out"):
        bed.reader.group("kubepods/../..", 1.0)


def test_without_any_hierarchy_nothing_is_read(tmp_path):
    assert CgroupReader(CgroupLayout(2), str(tmp_path)).group(POD, 1.0) is None


def test_a_v1_machine_without_the_other_controllers_has_usage_alone(bed, tmp_path):
    if bed.tree.version == 2:
        return
    alone = CgroupLayout(1, cpuacct=cgroup_layout.detect(str(bed.folder)).cpuacct)
    found = CgroupReader(alone, str(bed.folder)).group(POD, 1.0)
    assert found == GroupReading(bed.group().key, 1.0, usage_us=5000)


def test_an_old_kernels_io_is_the_cgroups_own(tmp_path):
    bed = Bed(tmp_path, 1)
    for name in ("blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"):
        bed.file(f"{name}_recursive").rename(bed.file(name))
    assert bed.group().io == IOReading(10, 20, 1, 2)


class TestRunDelay:
    @pytest.fixture(params=[1, 2], ids=["v1", "v2"])
    def old(self, request, tmp_path):
        bed = Bed(tmp_path, request.param)
        bed.file("cpu.pressure").unlink()
        return bed

    def threads(self, bed: Bed, *delays: int) -> None:
        name = "tasks" if bed.tree.version == 1 else "cgroup.threads"
        numbers = range(100, 100 + len(delays))
        (bed.tree.folder("cpu.stat", POD) / name).write_text("".join(f"{number}\n" for number in numbers))
        for number, delay in zip(numbers, delays, strict=True):
            folder = bed.folder / f"proc/{number}"
            folder.mkdir(parents=True)
            (folder / "schedstat").write_text(f"1 {delay * 1000} 5\n")

    def test_where_there_is_no_psi_the_threads_waiting_is_added_up(self, old):
        self.threads(old, 40, 2)
        assert old.container().run_delay_us == 42

    def test_a_thread_that_has_ended_is_left_out(self, old):
        self.threads(old, 40, 2)
        (old.folder / "proc/100/schedstat").unlink()
        assert old.container().run_delay_us == 2

    def test_each_thread_is_told_by_its_id(self, old):
        self.threads(old, 40, 2)
        (old.folder / "proc/101/schedstat").write_text("0 0 0\n")
        assert old.reader.tasks(f"/{POD}") == {100: Schedstat(0, 40)}

    def test_a_vms_threads_are_in_its_shims_cgroup(self, old):
        self.threads(old, 40, 2)
        above = POD.rpartition("/")[0]
        assert old.reader.tasks(above) == {}
        assert old.reader.tasks_within(above) == {100: Schedstat(0, 40), 101: Schedstat(0, 2)}

    def test_no_more_of_them_are_asked_than_of_one_cgroup(self, old):
        self.threads(old, *range(1, MOST_TASKS + 3))
        old.tree.make(f"{POD}x")
        assert len(old.reader.tasks_within(POD.rpartition("/")[0])) == MOST_TASKS

    @pytest.mark.parametrize("path", [f"{POD}/none", f"{POD}/cgroup.procs/x"], ids=["absent", "no folder"])
    def test_within_what_is_not_there_are_none(self, old, path):
        assert old.reader.tasks_within(path) == {}

    def test_within_what_may_not_be_listed_are_none(self, old, monkeypatch):
        def refuses(path: str) -> None:
            raise KernelInterfaceError(path, "list", "Permission denied")

        monkeypatch.setattr(files, "entries", refuses)
        assert old.reader.tasks_within(POD) == {}

    def test_who_asks_for_cpu_time_alone_looks_at_no_thread(self, old):
        self.threads(old, 40, 2)
        found = old.reader.cpu(POD, 7.0)
        assert found == replace(old.container(), run_delay_us=None, memory=None)

    def test_without_threads_there_is_none(self, old):
        assert old.container().run_delay_us is None

    def test_no_more_threads_are_asked_than_the_bound(self, old):
        self.threads(old, *([1] * (MOST_TASKS + 9)))
        assert old.container().run_delay_us == MOST_TASKS
