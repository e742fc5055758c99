"""One daemon for each state folder."""

import os
import subprocess
import sys

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
