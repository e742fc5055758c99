"""The samplers on this machine's own kernel: cgroups of our own in every hierarchy, with processes that burn CPU."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core.readings import GroupReading, Role, Sample, Signal
from nri_coloc.forecast.snapshot import PictureTaker, Subjects
from nri_coloc.host import cgroup_layout
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.marks import Marks, Owner
from nri_coloc.host.originals import Entry
from nri_coloc.host.readings import CgroupReader
from nri_coloc.lending import run_delay
from nri_coloc.lending.groups import Group
from nri_coloc.lending.sampler import FastSampler
from tests.rig import kubepods, open_files
from tests.rig.waiting import comes, wait_until

OWN = "nri-coloc-test-sampling"
GONE = GroupReading(0, 0.0)
BURN = "import sys\nsys.stdin.readline()\nwhile True: pass"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")


class Machine:
    """Make cgroups below a folder of this test, and run processes in them."""

    def __init__(self) -> None:
        self.root = f"{OWN}-{os.getpid()}"
        self.running: list[subprocess.Popen[str]] = []
        self.layout = cgroup_layout.detect("/")
        self.sampler = FastSampler(self.layout)

    def make(self, name: str) -> str:
        kubepods.create(f"/{self.root}/{name}")
        return f"{self.root}/{name}"

    def burn(self, path: str) -> None:
        """Start a process that burns CPU."""
        self.run(path, BURN)

    def run(self, path: str, script: str) -> None:
        """Start a script, in this cgroup from its first line of input on."""
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True)
        self.running.append(child)
        for folder in kubepods.folders(f"/{path}"):
            (folder / "cgroup.procs").write_text(str(child.pid))
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()

    def read(self) -> tuple[Sample, ...]:
        return self.sampler.read(time.monotonic())

    def one(self) -> Sample:
        (sample,) = self.read()
        return sample

    def end(self) -> None:
        for child in self.running:
            child.kill()
            child.communicate()
        self.running.clear()

    def close(self) -> None:
        self.sampler.close()
        self.end()
        assert kubepods.remove(f"/{self.root}")


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    try:
        yield made
    finally:
        made.close()


def used(sample: Sample) -> int:
    assert sample.usage_us is not None
    return sample.usage_us


def test_burnt_cpu_time_is_read_as_the_kernel_counts(machine):
    pod = machine.make("pod")
    machine.sampler.watch((Group(Role.BOX, (pod,)),))
    assert used(machine.one()) < 100_000
    machine.burn(pod)
    wait_until(lambda: used(machine.one()) > 300_000, 30, "0.3 s of CPU time")


def test_two_that_want_one_cpu_stall(machine):
    pod = machine.make("pod")
    machine.sampler.watch((Group(Role.ONLINE, stalled=pod),))
    before = machine.one()
    if before.stalled_us is None:
        assert not Path("/proc/pressure/cpu").exists()  # a kernel without PSI has no file
        return
    for _ in range(2 * (os.cpu_count() or 1)):
        machine.burn(pod)
    wait_until(lambda: (machine.one().stalled_us or 0) - before.stalled_us > 200_000, 30, "0.2 s of stall")
    assert machine.one().throttled_us == 0


def test_what_a_quota_holds_back_is_seen(machine):
    pod = machine.make("pod")
    folder = Path(machine.layout.folder("cpu", pod) or "")
    name, text = ("cpu.cfs_quota_us", "10000") if machine.layout.version == 1 else ("cpu.max", "10000 100000")
    (folder / name).write_text(text)
    machine.sampler.watch((Group(Role.ONLINE, stalled=pod, throttled=(pod,)),))
    machine.burn(pod)
    wait_until(lambda: (machine.one().throttled_us or 0) > 100_000, 30, "0.1 s held back")


def quota(machine: Machine, path: str) -> str:
    """Return a cgroup's quota as the kernel shows it."""
    name = "cpu.max" if machine.layout.version == 2 else "cpu.cfs_quota_us"
    return (Path(machine.layout.folder("cpu", path) or "") / name).read_text().split()[0]


