"""Assignments outlive the plugin and the runtime, and a restarted daemon places containers that came in between."""

import socket
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.rig import cgroups, workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS, Workload
from tests.rig.writes import Writes

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]


@pytest.mark.bears_load
def test_a_plugin_that_was_killed_and_restarted_moves_nothing(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    everyone = _one_of_each(cri)
    before = _cpus(everyone)
    daemon.kill()
    assert _cpus(everyone) == before
    with Writes(_cpuset_files(everyone)) as writes:
        daemon.start()
        daemon.wait_ready()
        assert writes.seen() == []
    assert _cpus(everyone) == before
    assert cgroups.members(daemon.container(everyone[0].id)["cpus"]) == before[0]
    assert daemon.audit("drift.repair") == []


def test_containerd_killed_and_restarted_moves_nothing(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon
):
    daemon = own_daemon()
    everyone = _one_of_each(cri)
    before, pid = _cpus(everyone), daemon.pid
    with Writes(_cpuset_files(everyone)) as writes:
        containerd.kill()
        wait_until(lambda: not daemon.check("connected")["ok"], 30, "the daemon to notice")
        containerd.start()
        daemon.wait_ready()
        assert writes.seen() == []
    assert _cpus(everyone) == before
    assert (daemon.pid, daemon.is_dead) == (pid, False)
    wait_until(lambda: daemon.metric("nri_coloc_reconnects_total") >= 1, 30, "the loss to be counted")
    assert daemon.audited("runtime.lost")
    assert workloads.shared(cri, "after").first_cpus() == NODE_CPUS - before[0]


def test_cpus_stay_owned_when_plugin_and_containerd_both_restart(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon
):
    daemon = own_daemon()
    web = workloads.dedicated(cri)
    owned = web.first_cpus()
    daemon.kill()
    containerd.kill()
    containerd.start()
    daemon.start()
    daemon.wait_synchronised()
    assert workloads.dedicated(cri, "second").first_cpus().isdisjoint(owned)
    assert web.cpus == owned


@pytest.mark.bears_load
def test_owned_cpus_come_before_older_containers_requests(cri: Cri, own_daemon: OwnDaemon):
    older = workloads.run(cri, "older", namespace="queue", request=1)
    daemon = own_daemon()
    web = workloads.dedicated(cri)
    owned = web.first_cpus()
    becomes(lambda: older.cpus, NODE_CPUS - owned)
    daemon.kill()
    daemon.config.write("classes:\n  rules: [{namespace: queue, class: dedicated}]\n")
    daemon.start()
    daemon.wait_ready()
    assert (daemon.container(older.id)["class"], daemon.container(older.id)["pool"]) == ("dedicated", "share")
    assert (web.cpus, older.cpus) == (owned, NODE_CPUS - owned)


@pytest.mark.bears_load
def test_a_created_container_keeps_its_cpus_through_a_restart(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    waiting = workloads.dedicated(cri, "waiting", started=False)
    owned = cgroups.members(waiting.spec_cpus)
    daemon.kill()
    daemon.start()
    daemon.wait_synchronised()
    second = workloads.dedicated(cri, "second")
    assert waiting.start().first_cpus() == owned
    assert second.cpus == NODE_CPUS - owned


@pytest.mark.bears_load
def test_containers_from_before_the_plugin_get_their_cpus(cri: Cri, own_daemon: OwnDaemon):
    neighbour, web = workloads.shared(cri), workloads.dedicated(cri)
    assert web.cpus == neighbour.cpus == NODE_CPUS
    daemon = own_daemon()
    wait_until(lambda: len(web.cpus or NODE_CPUS) == 1, 30, "the dedicated container to be placed")
    wait_until(lambda: neighbour.cpus == NODE_CPUS - (web.cpus or NODE_CPUS), 30, "its neighbour to leave")
    assert daemon.audited("container.admit", container_id=web.id)["reason"] == "adopted"
    assert workloads.shared(cri, "late").first_cpus() == neighbour.cpus
    wait_until(lambda: _spec_agrees(web) and _spec_agrees(neighbour), 30, "the runtime's spec to agree")


@pytest.mark.bears_load
def test_an_offline_pod_from_before_the_plugin_is_limited(cri: Cri, own_daemon: OwnDaemon):
    batch, web = workloads.reclaimed(cri), workloads.dedicated(cri)
    own_daemon()
    wait_until(lambda: cgroups.cpus(batch.pod.cgroup) != NODE_CPUS, 30, "the pod's cgroup to be limited")
    wait_until(lambda: len(web.cpus or NODE_CPUS) == 1, 30, "the dedicated container to be placed")
    left = NODE_CPUS - (web.cpus or NODE_CPUS)
    wait_until(lambda: cgroups.cpus(batch.pod.cgroup) == batch.cpus == left, 30, "pod and container to agree")
    wait_until(lambda: cgroups.shares(batch.pod.cgroup) in (2, None), 30, "the pod's CPU shares")
    wait_until(lambda: cgroups.weighs(batch.pod.cgroup, 10), 30, "the pod's I/O weight")
    wait_until(lambda: cgroups.weighs(batch.cgroup, 10), 30, "the container's I/O weight")


@pytest.mark.bears_load
def test_an_earlier_offline_container_gets_its_classs_score(cri: Cri, own_daemon: OwnDaemon):
    batch = workloads.run(cri, "batch", "reclaimed", request=0.1, oom=300)
    own_daemon()
    pid = cri.pid(batch.id)
    wait_until(lambda: cgroups.oom_score_adj(pid) == 1000, 30, "oom_score_adj 1000")


@pytest.mark.bears_load
def test_annotated_limits_reach_containers_from_before_the_plugin(cri: Cri, own_daemon: OwnDaemon):
    wanted = {"coloc.nri.io/memory-limit": "50%", "coloc.nri.io/io-weight": "300"}
    web = workloads.run(cri, "web", annotations=wanted, request=0.1, memory=64 << 20)
    own_daemon()
    wait_until(lambda: cgroups.memory_limit(web.cgroup) == 32 << 20, 30, "the annotated memory limit")
    wait_until(lambda: cgroups.weighs(web.cgroup, 118), 30, "the annotated I/O weight")


@pytest.mark.bears_load
def test_half_of_a_limit_is_not_halved_again_by_a_restart(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    wanted = {"coloc.nri.io/memory-limit": "50%"}
    web = workloads.run(cri, "web", annotations=wanted, request=0.1, memory=64 << 20)
    assert cgroups.memory_limit(web.cgroup) == 32 << 20
    daemon.kill()
    daemon.start()
    daemon.wait_ready()
    assert cgroups.memory_limit(web.cgroup) == 32 << 20


@pytest.mark.bears_load
def test_changes_while_the_plugin_was_away_are_made_good(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    web, neighbour = workloads.dedicated(cri), workloads.shared(cri)
    daemon.kill()
    cri.remove_pod(web.pod.id)
    late = workloads.dedicated(cri, "late")
    daemon.start()
    wait_until(lambda: len(late.cpus or NODE_CPUS) == 1, 30, "the newcomer to be placed")
    wait_until(lambda: neighbour.cpus == NODE_CPUS - (late.cpus or NODE_CPUS), 30, "the others to make room")
    assert daemon.container(web.id) == {}


@pytest.mark.bears_load
def test_a_second_copy_takes_over_after_a_kill(containerd: Containerd, cri: Cri, own_daemon: OwnDaemon):
    first = own_daemon()
    web = workloads.dedicated(cri)
    with Daemon(containerd, state_dir=first.state_dir) as second:
        wait_until(
            lambda: "lock" in second.check("connected").get("detail", ""), 30, "it to say why it waits"
        )
        assert not second.is_dead
        assert second.readyz()["ready"] is False
        first.kill()
        second.wait_ready()
        assert cgroups.members(second.container(web.id)["cpus"]) == web.first_cpus() == web.cpus


@pytest.mark.bears_load
def test_a_stranger_who_speaks_garbage_does_not_disturb_us(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon
):
    daemon = own_daemon()
    for garbage in (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 64, b"\0\0\0\1\xff\xff\xff\xff"):
        _say(containerd.nri_socket, garbage)
    web = workloads.dedicated(cri)
    assert len(web.first_cpus()) == 1
    assert daemon.metric("nri_coloc_reconnects_total") == 0
    assert daemon.metric("nri_coloc_connected") == 1


def _say(path: Path, words: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(path))
        stranger.sendall(words)


def _one_of_each(cri: Cri) -> list[Workload]:
    """Run a dedicated, a shared and a reclaimed container."""
    return [workloads.dedicated(cri), workloads.shared(cri), workloads.reclaimed(cri)]


def _spec_agrees(workload: Workload) -> bool:
    return cgroups.members(workload.spec_cpus) == workload.cpus


def _cpus(everyone: Iterable[Workload]) -> list[frozenset[int]]:
    return [workload.cpus or frozenset() for workload in everyone]


def _cpuset_files(everyone: Iterable[Workload]) -> list[Path]:
    pods = [cgroups.file(w.pod.cgroup, "cpuset", "cpuset.cpus") for w in everyone]
    return [*pods, *(w.cpuset_file for w in everyone)]
