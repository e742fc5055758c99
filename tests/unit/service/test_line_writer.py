"""service/audit_rings.py: whole lines or counted losses, never a blocked or dead thread."""

import os
import select

import pytest

from nri_coloc.service.audit_rings import LOST_CAUSES, LineWriter


@pytest.fixture
def losses() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    ends = {"r": reader, "w": writer}
    yield ends
    for fd in ends.values():
        os.close(fd)


def impatient(fd: int, losses: list[tuple[str, int]]) -> LineWriter:
    return LineWriter(fd, lambda why, count: losses.append((why, count)), patience_s=0)


def read_all(fd: int) -> bytes:
    pieces = []
    while True:
        try:
            pieces.append(os.read(fd, 1 << 20))
        except BlockingIOError:
            return b"".join(pieces)


def fill(writer: LineWriter) -> None:
    while writer.write(b"x" * 4095 + b"\n"):
        pass


def test_a_line_is_one_write(pipe, losses):
    assert impatient(pipe["w"], losses).write(b"line\n")
    assert read_all(pipe["r"]) == b"line\n"


def test_a_line_longer_than_a_pipe_takes_at_once_arrives_whole(pipe, losses):
    line = b"y" * (3 * select.PIPE_BUF) + b"\n"
    assert impatient(pipe["w"], losses).write(line)
    assert read_all(pipe["r"]) == line


def test_a_reader_who_stands_still_costs_the_line_not_the_thread(pipe, losses):
    writer = impatient(pipe["w"], losses)
    fill(writer)
    assert losses == [("blocked", 1)]
    read_all(pipe["r"])
    assert writer.write(b"again\n")
    assert read_all(pipe["r"]) == b"again\n"


def test_patience_is_spent_once(pipe, losses, monkeypatch):
    writer = LineWriter(pipe["w"], lambda why, count: losses.append((why, count)), patience_s=0.001)
    waits = []

    class Never:
        def poll(self, timeout):
            waits.append(timeout)
            return []

    monkeypatch.setattr(writer, "_poll", Never())
    assert [writer.write(b"a\n"), writer.write(b"b\n")] == [False, False]
    assert waits == [1, 0]


def test_a_torn_line_is_closed_before_the_next(pipe, losses):
    writer = impatient(pipe["w"], losses)
    capacity = 64 * 1024
    assert writer.write(b"x" * (capacity - 4096 - 1) + b"\n")
    assert not writer.write(b"t" * 8192 + b"\n")
    read_all(pipe["r"])
    assert writer.write(b"next\n")
    assert read_all(pipe["r"]) == b"\nnext\n"
    assert writer.write(b"last\n")
    assert read_all(pipe["r"]) == b"last\n"


def test_a_descriptor_that_does_not_block_is_no_different(pipe, losses):
    os.set_blocking(pipe["w"], False)
    fill(impatient(pipe["w"], losses))
    assert losses == [("blocked", 1)]


def test_a_reader_who_left_is_counted(pipe, losses):
    os.close(pipe.pop("r"))
    assert not impatient(pipe["w"], losses).write(b"line\n")
    assert losses == [("broken_pipe", 1)]


def test_a_full_disk_is_counted(losses):
    full = os.open("/dev/full", os.O_WRONLY)
    assert not impatient(full, losses).write(b"line\n")
    os.close(full)
    assert losses == [("no_space", 1)]


def test_a_closed_descriptor_is_counted(losses):
    null = os.open("/dev/null", os.O_WRONLY)
    writer = impatient(null, losses)
    os.close(null)
    assert not writer.write(b"line\n")
    assert losses == [("io_error", 1)]


def test_every_cause_is_in_the_closed_list(pipe, losses):
    assert list(LOST_CAUSES) == sorted(LOST_CAUSES)
    assert {"blocked", "broken_pipe", "no_space", "io_error"} <= set(LOST_CAUSES)