def test_a_lowered_quota_is_in_force_and_removed(machine, tmp_path):
    pod, app = machine.make("pod"), machine.make("pod/app")
    journal = Journal(str(tmp_path / "journal"), "/")
    writer, unlimited = CgroupWriter(machine.layout, journal, "/", lambda _path: None), quota(machine, app)
    machine.burn(app)
    reader = CgroupReader(machine.layout)
    assert not writer.bandwidth(PodBandwidth(pod, {app: Share(quota=10_000, is_changed=True)}), 0.0).failures
    assert quota(machine, app) == "10000"
    wait_until(lambda: (reader.cpu(app, 0.0) or GONE).throttled_periods, 10, "a period that the quota ends")
    assert not writer.bandwidth(PodBandwidth(pod, {app: Share(is_changed=True)}), 1.0).failures
    assert quota(machine, app) == unlimited
    assert not list(journal.files())


def test_a_sum_less_a_member_is_what_the_others_used(machine):
    box, other = machine.make("qos/box"), machine.make("qos/other")
    machine.sampler.watch((Group(Role.BOX, (f"{machine.root}/qos",), (other,)),))
    before = used(machine.one())
    machine.burn(other)
    kernels = FastSampler(machine.layout)
    kernels.watch((Group(Role.PODS, (other,)),))
    wait_until(lambda: used(kernels.read(time.monotonic())[0]) > 300_000, 30, "the other's CPU time")
    machine.end()  # two counters are two readings, and between them the process would run on
    assert used(machine.one()) - before < 50_000
    machine.burn(box)
    wait_until(lambda: used(machine.one()) - before > 300_000, 30, "the reclaim cgroup's CPU time")
    kernels.close()


def test_the_rest_of_the_node_grows_with_what_runs_beside(machine):
    pods = machine.make("pods")
    machine.sampler.watch((Group(Role.SYSTEM, ("",), (pods,)),))
    before = used(machine.one())
    assert before > 0
    machine.burn(machine.make("beside"))
    wait_until(lambda: used(machine.one()) - before > 300_000, 30, "CPU time beside the pods")


def test_a_removed_cgroups_key_differs_from_its_successors(machine):
    pod = machine.make("pod")
    machine.sampler.watch((Group(Role.BOX, (pod,)),))
    first = machine.one()
    for _ in range(3):
        assert kubepods.remove(f"/{pod}")
        machine.make("pod")
        last = machine.one()
        assert (last.key, last.usage_us) == (first.key, None)
        anew = machine.one()
        assert anew.key != first.key
        assert anew.usage_us is not None
        first = anew


def test_a_mark_is_replaced_on_a_cgroup_without_room(machine):
    (folder, *_) = map(str, kubepods.folders(f"/{machine.make('kubepods/besteffort/pod1')}"))
    marks = Marks([folder.partition(f"/{machine.root}")[0]])
    marks.write(folder, {"cpu.weight": Entry("2")}, Owner())
    for number in range(127):
        os.setxattr(folder, f"user.other{number}", b"1")
    marks.write(folder, {"cpu.weight": Entry("77")}, Owner())
    assert marks.of(folder)[f"{folder}/cpu.weight"].entry == Entry("77")


def test_hundreds_of_cgroups_that_come_and_go_leave_no_descriptor_open(machine):
    assert open_files.below(machine.root) == 0
    for round_ in range(5):
        paths = [machine.make(f"pod{round_}-{number}") for number in range(10)]
        machine.sampler.watch(tuple(Group(Role.ONLINE, stalled=path, throttled=(path,)) for path in paths))
        assert comes(lambda: bool(machine.read()) and machine.sampler.open_files >= 10)
        for path in paths[:5]:
            assert kubepods.remove(f"/{path}")
        for _ in range(5):
            machine.read()
    machine.sampler.watch(())
    machine.read()
    assert machine.sampler.open_files == 0
    assert open_files.below(machine.root) == 0


