"""daemon/trunk.py: the one part without a runtime, how the socket is connected."""

import socket
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.daemon import trunk
from nri_coloc.errors import TransportLost
from nri_coloc.nri.session import Session


def test_connecting_and_sending_give_up_in_time(tmp_path: Path):
    path = str(tmp_path / "nri.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        with trunk.connect_to(path) as connection:
            kept = connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.calcsize("ll"))
    assert struct.unpack("ll", kept) == (trunk.SEND_TIMEOUT_S, 0)


def test_a_listener_whose_queue_is_full_is_an_error_and_no_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trunk, "SEND_TIMEOUT_S", 1)
    path = str(tmp_path / "nri.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as guest:
        listener.bind(path)
        listener.listen(0)
        guest.connect(path)
        with pytest.raises(BlockingIOError):
            trunk.connect_to(path)


class NotingSocket(socket.socket):
    """Notes how long others would keep the interpreter from whoever reads it."""

    noted = 0.0

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.noted = sys.getswitchinterval()
        return super().recv(bufsize, flags)


def test_who_waits_for_a_hook_is_soon_given_the_interpreter_and_who_works_on_one_keeps_it():
    runtime, ours = socket.socketpair()
    with runtime, NotingSocket(fileno=ours.detach()) as reader:
        runtime.sendall(b"hook")
        assert trunk._wait_for_bytes(reader) == b"hook"
        assert reader.noted == pytest.approx(trunk.HOOK_FIRST_S)
    assert sys.getswitchinterval() == pytest.approx(trunk.UNDISTURBED_S)


def test_who_reads_from_a_lost_connection_is_no_longer_waited_for():
    with socket.socket(socket.AF_UNIX) as unconnected, pytest.raises(OSError, match=r"not connected|Invalid"):
        trunk._wait_for_bytes(unconnected)
    assert sys.getswitchinterval() == pytest.approx(trunk.UNDISTURBED_S)


class CountingSocket:
    """Has one read for the trunk, notes who else holds that when the next one is asked for, and ends."""

    def __init__(self, read: bytes) -> None:
        self._read = read
        self.holders = -1

    def recv(self, _size: int) -> bytes:
        if self.holders == -1:
            self.holders = 0
            return self._read
        self.holders = sys.getrefcount(self._read) - len(("ours", "the call's"))
        return b""


def test_what_a_hook_left_is_freed_before_the_next_is_waited_for():
    nobody: Any = None
    connection: Any = CountingSocket(struct.pack(">II4x", 7, 4))
    ours = trunk.Trunk(nobody, ("coloc", "10"), nobody, nobody, nobody)
    with pytest.raises(TransportLost, match="closed the connection"):
        ours._read(connection, Session("coloc", "10"))
    assert connection.holders == 0
