"""daemon/trunk.py: the one part without a runtime, how the socket is connected."""

import socket
import struct
from pathlib import Path

import pytest

from nri_coloc.daemon import trunk


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
