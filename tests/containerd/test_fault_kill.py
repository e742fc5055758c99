"""The plugin is killed with -9 at every step of its work: whatever it leaves half done is made good by the next."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.rig import cgroups, mortal_daemon
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.mortal_daemon import DOOMED
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
DEATH = {DOOMED: "yes"}
SHARES, QUOTA = 1024, 50_000


@pytest.mark.invariant(1, 3, 6, 7, 8)
@pytest.mark.parametrize("step", [*mortal_daemon.OF_CREATION, *mortal_daemon.OF_START])
def test_killed_while_a_dedicated_container_comes(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, step: str
):
    daemon = own_daemon(program=(*mortal_daemon.PROGRAM, step))
    neighbour, _batch = inspector.run("neighbour", "shared"), inspector.run("batch", "reclaimed")
    web = inspector.run("web", "dedicated", annotations=DEATH)
    wait_until(lambda: daemon.is_dead, 30, f"the daemon to die while {step}")
    assert cri.pid(web.id) in cgroups.pids(web.cgroup), "its container runs all the same"
    own_daemon(state_dir=daemon.state_dir)
    inspector.wait_until_sound()
    assert neighbour.cpus == NODE_CPUS - (web.cpus or NODE_CPUS)


@pytest.mark.invariant(1, 3, 6, 7, 8, 9)
@pytest.mark.parametrize("step", [*mortal_daemon.OF_POD, "decided"])
def test_killed_while_an_offline_pod_comes(cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, step: str):
    daemon = own_daemon(program=(*mortal_daemon.PROGRAM, step))
    inspector.run("web", "dedicated")
    inspector.run("neighbour", "shared")
    inspector.wait_until_sound()
    late = inspector.run("batch", "reclaimed", annotations=DEATH)
    wait_until(lambda: daemon.is_dead, 30, f"the daemon to die while {step}")
    inspector.forget(late)
    assert inspector.breaches() == [], "who was placed before stays placed while nobody is there"
    inspector.watch(late, "reclaimed")
    second = own_daemon(state_dir=daemon.state_dir)
    inspector.wait_until_sound()
    assert second.terminate() == 0
    _restore(second)
    assert cgroups.cpus(late.pod.cgroup) == NODE_CPUS
    assert (cgroups.shares(late.pod.cgroup), cgroups.weight(late.pod.cgroup)) in ((1024, None), (None, 100))


@pytest.mark.invariant(1, 3, 7, 8)
def test_killed_while_the_kubelet_resizes_a_container(cri: Cri, own_daemon: OwnDaemon, inspector: Inspector):
    daemon = own_daemon(program=(*mortal_daemon.PROGRAM, "updating"))
    inspector.run("web", "dedicated")
    resized = inspector.run("neighbour", "shared", annotations=DEATH)
    cri.update(resized.id, shares=SHARES, quota=QUOTA, period=PERIOD)
    inspector.resized(resized, SHARES, QUOTA)
    wait_until(lambda: daemon.is_dead, 30, "the daemon to die while updating")
    own_daemon(state_dir=daemon.state_dir)
    inspector.wait_until_sound()


@pytest.mark.invariant(2, 6, 7, 8)
def test_killed_while_a_dedicated_container_goes(cri: Cri, own_daemon: OwnDaemon, inspector: Inspector):
    daemon = own_daemon(program=(*mortal_daemon.PROGRAM, "releasing"))
    neighbour, batch = inspector.run("neighbour", "shared"), inspector.run("batch", "reclaimed")
    web = inspector.run("web", "dedicated", annotations=DEATH)
    inspector.wait_until_sound()
    inspector.forget(web)
    cri.remove_pod(web.pod.id)
    wait_until(lambda: daemon.is_dead, 30, "the daemon to die while releasing")
    own_daemon(state_dir=daemon.state_dir)
    wait_until(lambda: neighbour.cpus == batch.cpus == NODE_CPUS, 30, "the CPUs to come back")
    inspector.wait_until_sound()


@pytest.mark.invariant(1, 3, 8)
@pytest.mark.usefixtures("own_daemon")  # there is one daemon on a node: the module's gives way
def test_killed_while_it_is_told_what_exists(containerd: Containerd, inspector: Inspector):
    inspector.run("web", "dedicated", annotations=DEATH)
    inspector.run("neighbour", "shared")
    inspector.run("batch", "reclaimed")
    with Daemon(containerd, program=(*mortal_daemon.PROGRAM, mortal_daemon.SYNCHRONISING)) as first:
        wait_until(lambda: first.is_dead, 60, "the daemon to die while synchronising")
        with Daemon(containerd, state_dir=first.state_dir) as second:
            second.wait_synchronised()
            inspector.run("late", "shared")
            inspector.wait_until_sound()


def _restore(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "nri_coloc", "restore", *daemon.places()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
