"""service/runtime_claim.py: only one daemon serves a runtime."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nri_coloc.service.runtime_claim import RuntimeClaim


def runtime(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    return listener


def test_a_second_daemon_cannot_claim_the_same_runtime(tmp_path: Path):
    first, second = RuntimeClaim(), RuntimeClaim()
    with runtime(tmp_path / "nri.sock"):
        first.take(str(tmp_path / "nri.sock"))
        with pytest.raises(OSError, match="another nri-coloc serves this runtime"):
            second.take(str(tmp_path / "nri.sock"))
    first.release()


def test_a_runtime_is_free_again_when_its_daemon_gives_it_up(tmp_path: Path):
    first, second = RuntimeClaim(), RuntimeClaim()
    with runtime(tmp_path / "nri.sock"):
        first.take(str(tmp_path / "nri.sock"))
        first.release()
        second.take(str(tmp_path / "nri.sock"))
        with pytest.raises(OSError, match="another"):
            first.take(str(tmp_path / "nri.sock"))
    second.release()


def test_a_claim_holds_over_reconnects(tmp_path: Path):
    claim = RuntimeClaim()
    with runtime(tmp_path / "nri.sock"):
        claim.take(str(tmp_path / "nri.sock"))
        claim.take(str(tmp_path / "nri.sock"))
        with pytest.raises(OSError, match="another"):
            RuntimeClaim().take(str(tmp_path / "nri.sock"))
    claim.release()


def test_a_claim_follows_to_the_socket_of_a_restarted_runtime(tmp_path: Path):
    claim, other = RuntimeClaim(), RuntimeClaim()
    with runtime(tmp_path / "old.sock"), runtime(tmp_path / "new.sock"):
        claim.take(str(tmp_path / "old.sock"))
        claim.take(str(tmp_path / "new.sock"))
        other.take(str(tmp_path / "old.sock"))
        with pytest.raises(OSError, match="another"):
            other.take(str(tmp_path / "new.sock"))
    claim.release()
    other.release()


def test_a_runtime_that_is_not_there_cannot_be_claimed(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        RuntimeClaim().take(str(tmp_path / "none.sock"))


def test_a_claim_knows_when_another_socket_has_taken_the_path(tmp_path: Path):
    claim, path = RuntimeClaim(), tmp_path / "nri.sock"
    assert not claim.superseded(str(path))
    with runtime(path):
        claim.take(str(path))
        assert not claim.superseded(str(path))
        path.unlink()
        assert not claim.superseded(str(path)), "nothing is there to go to"
        with runtime(path):
            assert claim.superseded(str(path))
            claim.take(str(path))
            assert not claim.superseded(str(path))
    claim.release()


SQUAT = """
import os, socket, sys
os.setuid(65534)
squatter = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[2]))
squatter.bind(b"\\0" + sys.argv[1].encode())
if sys.argv[2] == "SOCK_STREAM":
    squatter.listen()
print("bound", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_another_users_process_keeps_no_daemon_away(tmp_path: Path, kind: str):
    """Each process may read the name in /proc/net/unix and bind it first."""
    path = tmp_path / "nri.sock"
    with runtime(path):
        name = f"nri-coloc/{path.stat().st_dev}/{path.stat().st_ino}"
        with subprocess.Popen(
            [sys.executable, "-c", SQUAT, name, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as squatter:
            assert squatter.stdout is not None
            assert squatter.stdout.readline() == b"bound\n"
            claim = RuntimeClaim()
            claim.take(str(path))
            assert not claim.superseded(str(path))
            claim.release()
            squatter.communicate()
