"""Two daemons on one machine: each restores its own values, and takes no value of the other for an original."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import restoration
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import FileValue, Target
from nri_coloc.host.marks import NAME, Marks
from tests.rig import attributes

A_POD = "a/kubepods/burstable/pod1"
B_POD = "b/kubepods/burstable/pod1"
C_POD = "a/kubepods/burstable/pod2"
FORMER = {"cpuset.cpus": "", "cpu.weight": "39"}


class Host:
    """A v2 hierarchy with the pods of two nodes."""

    def __init__(self, root: Path) -> None:
        self.root, self.base = root, root / "sys/fs/cgroup"
        for path in (A_POD, B_POD, C_POD):
            (self.base / path).mkdir(parents=True)
            for name, text in {**FORMER, "cpuset.cpus.effective": "0-7"}.items():
                (self.base / path / name).write_text(f"{text}\n")
            (self.base / path / "memory.max").write_text("8192\n")
        for folder in (self.base, *self.base.rglob("*/")):
            folder.chmod(0o755)
        self.layout = CgroupLayout(2, *[str(self.base)] * 4)

    def shown(self, path: str) -> dict[str, str]:
        return {name: (self.base / path / name).read_text().strip() for name in FORMER}

    def owner(self, path: str) -> str:
        """Return the state folder that a pod's mark names, "" without a mark."""
        found = Marks(self.layout.mounts).read().items()
        return next((mark.owner.folder for file, mark in found if f"/{path}/" in file), "")

    def forget_names(self) -> None:
        """Write the marks as an older version did, which named no daemon."""
        for path in (A_POD, B_POD):
            folder = self.base / path
            if NAME in os.listxattr(folder):
                os.setxattr(folder, NAME, b'[{"cpuset.cpus":"","cpu.weight":"39"}]')


class Daemon:
    """A daemon with its state folder; each call is a process of its own."""

    def __init__(self, host: Host, name: str) -> None:
        self._host = host
        self.path = host.root / name / "restore.jsonl"
        self.path.parent.mkdir()

    def journal(self) -> Journal:
        return Journal(str(self.path), str(self._host.root), Marks(self._host.layout.mounts))

    def begun(self) -> Journal:
        journal = self.journal()
        journal.begin()
        return journal

    def pin(self, path: str, cpus: str = "0-3") -> None:
        journal = self.begun()
        writer = CgroupWriter(self._host.layout, journal, str(self._host.root), lambda _: None)
        values = (FileValue("cpu", "cpu.weight", "1"),)
        writer.apply(Target(path, cpuset.parse(cpus), values, journalled=True))

    def forget_name(self) -> None:
        """Write the journal as an older version did, which named no daemon."""
        header, _, entries = self.path.read_text().partition("\n")
        assert header.startswith('{"journal":2')
        self.path.write_text('{"journal":2,"boot":"","whole":true}\n' + entries)

    def elsewhere(self) -> dict[str, int]:
        """Return the numbers of values that `restore` reports as another daemon's, by state folder."""
        journal = self.journal()
        journal.load()
        return dict(journal.elsewhere)

    def restore(self) -> restoration.Restored:
        journal = self.journal()
        journal.load()
        return restoration.restore(journal, str(self._host.root), 2)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with attributes.folder(tmp_path) as folder:
        yield Host(folder)


@pytest.fixture
def daemons(host: Host) -> tuple[Daemon, Daemon]:
    """Return two daemons that have each pinned a pod."""
    first, second = Daemon(host, "first"), Daemon(host, "second")
    first.pin(A_POD)
    second.pin(B_POD)
    return first, second


OURS = {"cpuset.cpus": "0-3", "cpu.weight": "1"}


def test_restore_leaves_another_daemons_values(host, daemons):
    first, second = daemons
    first.restore()
    assert (host.shown(A_POD), host.shown(B_POD)) == (FORMER, OURS)
    second.restore()
    assert host.shown(B_POD) == FORMER


def test_a_lost_state_folder_costs_no_neighbour(host, daemons):
    first, second = daemons
    first.path.unlink()
    first.restore()
    assert (host.shown(A_POD), host.shown(B_POD)) == (FORMER, OURS)
    second.path.unlink()
    second.restore()
    assert host.shown(B_POD) == FORMER


def test_a_restart_takes_no_neighbours_values(host, daemons):
    first, second = daemons
    first.begun()
    assert all(B_POD not in file for file in first.journal().files())
    second.path.unlink()
    second.restore()
    assert host.shown(B_POD) == FORMER


def test_a_moved_state_folder_keeps_its_marks(host, daemons):
    first, _ = daemons
    moved = first.path.parent.rename(host.root / "moved") / "restore.jsonl"
    header = moved.read_text().splitlines()[0]
    moved.write_text(f"{header}\n")
    first.path = moved
    first.restore()
    assert (host.shown(A_POD), host.shown(B_POD)) == (FORMER, OURS)


def test_another_state_folder_takes_over_what_it_writes_to(host, daemons):
    later = Daemon(host, "later")
    later.pin(A_POD, "2-5")
    later.restore()
    assert (host.shown(A_POD), host.shown(B_POD)) == (FORMER, OURS)


def test_a_suspected_value_takes_the_cgroup_over(host, daemons):
    later = Daemon(host, "later")
    later.begun().suspect(str(host.base / A_POD / "cpu.weight"), "1")
    assert (host.owner(A_POD), host.owner(B_POD)) == (str(later.path.parent), str(daemons[1].path.parent))


