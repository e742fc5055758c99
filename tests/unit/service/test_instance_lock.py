"""Only one daemon runs on a state folder."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nri_coloc.errors import SettingsError
from nri_coloc.service.instance_lock import InstanceLock


def test_the_folder_is_made_for_its_owner_alone(tmp_path):
    assert InstanceLock(str(tmp_path / "a/b")).take()
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a/b/lock").stat().st_mode & 0o777 == 0o600


def test_a_second_instance_does_not_get_it(tmp_path):
    first, second = InstanceLock(str(tmp_path)), InstanceLock(str(tmp_path))
    assert (first.take(), second.take(), first.take(), second.take()) == (True, False, True, False)


def in_trouble(monkeypatch: pytest.MonkeyPatch, number: int = errno.EROFS) -> None:
    """Let the disk refuse every write."""
    taken = os.open

    def opening(path: Path, flags: int, *mode: int) -> int:
        if flags & (os.O_CREAT | os.O_RDWR):
            raise OSError(number, os.strerror(number))
        return taken(path, flags, *mode)

    monkeypatch.setattr(os, "open", opening)


def test_on_a_read_only_disk_the_former_file_is_locked(tmp_path, monkeypatch):
    (tmp_path / "lock").touch()
    in_trouble(monkeypatch)
    first, second = InstanceLock(str(tmp_path)), InstanceLock(str(tmp_path))
    assert (first.take(), second.take(), first.problem) == (True, False, "")


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_in_trouble_keeps_no_daemon_from_its_work(tmp_path, monkeypatch, number):
    in_trouble(monkeypatch, number)
    lock = InstanceLock(str(tmp_path / "state"))
    assert lock.take()
    assert lock.problem == f"cannot use the state folder {tmp_path / 'state'}: {os.strerror(number)}"


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    lock = InstanceLock(str(tmp_path))
    assert lock.take()
    assert lock.problem == f"cannot lock {tmp_path / 'lock'}: it is a symbolic link; remove it"
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "lock").unlink()
    lock.renew()
    assert (lock.is_in_place(), lock.problem) == (True, "")


def test_a_folder_that_was_deleted_is_made_again(tmp_path):
    folder = tmp_path / "state"
    first = InstanceLock(str(folder))
    assert first.take()
    shutil.rmtree(folder)
    assert not first.is_in_place()
    first.renew()
    assert (first.is_in_place(), first.problem) == (True, "")
    assert not InstanceLock(str(folder)).take()


def test_a_copy_that_waits_gets_no_deleted_folders_lock(tmp_path):
    folder = tmp_path / "state"
    first, second = InstanceLock(str(folder)), InstanceLock(str(folder))
    assert first.take()
    shutil.rmtree(folder)
    assert not second.take()
    first.renew()
    assert not second.take()
    first.release()
    assert second.take()


def test_of_a_deleted_folder_without_an_owner_it_does(tmp_path):
    folder = tmp_path / "state"
    lock = InstanceLock(str(folder))
    shutil.rmtree(folder)
    assert lock.take()
    assert lock.is_in_place()


def test_a_new_folder_that_another_process_locked_is_said(tmp_path):
    folder = tmp_path / "state"
    first = InstanceLock(str(folder))
    assert first.take()
    shutil.rmtree(folder)
    other = InstanceLock(str(folder))
    assert other.take()
    first.renew()
    assert first.problem == f"another process holds the lock in the state folder {folder}"
    other.release()
    first.renew()
    assert first.problem == ""


def test_it_can_be_let_go(tmp_path):
    first = InstanceLock(str(tmp_path))
    assert first.take()
    first.release()
    assert InstanceLock(str(tmp_path)).take()


def test_it_is_free_when_its_process_ends_however_that_was(tmp_path):
    program = (
        "import os, sys; from nri_coloc.service.instance_lock import InstanceLock; "
        "lock = InstanceLock(sys.argv[1]); print(lock.take()); os.abort()"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=False)
    assert done.returncode < 0
    assert InstanceLock(str(tmp_path)).take()


def test_no_program_that_we_start_inherits_it(tmp_path):
    lock = InstanceLock(str(tmp_path))
    assert lock._fd is not None
    assert not os.get_inheritable(lock._fd)


@pytest.mark.parametrize("folder", ["/proc/nri-coloc", "/dev/null/x"])
def test_a_folder_that_cannot_be_used_is_the_operators_to_mend(folder):
    with pytest.raises(SettingsError, match=f"cannot use the state folder {folder}: .*--state-dir"):
        InstanceLock(folder)
