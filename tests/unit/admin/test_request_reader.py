"""admin/request_reader.py: a request has a total size and a total time."""

import io
import socket

import pytest

from nri_coloc.admin.request_reader import RequestReader, RequestTooLarge


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_lines_come_through_a_buffer(ends):
    ours, theirs = ends
    theirs.sendall(b"GET / HTTP/1.0\r\n\r\n")
    assert io.BufferedReader(RequestReader(ours, 100, 5.0)).readline() == b"GET / HTTP/1.0\r\n"


def test_no_more_than_the_limit_is_read(ends):
    ours, theirs = ends
    theirs.sendall(b"x" * 200)
    reader = RequestReader(ours, 100, 5.0)
    assert reader.read(150) == b"x" * 100
    with pytest.raises(RequestTooLarge):
        reader.read(1)


def test_each_byte_in_time_is_still_too_late_in_the_end(ends):
    ours, theirs = ends
    now = iter([0.0, 4.0, 8.0])
    reader = RequestReader(ours, 100, 5.0, clock=lambda: next(now))
    theirs.sendall(b"ab")
    assert reader.read(1) == b"a"
    assert ours.gettimeout() == 1.0
    with pytest.raises(TimeoutError):
        reader.read(1)


def test_the_end_of_the_stream_is_no_bytes(ends):
    ours, theirs = ends
    theirs.close()
    assert RequestReader(ours, 100, 5.0).read(1) == b""
