"""A deleted state folder loses no original value: `restore` writes every setting back to its first value."""

import shutil
from collections.abc import Callable

import pytest

from tests.rig import settings
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.touched import LENDING, PODS, assert_equal, at_work, everything, restore, run
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
ABOVE = ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort")


def test_values_of_a_process_before_are_no_originals(cri: Cri, own_daemon: OwnDaemon):
    pods = {name: run(cri, name) for name in PODS}
    before, above = everything(list(pods.values())), {group: settings.of(group) for group in ABOVE}
    daemon = own_daemon(config=LENDING)
    at_work(daemon, pods)
    daemon.terminate()
    shutil.rmtree(daemon.state_dir)
    daemon.start()
    daemon.wait_synchronised()
    daemon.audited("state.folder", reason="taken_over")
    at_work(daemon, pods)
    daemon.terminate()
    done = restore(daemon)
    assert (done.returncode, done.stderr) == (0, "")
    assert_equal(before, everything(list(pods.values())))
    assert settings.differing(above, {group: settings.of(group) for group in ABOVE}) == []


def test_without_a_daemon_since_the_marks_tell_them(cri: Cri, own_daemon: OwnDaemon):
    pods = {name: run(cri, name) for name in PODS}
    before = everything(list(pods.values()))
    daemon = own_daemon(config=LENDING)
    at_work(daemon, pods)
    daemon.kill()
    shutil.rmtree(daemon.state_dir)
    assert restore(daemon).returncode == 2, "a folder that is not there may be another's"
    daemon.state_dir.mkdir()
    done = restore(daemon)
    assert (done.returncode, done.stderr) == (0, "")
    assert_equal(before, everything(list(pods.values())))


def test_a_folder_that_is_deleted_beneath_it_is_made_again(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=LENDING)
    pods = {name: run(cri, name) for name in PODS}
    at_work(daemon, pods)
    shutil.rmtree(daemon.state_dir)
    daemon.audited("state.folder", reason="rewritten")
    wait_until(lambda: daemon.check("state") == {"ok": True, "detail": ""}, 30, "the folder to be well")
    assert "stop it first" in restore(daemon).stderr
