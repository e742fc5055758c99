"""The runtime stands still: it is stopped with SIGSTOP, neither reads nor answers, and goes on later."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tests.rig import cgroups
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
STANDS_SECONDS = 3.0  # longer than the two seconds that the runtime gives a plugin
TOO_LONG_SECONDS = 120  # as long as the kubelet would wait
SHARERS = 12  # so that one push is on its way and others are still to come


@pytest.mark.invariant(1, 3, 6, 7, 8)
def test_a_halted_runtime_moves_nothing_and_is_served_later(
    containerd: Containerd, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    crowd = [inspector.run(f"{qos}-one", qos) for qos in ("shared", "reclaimed")]
    with ThreadPoolExecutor(1) as kubelet:
        _stop(containerd)
        try:
            arriving = kubelet.submit(inspector.run, "web", "dedicated")
            assert not poll(lambda: inspector.breaches() or daemon.is_dead, STANDS_SECONDS)
        finally:
            _continue(containerd)
        web = arriving.result(TOO_LONG_SECONDS)
    inspector.wait_until_sound()
    assert all(member.cpus and member.cpus.isdisjoint(web.cpus or ()) for member in crowd)


@pytest.mark.invariant(1, 3, 8)
def test_a_stalled_runtime_gets_all_pushes(
    containerd: Containerd, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon(config="runtime: {updatesPerReply: 0}\n")
    crowd = [inspector.run(f"n{number}", "shared") for number in range(SHARERS)]
    web = inspector.run("web", "dedicated")
    inspector.wait_until_sound()
    left = NODE_CPUS - (web.cpus or NODE_CPUS)
    in_spec = lambda: [cgroups.members(member.spec_cpus) == left for member in crowd]  # noqa: E731 - asked twice
    wait_until(lambda: any(in_spec()), 60, "a first push")
    _stop(containerd)
    try:
        assert not poll(lambda: inspector.breaches() or daemon.is_dead, STANDS_SECONDS)
    finally:
        _continue(containerd)
    wait_until(lambda: all(in_spec()), TOO_LONG_SECONDS, "every spec to agree")
    inspector.wait_until_sound()


@pytest.mark.invariant(1, 2, 8)
def test_a_runtime_that_stumbles_again_and_again_is_never_wedged(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    inspector.run("neighbour", "shared")
    inspector.run("batch", "reclaimed")
    over = Event()
    with ThreadPoolExecutor(1) as kubelet:
        going = kubelet.submit(_comings_and_goings, cri, inspector, over)
        try:
            for stands in (0.2, 0.6, 1.0, 2.2):
                _stop(containerd)
                Event().wait(stands)  # this test needs a standstill of this length
                _continue(containerd)
                poll(going.done, 0.7)
        finally:
            over.set()
        assert going.result(2 * TOO_LONG_SECONDS) > 0
    wait_until(lambda: daemon.check("connected")["ok"], 60, "the daemon to be connected")
    inspector.run("last", "dedicated")
    inspector.wait_until_sound()


def _comings_and_goings(cri: Cri, inspector: Inspector, over: Event) -> int:
    """Return the number of dedicated containers that came and went, one after the other, until `over` is set."""
    lives = 0
    while not over.is_set() or not lives:
        guest = inspector.run(f"guest-{lives}", "dedicated", owns=0)
        inspector.forget(guest)
        cri.remove_pod(guest.pod.id)
        lives += 1
    return lives


def _stop(containerd: Containerd) -> None:
    assert containerd.pid is not None
    os.kill(containerd.pid, signal.SIGSTOP)


def _continue(containerd: Containerd) -> None:
    assert containerd.pid is not None
    os.kill(containerd.pid, signal.SIGCONT)
