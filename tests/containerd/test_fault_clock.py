"""Clocks step: between two runs of the plugin, during one, and because the plugin itself stood still."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.rig import load, unsteady_daemon, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import becomes, poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload
from tests.rig.writes import Writes

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
DAYS = str(3 * 86_400)
LENDS = "reclaim:\n  enabled: true\n"
STANDS_SECONDS = 3.0  # longer than the two seconds that the runtime gives a plugin
LOOKS_ON_SECONDS = 0.5
ARRIVES_SECONDS = 120
TICKS = "nri_coloc_tick_late_seconds_count"
MANY_TICKS = 10  # more than come between a reading and the stop


@pytest.mark.bears_load
@ON_THE_NEWEST
@pytest.mark.invariant(1, 2, 3, 6, 7)
@pytest.mark.parametrize(("before", "after"), [("0", DAYS), (DAYS, "0")], ids=["forward", "backward"])
def test_clocks_that_stand_elsewhere_after_a_restart_move_nothing(
    own_daemon: OwnDaemon, inspector: Inspector, before: str, after: str
):
    daemon = own_daemon(program=(*unsteady_daemon.PROGRAM, before))
    everyone = _one_of_each(inspector)
    daemon.kill()
    with Writes([member.cpuset_file for member in everyone]) as writes:
        later = own_daemon(program=(*unsteady_daemon.PROGRAM, after), state_dir=daemon.state_dir)
        later.wait_ready()
        assert writes.seen() == []
    assert inspector.breaches() == []


@pytest.mark.bears_load
@ON_THE_NEWEST
@pytest.mark.invariant(1, 3, 8)
def test_clocks_that_are_set_while_it_runs_stop_nothing(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon(program=(*unsteady_daemon.PROGRAM, "0"))
    web, *_ = _one_of_each(inspector)
    for step in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        os.kill(daemon.pid, step)
        inspector.forget(web)
        cri.remove_pod(web.pod.id)
        web = inspector.run("web", "dedicated")
        inspector.wait_until_sound()
    assert not daemon.is_dead
    assert daemon.metric("nri_coloc_reconnects_total") == 0


@pytest.mark.invariant(1, 3, 8)
def test_a_container_created_during_a_standstill_is_placed_after_it(
    own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    neighbour, _batch = inspector.run("neighbour", "shared"), inspector.run("batch", "reclaimed")
    wait_until(lambda: not inspector.breaches(), 30, "all containers to be in place")
    with ThreadPoolExecutor(1) as kubelet, _standing_still(daemon):
        web = kubelet.submit(inspector.run, "web", "dedicated").result(ARRIVES_SECONDS)
    inspector.wait_until_sound()
    assert neighbour.cpus == NODE_CPUS - (web.cpus or NODE_CPUS)


@ON_THE_NEWEST
@pytest.mark.invariant(1, 5, 6)
def test_a_loop_that_stood_still_lends_no_more_than_before(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon(config=LENDS)
    inspector.run("neighbour", "shared")
    batch = inspector.run("batch", "reclaimed")
    # the burner never stops, so only the pause could make the reclaim pool grow
    workloads.run(cri, "burner", command=load.burners(2 * len(NODE_CPUS)), shares=1024)
    becomes(lambda: len(batch.cpus or NODE_CPUS), 1)
    inspector.wait_until_sound()
    ticks = daemon.metric(TICKS)
    with _standing_still(daemon):
        assert not poll(inspector.breaches, STANDS_SECONDS)
    assert not poll(lambda: len(batch.cpus or NODE_CPUS) > 1, LOOKS_ON_SECONDS)
    # a tick that starts too late reports the delay; a tick that was stopped half way does not, and a stop may hit
    # either
    wait_until(lambda: daemon.metric(TICKS) > ticks + MANY_TICKS, 30, "the loop to go on")
    assert not poll(lambda: len(batch.cpus or NODE_CPUS) > 1, LOOKS_ON_SECONDS)
    assert inspector.breaches() == []


def _one_of_each(inspector: Inspector) -> list[Workload]:
    found = [inspector.run(f"{qos}-one", qos) for qos in ("dedicated", "shared", "reclaimed")]
    wait_until(lambda: not inspector.breaches(), 30, "all containers to be in place")
    return found


@contextmanager
def _standing_still(daemon: Daemon) -> Iterator[None]:
    """Stop the daemon, all its threads at once, as a paused virtual machine is."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
