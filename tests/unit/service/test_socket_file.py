"""service/admin_gate.py: the socket's folder is closed to other users; a dead process's file is replaced."""

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.service.admin_gate import NoAdminSocket, SocketFile
from tests.rig import whole_process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "admin.sock"


@pytest.fixture
def file(path: Path) -> Iterator[SocketFile]:
    file = SocketFile(str(path))
    yield file
    file.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def left_behind(path: Path) -> None:
    """Leave a socket's file, as a killed process does."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_folder_and_socket_are_for_their_owner_alone(file, path):
    with file.listen():
        assert (mode(path.parent), mode(path)) == (0o700, 0o600)
        assert file.is_there


def test_whatever_the_umask_the_socket_is_never_open_to_others(file, path):
    with whole_process.with_umask(0), file.listen():
        assert mode(path) == 0o600


def test_an_empty_folder_that_others_can_enter_is_closed_to_them(file, path):
    path.parent.mkdir()
    path.parent.chmod(0o755)
    left_behind(path)
    with file.listen():
        assert mode(path.parent) == 0o700


def test_a_folder_with_other_files_is_not_closed(file, path):
    path.parent.mkdir()
    path.parent.chmod(0o755)
    (path.parent / "somebody.pid").touch()
    with pytest.raises(NoAdminSocket, match="it contains other files; name another folder"):
        file.listen()
    assert mode(path.parent) == 0o755


def test_a_closed_folder_may_have_other_things_in_it(file, path):
    path.parent.mkdir(mode=0o700)
    (path.parent / "notes").touch()
    with file.listen():
        assert file.is_there


def test_the_file_of_one_that_was_killed_is_replaced(file, path):
    left_behind(path)
    with file.listen(), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert client.getpeername() == str(path)


def test_where_somebody_listens_nothing_is_taken_away(file, path):
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as client:
        other.bind(str(path))
        other.listen()
        with pytest.raises(NoAdminSocket, match="another process listens"):
            file.listen()
        client.connect(str(path))


def test_one_that_listens_and_accepts_nobody_is_no_dead_one(file, path):
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as client:
        busy.bind(str(path))
        busy.listen(0)
        client.connect(str(path))
        with pytest.raises(NoAdminSocket, match="another process listens"):
            file.listen()


def test_a_file_that_is_no_socket_stays(file, path):
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")
    with pytest.raises(NoAdminSocket, match="is no socket"):
        file.listen()
    assert path.read_text() == "precious"


def test_the_second_daemon_has_it_after_the_first(file, path):
    other = SocketFile(str(path))
    with file.listen():
        with pytest.raises(NoAdminSocket, match="another nri-coloc"):
            other.listen()
        assert file.is_there
    file.close()
    with other.listen():
        assert other.is_there
    other.close()
    assert not path.exists()


def test_one_that_is_not_ours_any_more_is_not_taken_away(file, path):
    with file.listen():
        path.unlink()
        assert not file.is_there
        left_behind(path)
        assert not file.is_there
    file.close()
    assert path.exists()


@pytest.mark.parametrize(
    ("path", "says"),
    [("/proc/nothing/admin.sock", "No such file"), ("/dev/null/x/admin.sock", "Not a directory")],
    ids=["no place", "no folder"],
)
def test_a_place_that_cannot_be_had_is_one_sentence(path, says):
    with pytest.raises(NoAdminSocket, match=says):
        SocketFile(path).listen()


def test_a_place_whose_name_is_too_long_is_one_sentence(tmp_path):
    with pytest.raises(NoAdminSocket, match="too long"):
        SocketFile(str(tmp_path / ("x" * 120))).listen()
