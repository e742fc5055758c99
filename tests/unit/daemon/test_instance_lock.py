"""One daemon for each state folder."""

import errno
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from nri_coloc.daemon.instance_lock import InstanceLock
from nri_coloc.errors import SettingsError


def test_the_folder_is_made_for_its_owner_alone(tmp_path):
    assert InstanceLock(str(tmp_path / "a/b")).take()
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a/b/lock").stat().st_mode & 0o777 == 0o600


def test_a_second_one_does_not_get_it_and_the_first_keeps_it(tmp_path):
    first, second = InstanceLock(str(tmp_path)), InstanceLock(str(tmp_path))
    assert (first.take(), second.take(), first.take(), second.take()) == (True, False, True, False)


@pytest.mark.parametrize(("may_be", "can"), [(True, True), (False, False)], ids=["a command", "a daemon"])
def test_on_a_file_system_that_is_read_only_it_is_there_for_who_need_not_write(
    tmp_path, monkeypatch, may_be, can
):
    (tmp_path / "lock").touch()
    taken = os.open

    def opening(path: Path, flags: int, *mode: int) -> int:
        if flags & (os.O_CREAT | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return taken(path, flags, *mode)

    monkeypatch.setattr(os, "open", opening)
    with nullcontext() if can else pytest.raises(SettingsError, match="Read-only file system"):
        assert InstanceLock(str(tmp_path), may_be_read_only=may_be).take()


def test_it_can_be_let_go(tmp_path):
    first = InstanceLock(str(tmp_path))
    assert first.take()
    first.release()
    assert InstanceLock(str(tmp_path)).take()


def test_it_is_free_when_its_process_ends_however_that_was(tmp_path):
    program = (
        "import os, sys; from nri_coloc.daemon.instance_lock import InstanceLock; "
        "lock = InstanceLock(sys.argv[1]); print(lock.take()); os.abort()"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=False)
    assert done.returncode < 0
    assert InstanceLock(str(tmp_path)).take()


def test_no_program_that_we_start_inherits_it(tmp_path):
    lock = InstanceLock(str(tmp_path))
    assert not os.get_inheritable(lock._fd)


@pytest.mark.parametrize("folder", ["/proc/nri-coloc", "/dev/null/x"])
def test_a_folder_that_cannot_be_used_is_the_operators_to_mend(folder):
    with pytest.raises(SettingsError, match=f"cannot use the state folder {folder}: .*--state-dir"):
        InstanceLock(folder)
