"""host/marks.py: original values are kept on the cgroups themselves."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core import knobs
from nri_coloc.core.knobs import Knobs
from nri_coloc.host import oom_scores, scheduler
from nri_coloc.host.knob_files import spec_files
from nri_coloc.host.marks import NAME, Marks, Owner
from nri_coloc.host.originals import Entry
from tests.rig import attributes

POD = "kubepods/besteffort/pod1"
FIGURES = Knobs(shares=2, quota=1, period=1, memory_limit=1)
NOTED = {file.name for file in knobs.files()} | {name for v in (1, 2) for name in spec_files(FIGURES, v)}
OWNER = Owner("/var/lib/nri-coloc", "one")
VALUES = {"cpuset.cpus": Entry("0-7"), "cpu.weight": Entry("100")}


class Host:
    """One hierarchy with a pod's cgroup and a container's."""

    def __init__(self, root: Path) -> None:
        self.mount = root / "cg"
        (self.mount / POD / "app").mkdir(parents=True)
        for folder in (self.mount, *self.mount.rglob("*")):
            folder.chmod(0o755)
        self.marks = Marks([str(self.mount)])

    def folder(self, path: str = POD) -> str:
        return str(self.mount / path)

    def read(self) -> dict[str, Entry]:
        """Read all marks as the next process does, by file below the mount."""
        found = Marks([str(self.mount)]).read()
        return {file.removeprefix(f"{self.mount}/"): mark.entry for file, mark in found.items()}

    def attributes(self, path: str = POD) -> list[str]:
        return os.listxattr(self.folder(path))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with attributes.folder(tmp_path) as folder:
        yield Host(folder)


def test_the_next_process_reads_the_values(host):
    host.marks.write(host.folder(), VALUES, OWNER)
    assert host.read() == {f"{POD}/{name}": one for name, one in VALUES.items()}


def test_the_next_process_knows_which_values_are_ours(host):
    ours = {"cpu.weight": Entry("100", ours=("1", "2"))}
    host.marks.write(host.folder(), ours, OWNER)
    assert host.read() == {f"{POD}/cpu.weight": ours["cpu.weight"]}


def test_a_value_that_is_not_known_stays_so(host):
    unknown = Entry("", is_known=False)
    host.marks.write(host.folder(), {"cpuset.cpus": unknown}, OWNER)
    assert host.read() == {f"{POD}/cpuset.cpus": unknown}


def test_a_mark_names_its_daemon(host):
    host.marks.write(host.folder(), VALUES, OWNER)
    assert {mark.owner for mark in host.marks.read().values()} == {OWNER}


def test_without_values_the_mark_is_taken_away(host):
    host.marks.write(host.folder(), VALUES, OWNER)
    host.marks.write(host.folder(), {}, OWNER)
    assert (host.read(), host.attributes()) == ({}, [])


def test_a_mark_that_is_not_there_is_no_refusal(host):
    host.marks.write(host.folder(), {}, OWNER)
    assert host.marks.refusal == ""


def test_an_older_versions_mark_names_unknown_values(host):
    os.setxattr(host.folder(), NAME, b'[{"cpuset.cpus":"","cpu.weight":"1"},["cpuset.cpus"]]')
    read = {f"{POD}/cpuset.cpus": Entry("", is_known=False), f"{POD}/cpu.weight": Entry("1")}
    assert host.read() == read


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns folders of root")
def test_marks_on_roots_folders_count_for_any_user(host, monkeypatch):
    host.marks.write(host.folder(), VALUES, OWNER)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert host.read() == {f"{POD}/{name}": one for name, one in VALUES.items()}


def test_a_mark_ends_with_its_cgroup(host):
    host.marks.write(host.folder(), VALUES, OWNER)
    (host.mount / POD / "app").rmdir()
    (host.mount / POD).rmdir()
    (host.mount / POD).mkdir()
    assert host.read() == {}


def test_a_mark_names_no_file_outside_its_cgroup(host):
    os.setxattr(host.folder(), f"{NAME}.../../../../etc", b'[{"cpu.weight":"1"}]')
    assert host.read() == {}


@pytest.mark.parametrize(
    "name", ["devices.allow", "cgroup.freeze", "memory.oom_control", "notify_on_release"]
)
def test_a_mark_names_only_files_that_we_write(host, name):
    os.setxattr(host.folder(), NAME, f'[{{"{name}":"1","cpu.weight":"7"}}]'.encode())
    assert host.read() == {f"{POD}/cpu.weight": Entry("7")}


@pytest.mark.parametrize("name", sorted({*NOTED, *oom_scores.NAMES, scheduler.NAME}))
def test_every_file_that_we_note_may_stand_in_a_mark(host, name):
    host.marks.write(host.folder(), {name: Entry("")}, OWNER)
    assert host.read() == {f"{POD}/{name}": Entry("")}


def test_a_containers_mark_lies_on_its_pod(host):
    host.marks.write(host.folder(f"{POD}/app"), VALUES, OWNER)
    assert (host.attributes(f"{POD}/app"), host.attributes()) == ([], [f"{NAME}.app"])
    assert host.read() == {f"{POD}/app/{name}": one for name, one in VALUES.items()}


def test_a_mark_that_a_container_wrote_itself_says_nothing(host):
    os.setxattr(host.folder(f"{POD}/app"), NAME, b'[{"cpu.weight":"10000"}]')
    assert host.read() == {}


def test_a_gone_containers_mark_is_taken_from_its_pod(host):
    host.marks.write(host.folder(f"{POD}/app"), VALUES, OWNER)
    (host.mount / POD / "app").rmdir()
    host.marks.write(host.folder(f"{POD}/app"), {}, OWNER)
    assert host.attributes() == []


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_folder_that_others_may_write_to_carries_none(host, mode):
    (host.mount / "yarn").mkdir()
    (host.mount / "yarn").chmod(mode)
    os.setxattr(host.folder("yarn"), NAME, b'[{"cpu.weight":"10000"}]')
    assert host.read() == {}
    host.marks.write(host.folder("yarn"), VALUES, OWNER)
    assert host.read() == {f"yarn/{name}": one for name, one in VALUES.items()}
    assert host.attributes("") == [f"{NAME}.yarn"]


def test_a_cgroup_that_ended_leaves_none_above_it(host):
    host.marks.write(host.folder("kubepods/besteffort/pod2"), VALUES, OWNER)
    assert host.attributes("kubepods/besteffort") == []


def test_files_elsewhere_have_none(host, tmp_path):
    host.marks.write(str(tmp_path), VALUES, OWNER)
    assert os.listxattr(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"\xff", b"1", b"null", b"[]", b"{}", b'["x"]', b"[" * 1500),
        *(b'[{"a/b":"1"}]', b'[{"cpu.weight":"much"}]', b'[{"cpu.weight":"1"},[],"me"]'),
    ],
)
def test_a_mark_that_is_none_of_ours_says_nothing(host, text):
    os.setxattr(host.folder(), NAME, text)
    assert host.read() == {}


class TestAKernelThatTakesNone:
    """Kernels before 5.7 take no marks, and some file systems of tests have no attributes."""

    @pytest.fixture(autouse=True)
    def refuse(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_: object) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        for name in ("setxattr", "removexattr", "listxattr"):
            monkeypatch.setattr(os, name, refused)

    def test_it_is_found_out(self, host):
        host.marks.probe()
        assert not host.marks.work
        assert host.marks.refusal == f"{host.mount}: Operation not supported"

    def test_a_refused_write_tells_it_too(self, host):
        host.marks.write(host.folder(), VALUES, OWNER)
        assert host.marks.refusal == f"{host.folder()}: Operation not supported"

    def test_nothing_is_read_and_nothing_fails(self, host):
        host.marks.write(host.folder(), VALUES, OWNER)
        assert host.read() == {}


def test_a_kernel_that_takes_them_is_found_out(host):
    host.marks.probe()
    assert (host.marks.work, host.attributes("")) == (True, [])


def test_without_a_hierarchy_none_work():
    assert not Marks().work


class TestACgroupWithoutRoom:
    """The kernel counts an attribute that is replaced twice, so that at the limit none can be replaced."""

    LIMIT = 3

    @pytest.fixture(autouse=True)
    def limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernels = os.setxattr

        def limited(folder: str, name: str, text: bytes) -> None:
            if len(os.listxattr(folder)) >= self.LIMIT:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            kernels(folder, name, text)

        monkeypatch.setattr(os, "setxattr", limited)

    def fill(self, host: Host, names: tuple[str, ...]) -> None:
        for name in names:
            os.setxattr(host.folder(), name, b"1")

    def test_a_mark_is_replaced(self, host):
        host.marks.write(host.folder(), {"cpu.weight": Entry("100")}, OWNER)
        self.fill(host, ("user.a", "user.b"))
        assert host.marks.write(host.folder(), {"cpu.weight": Entry("7")}, OWNER)
        assert (host.read(), host.marks.work) == ({f"{POD}/cpu.weight": Entry("7")}, True)

    def test_marks_of_ended_cgroups_make_room(self, host):
        self.fill(host, tuple(f"{NAME}.ended{number}" for number in range(self.LIMIT)))
        assert host.marks.write(host.folder(f"{POD}/app"), VALUES, OWNER)
        assert host.attributes() == [f"{NAME}.app"]

    def test_without_room_no_outdated_mark_stays(self, host):
        host.marks.write(host.folder(), VALUES, OWNER)
        self.fill(host, ("user.a", "user.b"))
        os.removexattr(host.folder(), "user.b")
        self.LIMIT = 1
        assert not host.marks.write(host.folder(), {"cpu.weight": Entry("7")}, OWNER)
        assert (host.read(), host.marks.work) == ({}, True)
