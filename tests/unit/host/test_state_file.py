"""host.state_file: a file of the state folder may be a pipe, a link or a folder."""

import os
from pathlib import Path

import pytest

from nri_coloc.host import state_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records"


def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is no regular file"):
        state_file.text(path, 10)


def test_a_link_is_not_followed(path):
    path.symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic") as refused:
        state_file.text(path, 10)
    assert state_file.reason(refused.value) == "it is a symbolic link"


def test_of_a_long_file_the_beginning_is_read(path):
    path.write_bytes(b"abc\xff" * 10)
    assert state_file.text(path, 3) == "abc\ufffd"


def test_a_pipe_beside_it_is_replaced(path):
    os.mkfifo(path.with_suffix(".new"))
    state_file.replace(path, "new")
    assert path.read_text() == "new"


def test_a_link_beside_it_leads_nowhere(path, tmp_path):
    (tmp_path / "other").write_text("theirs")
    path.with_suffix(".new").symlink_to(tmp_path / "other")
    state_file.replace(path, "new")
    assert (path.read_text(), (tmp_path / "other").read_text()) == ("new", "theirs")


def test_a_pipe_in_its_place_is_replaced(path):
    os.mkfifo(path)
    state_file.replace(path, "new", durably=True)
    assert path.read_text() == "new"


def test_a_folder_in_its_place_is_left(path):
    path.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        state_file.replace(path, "new")
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_others_may_not_read_it(path):
    state_file.replace(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600