@pytest.fixture
def on_disk():
    """Yield a folder whose files are page cache: the tests' own folders may lie in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_a_picture_shows_what_a_process_holds_and_writes(machine, on_disk):
    pod = machine.make("pod/app")
    script = (
        "import os, sys\nsys.stdin.readline()\nheld = bytearray(os.urandom(1 << 20)) * 64\n"
        f"with open({str(on_disk / 'file')!r}, 'wb') as f:\n f.write(held); f.flush(); os.fsync(f.fileno())\n"
        "print('done', flush=True)\nsys.stdin.readline()"
    )
    machine.run(pod, script)
    child = machine.running[-1]
    assert child.stdout is not None
    assert child.stdout.readline() == "done\n"
    subjects = Subjects((machine.root,), {"pod": f"{machine.root}/pod"}, {"app": pod})
    taker = PictureTaker(machine.layout)

    def is_counted() -> bool:
        # the kernel counts for each cgroup by itself, and may be two seconds late
        picture = taker.take(subjects)
        readings = (picture.containers["app"], picture.pods["pod"], picture.kubepods)
        each = [one.memory for one in readings if one is not None and one.memory is not None]
        return len(each) == len(readings) and all(
            one.anon >= 64 << 20 and one.file >= 60 << 20 for one in each
        )

    wait_until(is_counted, 30, "the kernel's counters")
    picture = taker.take(subjects)
    app, whole, above = picture.containers["app"], picture.pods["pod"], picture.kubepods
    assert above is not None
    for reading in (app, whole, above):
        assert reading.memory is not None
        assert 64 << 20 <= reading.memory.anon <= reading.memory.working_set < 1 << 30
        assert (reading.usage_us or 0) > 0
    assert whole.memory is not None
    assert whole.memory.file >= 60 << 20
    assert whole.io is not None
    assert picture.node.memory_total > picture.node.memory_free > picture.node.watermark > 0
    assert (picture.node.usage_us or 0) > (above.usage_us or 0)


def test_a_limit_is_read_and_its_absence_too(machine):
    pod = machine.make("pod")
    folder = Path(machine.layout.folder("memory", pod) or "")
    name = "memory.limit_in_bytes" if machine.layout.version == 1 else "memory.max"
    limits = []
    for text in (None, str(256 << 20)):
        if text is not None:
            (folder / name).write_text(text)
        memory = PictureTaker(machine.layout).take(Subjects(pods={"pod": pod})).pods["pod"].memory
        assert memory is not None
        limits.append(memory.limit)
    assert limits == [None, 256 << 20]


def test_run_queue_delay_stands_in_where_there_is_no_pressure(machine):
    pod = machine.make("pod")
    without = replace(machine.layout, unified=None)
    for _ in range(2 * (os.cpu_count() or 1)):
        machine.burn(pod)
    taker = PictureTaker(without)

    def waited() -> int:
        return taker.take(Subjects(containers={"app": pod})).containers["app"].run_delay_us or 0

    wait_until(lambda: waited() > 200_000, 30, "0.2 s of waiting for a CPU")


def test_a_tick_reads_run_queue_delay_of_busy_tasks(machine):
    pod = machine.make("pod")
    without = replace(machine.layout, unified=None)
    for _ in range(2 * (os.cpu_count() or 1)):
        machine.burn(pod)
    reader, sampler = CgroupReader(without), FastSampler(without)
    sampler.watch((Group(Role.ONLINE, stalled=pod),))

    def seen() -> Sample:
        (sample,) = sampler.read(time.monotonic())
        return sample

    assert seen().stalled_us is None
    assert sampler.without_pressure == {pod}
    before = reader.tasks(pod)
    wait_until(lambda: run_delay.busiest(before, reader.tasks(pod)), 30, "tasks that want a CPU")
    sampler.follow({pod: run_delay.busiest(before, reader.tasks(pod))})
    wait_until(lambda: (seen().stalled_us or 0) > 200_000, 30, "0.2 s of waiting for a CPU")
    assert seen().signal is Signal.RUN_DELAY
    machine.end()
    assert seen().stalled_us is None
    sampler.close()
    assert sampler.open_files == 0
