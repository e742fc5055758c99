"""Restoring specs together with files: without a runtime, with the runtime's list, and at the daemon's end."""

import json
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.host.marks import Marks
from nri_coloc.restore import restoration
from nri_coloc.restore.restoration import RuntimeAt
from tests.rig.journals import lines, load, place
from tests.unit.restore.rig import PATH, Rig, recorded


def test_without_a_runtime_the_containers_entries_are_kept_for_another_try(rig, tmp_path):
    rig.container("c")
    state = tmp_path / "state"
    state.mkdir()
    mount = "cpuset/" if rig.version == 1 else ""
    of_container = f"/sys/fs/cgroup/{mount}{PATH}/c/cpuset.cpus"
    of_pod = f"/sys/fs/cgroup/{mount}{PATH}/cpuset.cpus"
    path = state / "restore.jsonl"
    path.write_text(lines({of_container: "0-7", of_pod: "0-7"}))
    nowhere = RuntimeAt(str(tmp_path / "nri"), str(tmp_path / "cri"), "nri-coloc")
    undone = restoration.restore(place(state, rig.root), nowhere)
    assert set(undone.files.done) == {of_container, of_pod}
    assert "No such file" in undone.unreachable
    assert load(path) == {of_container: "0-7"}


def test_files_alone_leave_no_entry(rig, tmp_path):
    rig.container("c")
    mount = "cpuset/" if rig.version == 1 else ""
    entry = {f"/sys/fs/cgroup/{mount}{PATH}/c/cpuset.cpus": "0-7"}
    (tmp_path / "restore.jsonl").write_text(lines(entry))
    undone = restoration.restore(place(tmp_path, rig.root), None)
    assert (undone.files.done, undone.unreachable) == (tuple(entry), "")
    assert load(tmp_path / "restore.jsonl") == {}


# ---- with the runtime's list ----


class Asked:
    """A node on v2 whose runtime lists its containers, and takes no update."""

    def __init__(self, rig: Rig, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig, self.state = rig, state
        monkeypatch.setattr(restoration, "take", lambda *_: rig.listing())

    def journal(self, container: str, name: str, was: str, **known: bool) -> str:
        """Add an entry of a container's file, and return the file."""
        file = f"/sys/fs/cgroup/{PATH}/{container}/{name}"
        with (self.state / "restore.jsonl").open("a") as journal:
            journal.write(json.dumps({"file": file, "was": was} | known) + "\n")
        return file

    def restore(self) -> restoration.Undone:
        at = RuntimeAt(str(self.state / "nri"), str(self.state / "cri"), "nri-coloc")
        return restoration.restore(place(self.state, self.rig.root), at, seconds=60.0)

    @property
    def journalled(self) -> set[str]:
        return {*load(self.state / "restore.jsonl")}


@pytest.fixture
def asked(v2: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    state = tmp_path / "state"
    state.mkdir()
    return Asked(v2, state, monkeypatch)


def test_only_entries_of_refused_specs_stay_journalled(asked):
    for name in ("a", "c"):
        asked.rig.container(name)
    asked.journal("a", "memory.max", "4096")
    refused = asked.journal("c", "cpu.weight", "100")
    assert asked.restore().specs.failed == {f"{PATH}/c"}
    assert asked.journalled == {refused}


@pytest.mark.parametrize(
    ("name", "told"), [("cpuset.cpus", True), ("cpu.weight", False)], ids=["a set", "a weight"]
)
def test_of_unknown_originals_a_spec_gets_sets_alone(asked, name, told):
    asked.rig.container("c")
    file = asked.journal("c", name, "" if name == "cpuset.cpus" else "100", unknown=True)
    asked.restore()
    assert asked.journalled == ({file} if told else set())


def test_without_entries_no_journal_is_made(asked):
    asked.rig.container("c", recorded(shares=512))
    assert asked.restore().unwritten == ""
    assert not (asked.state / "restore.jsonl").exists()


@pytest.mark.parametrize("record", ["", recorded(shares=512)], ids=["no record", "a record"])
@pytest.mark.parametrize("is_there", [False, True], ids=["no journal", "a journal"])
def test_a_record_without_journal_and_marks_is_told(asked, monkeypatch, record, is_there):
    monkeypatch.setattr(Marks, "work", False)
    asked.rig.container("c", record)
    if is_there:
        asked.journal("c", "cpu.weight", "20")
    assert ("was lost" in asked.restore().lacking) == (record != "" and not is_there)


# ---- at the daemon's end ----


class Ends:
    """Fake thread that has ended, or has not."""

    def __init__(self, *, done: bool = True) -> None:
        self._done = done

    def ended(self, _seconds: float) -> bool:
        return self._done


class Heard:
    """Fake log that keeps events and fields as text."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append(f"{event} {fields}")

    warning = info


def at_exit(rig: Rig, state: Path, *, writes: bool = False, pushes: bool = False) -> list[str]:
    entry = f"/sys/fs/cgroup/{'cpuset/' if rig.version == 1 else ''}{PATH}/cpuset.cpus"
    (state / "restore.jsonl").write_text(lines({entry: "0-5"}))
    nowhere, heard = RuntimeAt(str(state / "nri"), str(state / "cri"), "nri-coloc"), Heard()
    restoration.at_exit(
        place(state, rig.root), nowhere, [Ends(), Ends(done=not writes)], Ends(done=not pushes), heard
    )
    return heard.said


def test_the_end_restores_files_and_reports_failures(rig, tmp_path):
    said = at_exit(rig, tmp_path)
    assert said[0] == "restored {'files': 1, 'specs': 0}"
    assert "No such file" in said[1]
    assert rig.text("cpuset.cpus", "cpuset", "") == "0-5"


def test_at_the_end_a_push_in_flight_keeps_the_specs(rig, tmp_path):
    assert "a push is in flight" in at_exit(rig, tmp_path, pushes=True)[1]
    assert rig.text("cpuset.cpus", "cpuset", "") == "0-5"


def test_the_end_restores_nothing_beside_another_writer(rig, tmp_path):
    assert "a thread is still writing" in at_exit(rig, tmp_path, writes=True)[0]
    assert rig.text("cpuset.cpus", "cpuset", "") == "0-7"
