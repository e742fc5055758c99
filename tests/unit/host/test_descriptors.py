"""host/files.py: files stay open, belong to one cgroup, and are never too many."""

import os
import resource
import shutil
import subprocess
from collections import deque
from pathlib import Path

import pytest

from nri_coloc.host import files
from nri_coloc.host.files import NAMES_EVERY, READ_SIZE, Descriptors, OpenFile, Refused, Vanished
from tests.rig import open_files, whole_process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup/usage").write_text("1\n")
    return tmp_path / "cgroup"


def test_an_open_file_shows_what_is_written_later(folder):
    file = Descriptors().open(str(folder), "usage")
    assert file is not None
    assert file.read() == b"1\n"
    (folder / "usage").write_text("2\n")
    assert file.read() == b"2\n"
    file.close()


def test_it_knows_its_folders_inode(folder):
    file = Descriptors().open(str(folder), "usage")
    assert file is not None
    assert file.inode == folder.stat().st_ino == files.inode(str(folder))
    file.close()


def test_a_removed_folder_is_vanished_also_when_it_was_made_anew(folder):
    file = Descriptors().open(str(folder), "usage")
    assert file is not None
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "usage").write_text("9\n")
    with pytest.raises(Vanished):
        file.read()
    file.close()


@pytest.mark.parametrize("name", ["absent", "usage/x"], ids=["file", "not a folder"])
def test_what_is_not_there_is_none_and_leaves_nothing_open(folder, name):
    bank = Descriptors()
    assert bank.open(str(folder), name) is None
    assert bank.open(f"{folder}/absent", "usage") is None
    assert files.inode(f"{folder}/absent") is None
    assert (bank.count, open_files.below(folder)) == (0, 0)


def test_there_are_never_more_than_the_limit(folder):
    bank = Descriptors(limit=2)
    first, second = bank.open(str(folder), "usage"), bank.open(str(folder), "usage")
    assert first is not None
    assert second is not None
    with pytest.raises(Refused):
        bank.open(str(folder), "usage")
    assert (bank.was_short, bank.open_readable(str(folder), "usage")) == (True, None)
    first.close()
    third = bank.open(str(folder), "usage")
    assert third is not None
    second.close()
    third.close()
    assert bank.count == 0


def test_a_file_too_long_for_a_counter_is_unreadable(folder):
    (folder / "usage").write_bytes(b"7" * (READ_SIZE + 1))
    file = Descriptors().open(str(folder), "usage")
    assert file is not None
    assert file.read() is None
    file.close()


def test_a_refused_file_is_not_taken_for_gone(folder):
    (folder / "nested").mkdir()
    bank = Descriptors()
    with pytest.raises(Refused):
        bank.open(str(folder), "nested")  # reading a folder is EISDIR
    assert (bank.count, open_files.below(folder), bank.was_short) == (0, 0, False)


def test_a_process_that_may_open_no_more_is_refused_and_short(folder):
    bank = Descriptors()
    with whole_process.limited(resource.RLIMIT_NOFILE, 0):
        assert bank.open_readable(str(folder), "usage") is None
    assert (bank.was_short, bank.count) == (True, 0)


def test_the_soft_limit_is_raised_to_the_hard_one():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with whole_process.limited(resource.RLIMIT_NOFILE, soft - 1):
        files.raise_soft_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_what_the_kernel_refuses_later_is_unreadable_and_not_vanished(folder):
    bank = Descriptors()
    file = OpenFile(bank, os.open(folder, os.O_RDONLY), 1)
    bank.count += 1
    assert file.read() is None
    file.close()


def test_a_process_that_has_ended_is_vanished():
    child = subprocess.Popen(["true"])
    file = Descriptors().open(f"/proc/{child.pid}", "schedstat")
    child.wait()
    assert file is not None
    with pytest.raises(Vanished):  # ESRCH
        file.read()
    file.close()


def test_an_unchanging_file_is_soon_found_removed(folder):
    file = Descriptors().open(str(folder), "usage")
    assert file is not None
    assert [file.read() for _ in range(NAMES_EVERY)] == [b"1\n"] * NAMES_EVERY
    shutil.rmtree(folder)
    with pytest.raises(Vanished):
        deque(iter(file.read, b"never"), maxlen=0)
    file.close()
