"""Two hundred containers share the node when a dedicated one comes."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.rig import workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload
from tests.rig.writes import Writes

pytestmark = pytest.mark.containerd

CONTAINERS = 200
PODS = 10
ROUNDS = 5
AFTER_SECONDS = 0.5  # what is still under way when the container runs
MORE_SECONDS = 0.3  # DESIGN 7, on the reference machine


def test_two_hundred_containers_make_room_before_the_first_instruction(
    cri: Cri, own_daemon: Callable[..., Daemon], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    crowd = _crowd(cri)
    without = [_arrival(cri, crowd, tmp_path / f"without{i}", []) for i in range(ROUNDS)]
    daemon = own_daemon()
    daemon.wait_ready()
    files = [member.cpuset_file for member in crowd]
    with_us = [_arrival(cri, crowd, tmp_path / f"with{i}", files) for i in range(ROUNDS)]
    with capsys.disabled():
        print(
            f"\n{cri.version()}: Create+Start beside {CONTAINERS}, ms: {_ms(without)} without, {_ms(with_us)} with"
        )
    assert statistics.median(with_us) - statistics.median(without) <= MORE_SECONDS
    assert daemon.audit("container.late") == []
    assert daemon.metric("nri_coloc_reconnects_total") == 0


def _arrival(cri: Cri, crowd: list[Workload], program: Path, files: list[Path]) -> float:
    """Let a dedicated container come and go; the seconds that its creation and its start took.

    `files` must all have been written before its first instruction, and hold.
    """
    pod = workloads.witness_pod(cri, program)
    with Writes(files, [program]) as writes:
        began = time.monotonic()
        web = workloads.witness(cri, pod, program)
        took = time.monotonic() - began
        owned = web.first_cpus()
        seen = writes.seen()
    assert set(seen[: seen.index(program)]) == set(files)
    if files:
        assert all(member.cpus == NODE_CPUS - owned for member in crowd)
        back = poll(
            lambda: [member.id for member in crowd if member.cpus != NODE_CPUS - owned], AFTER_SECONDS
        )
        assert not back  # a late update must not undo it
    cri.remove_pod(pod.id)
    wait_until(lambda: all(member.cpus == NODE_CPUS for member in crowd), 10, "everybody to be back")
    return took


def _crowd(cri: Cri) -> list[Workload]:
    with ThreadPoolExecutor(4) as pool:
        pods = list(pool.map(lambda i: cri.run_pod(f"crowd-{i}"), range(PODS)))
        return list(pool.map(lambda i: workloads.add(cri, pods[i % PODS], f"c{i}"), range(CONTAINERS)))


def _ms(seconds: list[float]) -> str:
    return "/".join(f"{s * 1000:.0f}" for s in sorted(seconds))
