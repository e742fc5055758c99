"""Two programs that write and read a file at any moment see whole values only."""

import os
from pathlib import Path
from threading import Event, Thread

import pytest

from nri_coloc.host import files
from nri_coloc.sim import shared_files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cpuset.cpus"
    shared_files.put(path, "0-7")
    return path


def test_an_absent_value_is_none_and_is_not_made_unasked(tmp_path):
    assert shared_files.read(tmp_path / "nothing") is None
    assert shared_files.read(tmp_path / "nothing" / "below") is None
    with pytest.raises(FileNotFoundError):
        shared_files.put(tmp_path / "nothing", "1", 0)


@pytest.mark.parametrize("value", ["2-3", "", "0,2,4,6", "x" * 1000])
def test_a_value_is_read_as_it_was_put(value, file):
    shared_files.put(file, value)
    assert shared_files.read(file) == value


def test_of_two_that_write_at_once_no_end_is_left(file):
    """The simulator puts a longer value between the daemon's look at the size and its write."""
    size = file.stat().st_size
    shared_files.put(file, "0,2,4,6-7")
    assert file.stat().st_size == size
    assert files.write(str(file), "5")
    assert shared_files.read(file) == "5"


def test_whoever_reads_what_a_stranger_has_cut_waits_for_what_follows(file):
    os.truncate(file, 0)
    seen: list[str | None] = []
    begun = Event()

    def look() -> None:
        begun.set()
        seen.append(shared_files.read(file))

    reader = Thread(target=look)
    reader.start()
    begun.wait()
    shared_files.put(file, "2-3")
    reader.join()
    assert seen == ["2-3"]


def test_a_file_that_was_cut_and_removed_is_empty_at_once(file):
    descriptor = os.open(file, os.O_RDONLY)
    os.truncate(file, 0)
    file.unlink()
    assert list(shared_files._looks(descriptor)) == [b""]
    os.close(descriptor)


def test_no_reader_meets_half_of_what_the_daemon_writes(file):
    """A kernel's file never shows anything but a value; the daemon writes this one as it writes the kernel's."""
    values = ["0-7", "1", "0,2,4,6"]
    done = Event()

    def write() -> None:
        for number in range(3000):
            files.write(str(file), values[number % 3])
        done.set()

    writer = Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(files.read(str(file)))
    writer.join()
    assert seen <= {*values}
