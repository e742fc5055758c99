"""After the journal is lost, no value of the daemon is taken for an original value."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import restoration
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import FileValue, Target
from nri_coloc.host.marks import Marks
from tests.rig import attributes

POD = "kubepods/besteffort/pod1"
APP = f"{POD}/app"
FORMER = {"cpuset.cpus": "", "cpu.weight": "39", "memory.high": "max", "memory.max": "8192"}


class Node:
    """A v2 hierarchy with a pod, and processes of the daemon one after another."""

    def __init__(self, root: Path) -> None:
        self.root, self.base = root, root / "sys/fs/cgroup"
        self.journal_path = root / "state/restore.jsonl"
        self.journal_path.parent.mkdir()
        for path in (POD, APP):
            folder = self.base / path
            folder.mkdir(parents=True)
            for name, text in {**FORMER, "cpuset.cpus.effective": "0-7"}.items():
                (folder / name).write_text(f"{text}\n")
        for folder in (self.base, *self.base.rglob("*/")):
            folder.chmod(0o755)
        self.layout = CgroupLayout(2, *[str(self.base)] * 4)
        self.start()

    def start(self) -> None:
        self.journal = Journal(str(self.journal_path), str(self.root), Marks(self.layout.mounts))
        self.said = self.journal.begin()
        self.writer = CgroupWriter(self.layout, self.journal, str(self.root), lambda _: None)

    def lose_journal(self) -> None:
        self.journal_path.unlink()

    def write(self, cpus: str, weight: str, path: str = POD) -> None:
        values = (FileValue("cpu", "cpu.weight", weight),)
        self.writer.apply(Target(path, cpuset.parse(cpus), values, journalled=True))

    def bound(self, high: int) -> None:
        values = (FileValue("memory", "memory.high", str(high)), FileValue("memory", "memory.max", str(high)))
        self.writer.bound(POD, values)

    def restore(self) -> restoration.Restored:
        journal = Journal(str(self.journal_path), str(self.root), Marks(self.layout.mounts))
        journal.load()
        return restoration.restore(journal, str(self.root), 2)

    def shown(self, path: str = POD) -> dict[str, str]:
        return {name: (self.base / path / name).read_text().strip() for name in FORMER}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with attributes.folder(tmp_path) as folder:
        yield Node(folder)


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel refuse marks."""

    def refused(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    for name in ("setxattr", "removexattr", "listxattr"):
        monkeypatch.setattr(os, name, refused)


class TestACgroupWithoutRoom:
    """A pod can have more containers than its cgroup takes marks, and a mark can grow beyond the room."""

    @pytest.fixture(autouse=True)
    def full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the pod's cgroup take no mark once `is_full` is set."""
        self.is_full, kernels = False, os.setxattr

        def limited(folder: str, name: str, text: bytes) -> None:
            if self.is_full and folder.endswith(POD):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            kernels(folder, name, text)

        monkeypatch.setattr(os, "setxattr", limited)

    def test_the_journal_has_every_value_of_ours(self, node):
        node.write("0-3", "1")
        node.bound(4096)
        node.bound(8192)
        self.is_full = True
        node.write("0-3", "2")
        node.start()
        for name, text in (("cpu.weight", "2"), ("memory.high", "8192")):
            assert not node.journal.entry(f"{node.base}/{POD}/{name}").is_anothers(text)

    def test_marks_of_other_cgroups_work_on(self, node):
        other = "kubepods/besteffort"
        (node.base / other / "cpu.weight").write_text("39\n")
        self.is_full = True
        node.write("0-3", "1")
        node.write("", "1", other)
        before = node.journal_path.read_text()
        node.write("", "2", other)
        assert node.journal_path.read_text() == before
        node.lose_journal()
        node.start()
        assert node.journal.original(f"{node.base}/{other}/cpu.weight") == "39"


class TestWithMarks:
    def test_originals_come_from_the_cgroups(self, node):
        node.write("0-3", "1")
        node.bound(4096)
        node.lose_journal()
        node.start()
        node.write("0-5", "1")
        assert node.restore().unknown == ()
        assert node.shown() == FORMER

    def test_it_is_said(self, node):
        node.write("0-3", "1")
        node.lose_journal()
        node.start()
        ((because, inputs),) = node.said
        assert because == "restore journal missing: its values were read from the cgroups' marks (values=2)"
        assert inputs == {"file": str(node.journal_path), "values": 2}

    def test_a_first_start_says_nothing(self, node):
        assert node.said == []

    def test_files_that_only_the_former_process_wrote_are_restored(self, node):
        node.write("0-3", "1")
        node.lose_journal()
        assert node.restore().done
        assert node.shown() == FORMER

    def test_restored_files_have_no_mark_any_more(self, node):
        node.write("0-3", "1")
        node.restore()
        assert Marks(node.layout.mounts).read() == {}

    def test_an_ended_container_leaves_no_mark_on_its_pod(self, node):
        node.write("0-3", "1", APP)
        shutil.rmtree(node.base / APP)
        node.journal.forget_gone()
        assert Marks(node.layout.mounts).read() == {}

    def test_a_full_disk_loses_nothing(self, node):
        node.journal_path.unlink()
        node.journal_path.parent.rmdir()
        node.write("0-3", "1")
        assert node.journal.problem
        node.journal_path.parent.mkdir()
        node.restore()
        assert node.shown() == FORMER

    def test_a_value_that_was_given_back_stays_given_back(self, node):
        node.write("0-3", "1")
        node.writer.put_back(POD, frozenset())
        node.lose_journal()
        (node.base / POD / "cpu.weight").write_text("79\n")
        node.restore()
        assert node.shown()["cpu.weight"] == "79"

    def test_the_kubelets_newer_value_counts(self, node):
        node.write("0-3", "1")
        node.writer.resized(POD)
        (node.base / POD / "cpu.weight").write_text("79\n")
        node.write("0-3", "1")
        node.lose_journal()
        node.restore()
        assert node.shown()["cpu.weight"] == "79"


@pytest.mark.usefixtures("old_kernel")
class TestWithoutMarks:
    def relive(self, node: Node) -> None:
        """Lose the journal of a process that wrote, and start one that sees the records of containers."""
        node.start()
        node.write("0-3", "1")
        node.write("0-3", "1", APP)
        node.bound(4096)
        node.lose_journal()
        node.start()
        node.writer.know_earlier()

    def test_found_values_are_no_originals(self, node):
        self.relive(node)
        node.write("0-5", "1")
        node.bound(8000)
        done = node.restore()
        assert done.done == ()
        names = {file.rpartition("/")[2]: now for file, now in done.unknown}
        assert names == {"cpuset.cpus": "", "cpu.weight": "100", "memory.high": "max", "memory.max": "max"}
        assert node.shown() == {
            "cpuset.cpus": "",
            "cpu.weight": "100",
            "memory.high": "max",
            "memory.max": "max",
        }

    def test_a_containers_figures_stay_as_its_spec(self, node):
        self.relive(node)
        node.write("0-5", "2", APP)
        node.restore()
        assert node.shown(APP) == {**FORMER, "cpuset.cpus": "", "cpu.weight": "1"}

    def test_a_cgroup_that_came_since_is_trusted(self, node):
        self.relive(node)
        folder = node.base / "kubepods/besteffort/pod2"
        folder.mkdir()
        for name in ("cpu.weight", "cpuset.cpus", "cpuset.cpus.effective"):
            (folder / name).write_text("7\n")
        node.write("0-5", "1", "kubepods/besteffort/pod2")
        assert {file.rpartition("/")[2] for file in node.restore().done} == {"cpu.weight", "cpuset.cpus"}

    def test_the_next_process_knows_that_the_journal_is_not_whole(self, node):
        self.relive(node)
        node.start()
        assert "is not whole" in node.journal.lacking
        node.write("0-5", "1")
        assert node.restore().done == ()

    def test_on_a_first_start_found_values_are_originals(self, node):
        node.start()
        node.write("0-3", "1")
        assert node.restore().unknown == ()
        assert node.shown() == FORMER

    def test_with_its_journal_a_restart_trusts_them_too(self, node):
        node.start()
        node.write("0-3", "1")
        node.start()
        node.writer.know_earlier()
        node.bound(4096)
        assert node.restore().unknown == ()
        assert node.shown() == FORMER
