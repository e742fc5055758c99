"""host/write_back.py: a value of a pod's resize becomes the original value; another writer's does not."""

from pathlib import Path

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import FileValue, Target
from nri_coloc.host.write_back import LASTS_S, MOST, Overwritten
from tests.rig.journals import load
from tests.unit.host.host import SHARES, Host

FOLDER = "/cg/pod"
FILE = f"{FOLDER}/memory.max"
GIB = 1 << 30
LIMIT = FileValue("memory", "memory.max", str(GIB))


class Rig:
    """A pod's file with the original value 2, in which the daemon wrote 1."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(str(path))
        self.journal.note(FILE, "2")
        self.overwritten = Overwritten(self.journal)
        self.overwritten.wrote(FILE, "1")

    @property
    def original(self) -> str | None:
        """Return the journal's original value, which must be the same in memory and on disk."""
        found = self.journal.original(FILE)
        assert load(str(self.path)).get(FILE) == found
        return found


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "journal")


class TestWhoseValueIsPutBack:
    def test_value_after_an_announced_resize_is_the_kubelets(self, rig):
        rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.found(FILE, "3", 100 + LASTS_S / 2)
        assert rig.original == "3"

    def test_a_told_value_that_equals_ours_is_the_kubelets(self, rig):
        rig.overwritten.resized(FOLDER, 100, [FileValue("memory", "memory.max", "1")])
        assert rig.original == "1"

    def test_a_told_value_that_differs_is_looked_for(self, rig):
        rig.overwritten.resized(FOLDER, 100, [FileValue("memory", "memory.max", "3")])
        assert rig.original == "2"

    def test_an_earlier_process_may_have_written_the_same(self, rig):
        again = Overwritten(rig.journal)
        again.resized(FOLDER, 100, [FileValue("memory", "memory.max", "1")])
        assert rig.original == "1"

    def test_value_shortly_before_it_is_the_kubelets(self, rig):
        rig.overwritten.found(FILE, "3", 100)
        assert rig.original == "2"
        rig.overwritten.resized(FOLDER, 100 + LASTS_S / 2)
        assert rig.original == "3"

    @pytest.mark.parametrize("later", [True, False], ids=["long after", "long before"])
    def test_value_at_another_time_is_a_reset(self, rig, later):
        if later:
            rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.found(FILE, "3", 100 + LASTS_S)
        if not later:
            rig.overwritten.resized(FOLDER, 100 + 2 * LASTS_S)
        assert rig.original == "2"

    def test_another_pods_resize_is_nothing_to_it(self, rig):
        rig.overwritten.resized("/cg/other", 100)
        rig.overwritten.found(FILE, "3", 100)
        assert rig.original == "2"

    def test_our_own_value_is_nobody_elses(self, rig):
        rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.found(FILE, "1", 100)
        assert rig.original == "2"

    def test_the_previous_processs_value_is_ours(self, rig):
        again = Overwritten(rig.journal)
        again.resized(FOLDER, 100)
        again.found(FILE, "1", 100)
        assert rig.original == "2"

    def test_a_value_after_the_previous_process_is_original(self, rig):
        Overwritten(rig.journal).found(FILE, "3", 100)
        assert rig.original == "3"

    def test_file_never_written_by_kubelets_keeps_its_original(self, rig):
        io = f"{FOLDER}/io.weight"
        rig.journal.note(io, "default 100")
        rig.overwritten.wrote(io, "default 10")
        rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.found(io, "default 50", 100)
        assert rig.journal.original(io) == "default 100"

    def test_what_the_journal_forgot_is_forgotten(self, rig):
        rig.overwritten.found(FILE, "3", 100)
        rig.journal.forget(FILE)
        rig.overwritten.tidy(100 + LASTS_S)
        rig.overwritten.resized(FOLDER, 100 + LASTS_S)
        assert (rig.overwritten.ours(FILE), rig.original) == (None, None)

    def test_a_recent_value_outlasts_a_tidying(self, rig):
        rig.overwritten.found(FILE, "3", 100)
        rig.overwritten.tidy(101)
        rig.overwritten.resized(FOLDER, 102)
        assert rig.original == "3"

    def test_a_recent_resize_outlasts_a_tidying(self, rig):
        rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.tidy(101)
        rig.overwritten.found(FILE, "3", 102)
        assert rig.original == "3"

    def test_oldest_of_too_many_resizes_are_forgotten(self, rig):
        rig.overwritten.resized("/cg/first", 100)
        rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.resized("/cg/first", 100)
        for number in range(MOST - 1):
            rig.overwritten.resized(f"/cg/{number}", 100)
        rig.overwritten.found(FILE, "3", 101)
        assert rig.original == "2"

    def test_repeated_resize_is_the_newest(self, rig):
        for _ in range(2):
            rig.overwritten.resized(FOLDER, 100)
            for number in range(MOST - 1):
                rig.overwritten.resized(f"/cg/{number}", 100)
        rig.overwritten.found(FILE, "3", 101)
        assert rig.original == "3"

    def test_a_resize_that_is_over_is_forgotten(self, rig):
        rig.overwritten.resized(FOLDER, 100)
        rig.overwritten.tidy(100 + LASTS_S)
        rig.overwritten.found(FILE, "3", 101)
        assert rig.original == "2"