def test_an_old_state_folder_undoes_no_successor(host, daemons):
    first, _ = daemons
    later = Daemon(host, "later")
    later.pin(A_POD, "2-5")
    assert first.restore() == restoration.Restored()
    assert host.shown(A_POD) == OURS | {"cpuset.cpus": "2-5"}
    later.path.unlink()
    later.restore()
    assert host.shown(A_POD) == FORMER


def test_a_start_overwrites_no_successors_mark(host, daemons):
    first, _ = daemons
    later = Daemon(host, "later")
    later.pin(A_POD)
    first.begun()
    assert host.owner(A_POD) == str(later.path.parent)


def test_a_value_noted_already_leaves_a_successors_mark(host, daemons):
    earlier = daemons[0].begun()
    later = Daemon(host, "later")
    later.pin(A_POD)
    earlier.note(str(host.base / A_POD / "cpu.weight"), "1")
    assert host.owner(A_POD) == str(later.path.parent)


def test_a_start_writes_missing_marks_again(host, daemons):
    first, _ = daemons
    os.removexattr(host.base / A_POD, NAME)
    first.begun()
    assert host.owner(A_POD) == str(first.path.parent)


@pytest.mark.parametrize("files", [("cpu.weight",), ("cpu.weight", "cpuset.cpus")])
def test_forgotten_values_leave_a_successors_mark(host, daemons, files):
    earlier = daemons[0].begun()
    later = Daemon(host, "later")
    later.pin(A_POD)
    for name in files:
        earlier.forget(str(host.base / A_POD / name))
    assert host.owner(A_POD) == str(later.path.parent)


def test_kept_values_leave_a_successors_mark(host, daemons):
    earlier = daemons[0].begun()
    later = Daemon(host, "later")
    later.pin(A_POD)
    earlier.keep(())
    assert host.owner(A_POD) == str(later.path.parent)


def test_a_daemon_takes_its_pod_back(host, daemons):
    first, _ = daemons
    Daemon(host, "later").pin(A_POD, "2-5")
    first.pin(A_POD)
    first.restore()
    assert host.shown(A_POD) == FORMER


def test_a_take_over_adopts_no_restored_value(host, daemons):
    later = Daemon(host, "later")
    beside = later.begun()
    daemons[0].restore()
    weight, cpus = (host.base / A_POD / name for name in ("cpu.weight", "cpuset.cpus"))
    weight.write_text("79\n")
    beside.note(str(cpus), "")
    cpus.write_text("2-5\n")
    later.restore()
    assert host.shown(A_POD) == {"cpuset.cpus": "", "cpu.weight": "79"}


@pytest.mark.parametrize("act", ["note", "renew"])
def test_a_take_over_sees_later_marks(host, daemons, act):
    del daemons
    third = Daemon(host, "third")
    beside = third.begun()
    Daemon(host, "fourth").pin(C_POD)
    getattr(beside, act)(str(host.base / C_POD / "memory.max"), "8192")
    third.restore()
    assert host.shown(C_POD) == FORMER


def test_a_renewed_value_takes_the_cgroup_back(host, daemons):
    first, _ = daemons
    earlier = first.begun()
    Daemon(host, "later").pin(A_POD)
    earlier.renew(str(host.base / A_POD / "cpu.weight"), "79")
    first.path.unlink()
    first.restore()
    assert host.shown(A_POD) == FORMER | {"cpu.weight": "79"}


def test_a_journal_of_a_backup_tells_of_marks(host, daemons):
    del daemons
    daemon = Daemon(host, "third")
    daemon.begun()
    backup = daemon.path.read_text()
    daemon.path.unlink()
    daemon.pin(C_POD)
    daemon.path.write_text(backup)
    assert (daemon.restore(), daemon.elsewhere()) == (restoration.Restored(), {str(daemon.path.parent): 2})
    daemon.path.unlink()
    daemon.restore()
    assert host.shown(C_POD) == FORMER


def test_an_old_state_folder_names_its_successor(host, daemons):
    later = Daemon(host, "later")
    later.pin(A_POD)
    assert daemons[0].elsewhere() == {str(later.path.parent): 2}


def test_a_neighbour_is_not_named(daemons):
    assert [daemon.elsewhere() for daemon in daemons] == [{}, {}]


def test_a_neighbour_with_an_equal_path_is_told_by_its_name(host, daemons):
    first, second = daemons
    first.path.parent.rename(host.root / "elsewhere")
    second.path.parent.rename(host.root / "first")
    second.path = first.path
    second.restore()
    assert (host.shown(A_POD), host.shown(B_POD)) == (OURS, FORMER)


def test_nameless_marks_are_restored_by_their_journal(host, daemons):
    for daemon in daemons:
        daemon.forget_name()
    host.forget_names()
    daemons[0].restore()
    assert (host.shown(A_POD), host.shown(B_POD)) == (FORMER, OURS)


def test_nameless_marks_without_a_journal_are_restored(host, daemons):
    host.forget_names()
    daemons[0].path.unlink()
    daemons[0].restore()
    assert host.shown(A_POD) == FORMER


def test_an_update_names_the_nameless_marks(host, daemons):
    first, _ = daemons
    first.forget_name()
    host.forget_names()
    first.begun()
    first.path.unlink()
    first.restore()
    assert host.shown(A_POD) == FORMER


def test_an_older_version_reads_a_named_mark(host, daemons):
    """It iterates over every list behind the values for the unknown ones (`texts, *more`)."""
    del daemons
    texts, *more = json.loads(os.getxattr(host.base / A_POD, NAME))
    assert (texts, more[0]) == ({"cpuset.cpus": "", "cpu.weight": "39"}, [])
    assert not {str(name) for names in more for name in names} & texts.keys()
