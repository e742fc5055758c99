"""Current audit records are kept in a file over a restart of the daemon."""

import json
import os
from typing import Any

from nri_coloc.service.audit_rings import KeptRecords
from nri_coloc.service.records_file import NAME, SAVED_EVERY_S, RecordsFile
from nri_coloc.service.state_folder import TRIED_EVERY_S
from tests.unit.service.test_kept import record, times


class Rig:
    def __init__(self, folder: Any) -> None:
        self.kept, self.said = KeptRecords(), list[str]()
        self.path = folder / NAME
        self.file = RecordsFile(str(folder), self.kept, self.said.append)

    def decide(self, ts: str = "1", **after: Any) -> "Rig":
        one = record(ts=ts, after=after)
        self.kept.take(one, json.dumps(one).encode())
        return self


def test_the_next_process_knows_the_records(tmp_path):
    Rig(tmp_path).decide(cpus="0-7").file.save()
    again = Rig(tmp_path)
    again.file.load()
    assert (times(again.kept), again.said) == (["1"], [])
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_the_first_process_has_none(tmp_path):
    rig = Rig(tmp_path)
    rig.file.load()
    assert (times(rig.kept), rig.said) == ([], [])


def test_it_is_written_once_a_minute_at_most(tmp_path):
    rig = Rig(tmp_path).decide(cpus="0-7")
    rig.file.save_if_due(100.0)
    written = rig.path.read_text()
    rig.decide("2", cpus="6-7").file.save_if_due(100.0 + SAVED_EVERY_S - 1)
    assert rig.path.read_text() == written
    rig.file.save_if_due(100.0 + SAVED_EVERY_S)
    assert rig.path.read_text() != written


def test_after_a_failure_it_is_written_sooner(tmp_path):
    rig = Rig(tmp_path / "state").decide(cpus="0-7")
    rig.file.save_if_due(100.0)
    rig.path.parent.mkdir()
    rig.file.save_if_due(100.0 + TRIED_EVERY_S)
    assert rig.path.exists()


def test_nothing_new_is_not_written(tmp_path):
    rig = Rig(tmp_path)
    rig.file.save_if_due(100.0)
    assert not rig.path.exists()


def test_a_broken_file_costs_explaining_only(tmp_path):
    rig = Rig(tmp_path)
    rig.path.write_bytes(b"\xff\0")
    rig.file.load()
    assert "is not a file of records" in rig.said[0]


def test_a_pipe_in_its_place_costs_explaining_only(tmp_path):
    rig = Rig(tmp_path)
    os.mkfifo(rig.path)
    rig.file.load()
    assert "it is no regular file; older decisions cannot be explained" in rig.said[0]


def test_a_folder_that_is_gone_is_a_problem_and_tried_again(tmp_path):
    folder = tmp_path / "state"
    rig = Rig(folder).decide(cpus="0-7")
    rig.file.save()
    assert rig.file.problem.startswith(f"cannot write {rig.path}: No such file or directory")
    folder.mkdir()
    rig.file.save()
    assert (rig.path.exists(), rig.file.problem) == (True, "")


def test_a_file_that_was_removed_is_written_again(tmp_path):
    rig = Rig(tmp_path).decide(cpus="0-7")
    rig.file.save()
    rig.path.unlink()
    rig.file.save()
    assert rig.path.exists()