def bounded(host: Host, limit: str, *, first: bool = True) -> str:
    """Return the pod's limit after another writer set it to `limit` and the daemon bounded it to 1 GiB."""
    host.cgroup(memory_max=limit)
    writer = (
        host.writer
        if first
        else CgroupWriter(host.writer._layout, host.journal, str(host.root), lambda _: None)
    )
    assert writer.bound("pod", (LIMIT,)).failures == ()
    return host.text("memory.max")


class TestBounds:
    def test_resize_below_our_bound_stays(self, v2):
        assert bounded(v2, str(2 * GIB)) == str(GIB)
        v2.writer.resized("pod")
        assert bounded(v2, "4096") == "4096"
        assert v2.noted()["memory.max"] == "4096"

    def test_resize_up_raises_the_bound(self, v2):
        assert bounded(v2, "4096") == "4096"
        v2.writer.resized("pod")
        assert bounded(v2, str(2 * GIB)) == str(GIB)
        assert v2.noted()["memory.max"] == str(2 * GIB)

    def test_no_limit_on_v1_is_above_a_bound(self, v1):
        v1.cgroup(memory_limit_in_bytes=str(GIB))
        file = str(v1.file("memory.limit_in_bytes"))
        v1.journal.note_known(file, "-1")
        bound = FileValue("memory", "memory.limit_in_bytes", str(GIB // 2))
        assert v1.writer.bound("pod", (bound,)).failures == ()
        assert (v1.text("memory.limit_in_bytes"), v1.journal.original(file)) == (str(GIB // 2), "-1")

    def test_unannounced_raise_is_repaired(self, v2):
        bounded(v2, str(2 * GIB))
        assert bounded(v2, "max") == str(GIB)
        assert v2.noted()["memory.max"] == str(2 * GIB)

    def test_limit_raised_without_the_daemon_is_the_original(self, v2):
        bounded(v2, str(2 * GIB))
        assert bounded(v2, "max", first=False) == str(GIB)
        assert v2.noted()["memory.max"] == "max"

    def test_previous_bound_is_recognised_once_seen(self, v2):
        bounded(v2, str(2 * GIB))
        again = CgroupWriter(v2.writer._layout, v2.journal, str(v2.root), lambda _: None)
        for shown in (str(GIB), "max"):
            v2.cgroup(memory_max=shown)
            again.bound("pod", (LIMIT,))
        assert v2.noted()["memory.max"] == str(2 * GIB)


def test_shares_are_restored_to_the_resized_value(v1):
    v1.apply("", SHARES, journalled=True)
    v1.writer.resized("pod")
    v1.cgroup(cpu_shares="2048")
    v1.apply("", SHARES, journalled=True)
    assert (v1.text("cpu.shares"), v1.noted()["cpu.shares"]) == ("2", "2048")


def test_pod_keeps_its_resize_after_leaving(v1):
    v1.apply("", SHARES, journalled=True)
    v1.writer.resized("pod")
    v1.cgroup(cpu_shares="2048")
    assert v1.writer.put_back("pod", frozenset()) == ()
    assert (v1.text("cpu.shares"), v1.noted()) == ("2048", {})


def touched_and_resized(host: Host) -> None:
    host.apply("", SHARES, journalled=True)
    host.writer.resized("pod")
    host.cgroup(cpu_shares="2048")


def test_last_check_finds_an_unseen_resize(v1):
    touched_and_resized(v1)
    v1.writer.look_again()
    assert (v1.text("cpu.shares"), v1.noted()["cpu.shares"]) == ("2048", "2048")


def test_last_check_skips_missing_and_unreadable_files(v1, monkeypatch):
    touched_and_resized(v1)

    def refused(path: str) -> str | None:
        raise KernelInterfaceError(path, "read", "Permission denied")

    for read in (refused, lambda _path: None):
        monkeypatch.setattr(files, "read", read)
        v1.writer.look_again()
    assert v1.noted()["cpu.shares"] == "1024"


@pytest.mark.parametrize(("age", "read"), [(LASTS_S - 1, [FILE]), (LASTS_S, [])])
def test_last_check_reads_only_resizes_in_progress(rig, monkeypatch, age, read):
    found: list[str] = []
    monkeypatch.setattr(files, "read", found.append)
    rig.overwritten.resized(FOLDER, 100)
    rig.overwritten.look_again(100 + age)
    assert found == read


def test_previous_shares_are_recognised_once_seen(v1):
    v1.apply("", SHARES, journalled=True)
    again = CgroupWriter(v1.writer._layout, v1.journal, str(v1.root), lambda _: None)
    for shown in ("2", "2048"):
        v1.cgroup(cpu_shares=shown)
        again.apply(Target("pod", values=(SHARES,), journalled=True))
        again.resized("pod")
    assert v1.noted()["cpu.shares"] == "2048"


def test_bound_rounded_to_large_pages_is_ours(v2, monkeypatch):
    write = files.write
    monkeypatch.setattr(files, "write", lambda path, text: write(path, str(int(text) // 65536 * 65536)))
    v2.cgroup(memory_max="max")
    v2.writer.resized("pod")
    for _ in range(2):
        v2.writer.bound("pod", (FileValue("memory", "memory.max", str(GIB + 4096)),))
    assert v2.noted()["memory.max"] == "max"


class TestProtectionsOfOthers:
    def test_protection_raised_above_ours_stays(self, v2):
        v2.writer.protect("pod", "memory.low", 4096)
        v2.cgroup(memory_low="8192")
        for amount in (4096, 5000, 0):
            v2.writer.protect("pod", "memory.low", amount)
            assert v2.text("memory.low") == "8192"
        assert v2.noted() == {}

    def test_raised_protection_may_fall_to_ours(self, v2):
        v2.writer.protect("pod", "memory.low", 4096)
        for others, expected in (("8192", "8192"), ("100", "4096"), ("5000", "5000")):
            v2.cgroup(memory_low=others)
            v2.writer.protect("pod", "memory.low", 4096)
            assert (v2.text("memory.low"), v2.noted()["memory.low"]) == (expected, others)

    def test_what_was_given_back_is_theirs_again(self, v2):
        for others in ("0", "1000"):
            v2.cgroup(memory_low=others)
            v2.writer.protect("pod", "memory.low", 4096)
            v2.writer.protect("pod", "memory.low", 0)
            assert (v2.text("memory.low"), v2.noted()) == (others, {})

    def test_previous_protection_is_recognised_once_seen(self, v2):
        v2.writer.protect("pod", "memory.low", 4096)
        again = CgroupWriter(v2.writer._layout, v2.journal, str(v2.root), lambda _: None)
        for shown in ("4096", "8192"):
            v2.cgroup(memory_low=shown)
            again.protect("pod", "memory.low", 4096)
        assert v2.text("memory.low") == "8192"
