"""Two hundred and fifty containers share the node when a dedicated one comes.

`make bench` measures the time that this takes (docs/benchmarks.md, "On a real containerd").
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.rig import cgroups, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import becomes, poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload
from tests.rig.writes import Writes

pytestmark = pytest.mark.containerd

PODS = 10
ROUNDS, MOST_ROUNDS = 3, 40
GUESTS = 4
AFTER_SECONDS = 0.5  # a late update may still be under way when the container runs


def test_two_sharers_make_room_before_the_first_instruction(
    cri: Cri, own_daemon: Callable[..., Daemon], tmp_path: Path
):
    """The runtime's own answer carries the updates of both."""
    _all_make_room(_crowd(cri, 2), own_daemon, tmp_path)


@ON_THE_NEWEST
def test_250_sharers_make_room_before_the_first_instruction(
    cri: Cri, own_daemon: Callable[..., Daemon], tmp_path: Path
):
    """The daemon makes the room by writing to files, for the answer does not carry so many updates."""
    _all_make_room(_crowd(cri, 250), own_daemon, tmp_path)


def _all_make_room(crowd: list[Workload], own_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """One arrival in time is enough: a busy machine may delay the daemon for longer than a start waits."""
    cri = crowd[0].cri
    daemon = own_daemon()
    daemon.wait_ready()
    files = [member.cpuset_file for member in crowd]
    arrivals: list[Arrival] = []
    while len(arrivals) < ROUNDS or not any(arrival.in_time for arrival in arrivals):
        assert len(arrivals) < MOST_ROUNDS, "no arrival was in time"
        arrivals.append(_arrival(cri, crowd, tmp_path / f"program{len(arrivals)}", files))
    late = [arrival for arrival in arrivals if not arrival.in_time]
    assert all(daemon.audited("container.late", container_id=arrival.id) for arrival in late)
    assert daemon.metric("nri_coloc_reconnects_total") == 0


def test_specs_follow_for_containers_outside_the_reply(cri: Cri, own_daemon: Callable[..., Daemon]):
    own_daemon(config="runtime:\n  updatesPerReply: 1\n")
    crowd = [workloads.shared(cri, f"n{i}") for i in range(4)]
    web = workloads.dedicated(cri)
    left = NODE_CPUS - web.first_cpus()
    becomes(lambda: [member.cpus for member in crowd], [left] * len(crowd))
    wait_until(lambda: all(cgroups.members(m.spec_cpus) == left for m in crowd), 30, "the specs to agree")
    cri.remove_pod(web.pod.id)
    wait_until(
        lambda: all(cgroups.members(m.spec_cpus) == NODE_CPUS for m in crowd), 30, "them to grow again"
    )


def test_constantly_changing_pods_never_wedge_the_runtime(cri: Cri, own_daemon: Callable[..., Daemon]):
    daemon = own_daemon()
    crowd = _crowd(cri, 24)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda i: _comings_and_goings(cri, f"guest-{i}"), range(3)))
    wait_until(lambda: all(m.cpus == NODE_CPUS for m in crowd), 30, "all containers to be back")
    wait_until(
        lambda: all(cgroups.members(m.spec_cpus) == NODE_CPUS for m in crowd), 60, "the specs to agree"
    )
    assert daemon.metric("nri_coloc_reconnects_total") == 0
    assert daemon.audit("hook.failed") == []


def _comings_and_goings(cri: Cri, name: str) -> None:
    """Run dedicated containers one after the other; a call that the kubelet would give up raises grpc's error."""
    for _ in range(GUESTS):
        guest = workloads.dedicated(cri, name)
        guest.first_cpus()
        cri.remove_pod(guest.pod.id)


class Arrival(NamedTuple):
    """Hold a container's id, and whether all others had made room at its first instruction."""

    id: str
    in_time: bool


def _arrival(cri: Cri, crowd: list[Workload], program: Path, files: list[Path]) -> Arrival:
    """Run and remove a dedicated container; the CPUs written in `files` for it must stay."""
    pod = workloads.witness_pod(cri, program)
    with Writes(files, [program]) as writes:
        web = workloads.witness(cri, pod, program)
        owned = web.first_cpus()
        seen = writes.seen()
    wait_until(
        lambda: all(m.cpus == NODE_CPUS - owned for m in crowd), 30, "all containers to leave the CPUs"
    )
    back = poll(lambda: [member.id for member in crowd if member.cpus != NODE_CPUS - owned], AFTER_SECONDS)
    assert not back  # a late update must not undo it
    cri.remove_pod(pod.id)
    wait_until(lambda: all(member.cpus == NODE_CPUS for member in crowd), 30, "all containers to be back")
    return Arrival(web.id, set(seen[: seen.index(program)]) == set(files))


def _crowd(cri: Cri, size: int) -> list[Workload]:
    with ThreadPoolExecutor(4) as pool:
        pods = list(pool.map(lambda i: cri.run_pod(f"crowd-{i}"), range(min(PODS, size))))
        return list(pool.map(lambda i: workloads.add(cri, pods[i % len(pods)], f"c{i}"), range(size)))
