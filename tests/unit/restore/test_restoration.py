"""restore/restoration.py: values are restored also on a full disk, and the journal keeps entries for another try."""

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.host import state_file
from nri_coloc.restore import restoration
from nri_coloc.restore.restoration import RuntimeAt
from tests.rig.journals import load, place

KUBEPODS = "/sys/fs/cgroup/kubepods"
POD = f"{KUBEPODS}/podu/cpu.weight"
APP = f"{KUBEPODS}/podu/app/cpu.weight"


class Machine:
    """Two files that have the daemon's value, with a journal in the state folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root / "host", root / "state"
        self.state.mkdir()
        for file in (POD, APP):
            self.file(file).parent.mkdir(parents=True, exist_ok=True)
            self.file(file).write_text("1\n")
        (self.root / "sys/fs/cgroup/cgroup.controllers").touch()
        lines = (json.dumps({"file": file, "was": "100"}) for file in (POD, APP))
        (self.state / "restore.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def file(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def restore(self, runtime: RuntimeAt | None = None) -> restoration.Undone:
        return restoration.restore(place(self.state, self.root), runtime)

    @property
    def journalled(self) -> set[str]:
        return {*load(self.state / "restore.jsonl")}


class Ended:
    """Fake thread that has ended, or has not."""

    def __init__(self, *, has_ended: bool = True) -> None:
        self._has_ended = has_ended

    def ended(self, _seconds: float) -> bool:
        return self._has_ended


ENDED, BUSY = Ended(), Ended(has_ended=False)


class Log:
    """Fake log that keeps the reasons of its warnings."""

    def __init__(self) -> None:
        self.warned: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        pass

    def warning(self, event: str, **fields: Any) -> None:
        self.warned.append(fields["because"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def no_space(_path: Path, _content: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "replace", no_space)


def nobody(machine: Machine) -> RuntimeAt:
    return RuntimeAt(str(machine.state / "none.sock"), "", "nri-coloc", 0.1)


def at_exit(machine: Machine, writers: Iterable[Ended] = (ENDED,), pusher: Ended = ENDED) -> list[str]:
    log = Log()
    restoration.at_exit(place(machine.state, machine.root), nobody(machine), writers, pusher, log)
    return log.warned


def test_a_full_disk_keeps_nothing_from_being_put_back(machine, full_disk):
    undone = machine.restore()
    assert undone.files.done == (POD, APP)
    assert machine.file(POD).read_text() == "100"
    assert undone.unwritten.endswith("restore.jsonl: No space left on device")


def test_restoring_twice_after_a_full_disk_is_harmless(machine, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(state_file, "replace", no_space)
        machine.restore()
    assert machine.journalled == {POD, APP}
    assert machine.restore().unwritten == ""
    assert (machine.file(POD).read_text(), machine.journalled) == ("100", set())


def test_an_unreachable_runtimes_containers_stay_in_the_journal(machine):
    undone = machine.restore(nobody(machine))
    assert undone.unreachable
    assert machine.journalled == {APP}


def test_a_full_disk_forgets_no_unrestored_spec(machine, full_disk):
    undone = machine.restore(nobody(machine))
    assert (undone.unreachable != "", undone.unwritten != "") == (True, True)
    assert machine.journalled == {POD, APP}


def test_the_daemons_end_tells_of_a_full_disk(machine, full_disk):
    assert any("No space left on device" in words for words in at_exit(machine))


def test_the_daemons_end_tells_of_a_root_that_is_gone(machine):
    machine.root.rename(machine.root.with_name("gone"))
    assert any("nothing was restored" in words for words in at_exit(machine))
    assert machine.journalled == {POD, APP}


def test_a_push_at_the_end_keeps_containers_for_retry(machine):
    assert "a push is in flight" in at_exit(machine, pusher=BUSY)
    assert (machine.file(POD).read_text(), machine.journalled) == ("100", {APP})
