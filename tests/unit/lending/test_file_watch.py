"""A write to a reclaim cgroup is found by an inotify watch: real files, real watches, a real thread."""

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_coloc.core.decisions import PodRemoved, PoolsSized
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.state import RECLAIM
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.inotify import Touched, Watches
from nri_coloc.host.journal import Journal
from nri_coloc.lending import relocation as module
from nri_coloc.lending.relocation import FileWatch, Member, Relocation
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE
from nri_coloc.sim import shared_files
from tests.rig.waiting import PATIENCE_SECONDS, poll, wait_until
from tests.unit.parts import a_node, a_report, an_actuator, start_pod

PATIENCE_S = PATIENCE_SECONDS
A_WHILE_S = 0.3
"""Seconds; many times the time that a write takes to be noticed."""


class Rig:
    """Reclaim cgroups of one file each, in a folder; each check is noted."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        self.looked: list[str] = []
        self.file_watch = FileWatch(a_report(a_node())[0])
        for name in names:
            (folder / name).write_text("1024")
        self.follow(*names)

    def follow(self, *names: str) -> None:
        self.file_watch.follow({name: Member(self.look(name), self.files(name)) for name in names})

    def look(self, name: str) -> Callable[[], None]:
        return lambda: self.looked.append(name)

    def files(self, name: str) -> Callable[[], tuple[str, ...]]:
        return lambda: (str(self.folder / name), str(self.folder / "a file that no kernel has"))

    def begin(self) -> None:
        self.file_watch.start()
        self.wait_watching(set(self.file_watch._members))

    def wait_watching(self, names: set[str]) -> None:
        wait_until(lambda: self.file_watch._watched == names, PATIENCE_S, f"watches of {names}")

    def write(self, name: str) -> None:
        (self.folder / name).write_text("2")

    def wait_looked(self, *names: str) -> None:
        wait_until(lambda: set(names) <= set(self.looked), PATIENCE_S, f"a look at {names}")

    def rests(self) -> bool:
        """Return whether no cgroup is checked for a while."""
        before = len(self.looked)
        return not poll(lambda: len(self.looked) > before, A_WHILE_S)

    @property
    def watched_files(self) -> frozenset[str]:
        return self.file_watch._watches.files


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.2)
    found = Rig(tmp_path, "a", "b")
    yield found
    found.file_watch.stop()
    assert found.file_watch.ended(PATIENCE_S)


def test_whoever_somebody_wrote_to_is_looked_at_and_nobody_else(rig: Rig):
    rig.begin()
    rig.write("a")
    rig.wait_looked("a")
    assert rig.rests()
    assert set(rig.looked) == {"a"}


def test_a_cgroup_that_we_wrote_is_checked_later(rig: Rig):
    rig.begin()
    rig.file_watch.look_at_next()
    rig.file_watch.look_at_next()
    rig.looked.clear()
    rig.file_watch.look_at_next()
    assert rig.looked == [], "the kernel reports both"
    rig.file_watch.wrote("a")
    rig.write("a")
    assert rig.rests()
    rig.file_watch.look_at_next()
    assert rig.looked == ["a"]
    rig.file_watch.look_at_next()
    assert rig.looked == ["a"], "and then it is quiet again"


def test_what_somebody_writes_after_ourselves_is_looked_at(rig: Rig):
    rig.begin()
    rig.file_watch.wrote("a")
    rig.write("a")
    wait_until(lambda: not rig.file_watch._ours, PATIENCE_S, "our own write to be taken note of")
    rig.write("a")
    rig.wait_looked("a")


def test_a_foreign_write_after_ours_is_checked(rig: Rig):
    rig.begin()
    rig.file_watch.wrote("a")
    rig.file_watch.look_at_next()
    rig.file_watch.look_at_next()
    rig.looked.clear()
    rig.write("a")
    rig.wait_looked("a")


def test_who_may_be_made_anew_at_its_path_keeps_its_turn(rig: Rig):
    rig.file_watch.follow({"a": Member(rig.look("a"), rig.files("a"), may_be_remade=True)})
    rig.begin()
    for _ in range(3):
        rig.file_watch.look_at_next()
    assert rig.looked == ["a"] * 3


def test_a_stranger_that_we_write_to_is_nobodys_business(rig: Rig):
    rig.file_watch.wrote("somebody")
    assert rig.file_watch._ours == set()


def test_who_came_is_watched_and_who_left_is_not(rig: Rig):
    rig.begin()
    (rig.folder / "c").write_text("1024")
    rig.follow("b", "c")
    rig.wait_watching({"b", "c"})
    assert rig.watched_files == {str(rig.folder / name) for name in "bc"}
    rig.write("a")
    rig.write("c")
    rig.wait_looked("c")
    assert rig.looked == ["c"]


def test_with_nobody_left_no_watch_is_left(rig: Rig):
    rig.begin()
    rig.follow()
    wait_until(lambda: not rig.watched_files, PATIENCE_S, "the last watch to go")


def test_a_member_whose_files_went_keeps_its_turn(rig: Rig):
    rig.begin()
    rig.file_watch.look_at_next()
    rig.file_watch.look_at_next()
    rig.looked.clear()
    (rig.folder / "a").unlink()
    rig.wait_looked("a")
    rig.wait_watching({"b"})
    rig.looked.clear()
    rig.file_watch.look_at_next()
    rig.file_watch.look_at_next()
    assert rig.looked == ["a", "a"]


def test_once_in_a_while_what_was_made_anew_is_watched(rig: Rig, monkeypatch):
    monkeypatch.setattr(module, "ARMED_EVERY_S", 0.05)
    (rig.folder / "b").unlink()
    rig.file_watch.start()
    rig.wait_watching({"a"})
    (rig.folder / "b").write_text("1024")
    rig.wait_watching({"a", "b"})


def test_where_events_were_lost_everybody_is_looked_at(rig: Rig, monkeypatch):
    lost = iter([Touched(lost=True)])
    monkeypatch.setattr(Watches, "read", lambda _: next(lost, Touched()))
    rig.begin()
    rig.wait_looked("a", "b")


def test_a_look_that_fails_ends_nothing(rig: Rig):
    def fail() -> None:
        rig.looked.append("a")
        raise ValueError("an unexpected error")

    rig.file_watch.follow({"a": Member(fail, rig.files("a")), "b": Member(rig.look("b"), rig.files("b"))})
    rig.begin()
    rig.write("a")
    rig.write("b")
    rig.wait_looked("a", "b")


def test_a_rival_that_answers_each_look_takes_little_of_a_core(rig: Rig):
    def provoke() -> None:
        rig.looked.append("a")
        rig.write("a")

    rig.file_watch.follow({"a": Member(provoke, rig.files("a"))})
    rig.begin()
    rig.write("a")
    rig.wait_looked("a")
    began, cpu_s = time.monotonic(), time.process_time()
    wait_until(lambda: time.monotonic() - began > 1, PATIENCE_S, "a second to pass")
    looked, took_s, spent_s = len(rig.looked), time.monotonic() - began, time.process_time() - cpu_s
    assert looked < 50 * took_s
    assert spent_s < 0.5 * took_s, "mostly the test's own waiting"


@pytest.mark.parametrize("call", ["open", "add"])
def test_where_the_kernel_grants_no_watches_all_have_their_turn(rig: Rig, monkeypatch, call):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no watch is left")

    monkeypatch.setattr(Watches, call, refuse)
    said: list[str] = []
    monkeypatch.setattr(rig.file_watch._report.log, "warning", lambda words, **_: said.append(words))
    rig.file_watch.start()
    wait_until(lambda: said, PATIENCE_S, "the record for the operator")
    for _ in range(4):
        rig.file_watch.look_at_next()
    assert sorted(rig.looked) == ["a", "a", "b", "b"]
    assert len(said) == 1


def test_one_that_never_began_has_ended(rig: Rig):
    assert rig.file_watch.ended(0)


class Box:
    """A reclaim pool of two CPUs with one pod on cgroup v1, in a folder; nothing sweeps here."""

    def __init__(self, root: Path) -> None:
        self.pod = {name: root / name / "kubepods/podbatch" for name in ("cpu", "cpuset")}
        for name, (file, text) in {"cpu": ("cpu.shares", "1024"), "cpuset": ("cpuset.cpus", "0-7")}.items():
            self.pod[name].mkdir(parents=True)
            (self.pod[name] / file).write_text(text)
        layout = CgroupLayout(1, **{n: str(root / n) for n in ("cpu", "cpuset", "memory", "blkio")})
        self.node = a_node(Tuning(reclaim=ReclaimTuning(enabled=True)))
        report, self.heard = a_report(self.node)
        self.file_watch = FileWatch(report)
        writer = CgroupWriter(layout, Journal(str(root / "journal")), str(root), self.file_watch.wrote)
        self.actuator = an_actuator(self.node, writer, report)
        self.relocation = Relocation(self.node, self.actuator, self.file_watch, after=(), eevdf=False)
        start_pod(self.node, "batch")
        self.node.decide(PoolsSized({RECLAIM: 2}, "pool resized: a test wants it"))
        self.actuator.place_pod("batch")
        self.relocation.look_at(self.node.state)
        self.file_watch.start()
        wait_until(lambda: self.file_watch._watched, PATIENCE_S, "watches")

    @property
    def cpus(self) -> str:
        return (self.pod["cpuset"] / "cpuset.cpus").read_text()

    @property
    def shares(self) -> str:
        return shared_files.read(self.pod["cpu"] / "cpu.shares") or ""

    def drifts(self) -> int:
        return sum(event == "drift.repair" for event, _ in self.heard.said())


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path)
    yield found
    found.file_watch.stop()
    assert found.file_watch.ended(PATIENCE_S)


def test_foreign_cpus_of_a_reclaimed_pod_are_repaired_and_recorded(box: Box):
    ours = box.cpus
    (box.pod["cpuset"] / "cpuset.cpus").write_text("0-7")
    wait_until(lambda: box.cpus == ours, PATIENCE_S, "the CPUs of the reclaim pool")
    wait_until(box.drifts, PATIENCE_S, "a record")


def test_a_repair_is_no_reason_for_another(box: Box):
    ours = box.cpus
    (box.pod["cpuset"] / "cpuset.cpus").write_text("0-7")
    wait_until(lambda: box.cpus == ours, PATIENCE_S, "the CPUs of the reclaim pool")
    wait_until(box.drifts, PATIENCE_S, "its record")
    box.file_watch.look_at_next()
    assert not poll(lambda: box.drifts() > 1, A_WHILE_S)


def test_a_rival_that_never_tires_may_have_it_for_now(box: Box):
    def given_up() -> bool:
        shared_files.put(box.pod["cpu"] / "cpu.shares", "9000")
        box.file_watch.look_at_next()
        return box.drifts() >= REPAIRS_PER_MINUTE

    wait_until(given_up, PATIENCE_S, "the last repair of this minute")
    shared_files.put(box.pod["cpu"] / "cpu.shares", "9000")
    assert not poll(lambda: box.shares == "2", A_WHILE_S)


def test_a_pod_that_is_gone_leaves_no_watch(box: Box):
    box.node.decide(PodRemoved("batch"))
    box.relocation.look_at(box.node.state)
    watches = box.file_watch._watches
    wait_until(lambda: not watches.files, PATIENCE_S, "the last watch to go")
