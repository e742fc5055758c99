"""The daemon uses few resources and leaves nothing behind."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

from nri_coloc._pb import nri_pb2
from nri_coloc.cli.main import main
from nri_coloc.core import cpuset
from nri_coloc.sim.node import Node
from tests.integration.harness import (
    ENDS_WITHIN_S,
    QOS,
    assert_unhurt,
    cpu_seconds,
    daemon_of,
    dedicated,
    reclaimed,
    served,
    shared,
)
from tests.rig import pace
from tests.rig.counting_daemon import allocated_by
from tests.rig.daemon import Daemon
from tests.rig.raw_runtime import RawPlugin, RawRuntime
from tests.rig.waiting import wait_until

FLAT_AFTER = 4200
"""Lives until caches and kept records are full."""

STRETCH = 1400

PIECES = 3
"""The most that an idle second may cost, 3 % of an idle core (`pace`); `make bench` has the figure."""


def resident_kb(daemon: Daemon, name: str) -> int:
    lines = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def open_things(daemon: Daemon) -> tuple[int, int]:
    """Return the numbers of open descriptors and of threads."""
    process = Path(f"/proc/{daemon.pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def live(plugin: RawPlugin, number: int) -> None:
    """Send the events of one pod's life; the class depends on `number`.

    The runtime makes no cgroups, so a life takes no time.
    """
    qos = ("dedicated", "shared", "reclaimed", "system")[number % 4]
    sandbox = nri_pb2.PodSandbox(
        id=f"pod{number}", name=f"p{number}", uid=f"u{number}", namespace="kube-system"
    )
    sandbox.annotations[QOS] = qos
    sandbox.linux.cgroup_parent = f"/kubepods/burstable/podu{number}"
    container = nri_pb2.Container(id=f"c{number}", pod_sandbox_id=sandbox.id, name="app")
    container.linux.cgroups_path = f"{sandbox.linux.cgroup_parent}/{container.id}"
    container.linux.resources.cpu.shares.value = 1024
    plugin.hook("RunPodSandbox", pod=sandbox)
    created = plugin.hook("CreateContainer", pod=sandbox, container=container)
    container.annotations.update(created.adjust.annotations)
    for method in ("PostCreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer"):
        plugin.hook(method, pod=sandbox, container=container)
    if number % 3:  # a restarting runtime reports some ends never or only once
        plugin.hook("StopContainer", pod=sandbox, container=container)
    plugin.hook("StopPodSandbox", pod=sandbox)
    if number % 3 > 1:
        plugin.hook("RemoveContainer", pod=sandbox, container=container)
        plugin.hook("RemovePodSandbox", pod=sandbox)


def allocated_after(lives: int, daemon: Daemon, count: Path) -> int:
    """Return the number of blocks that Python has allocated when nothing of these lives is left to do."""
    daemon.audited("container.admit", 20, pod=f"p{lives - 1}")
    # the daemon drops what is gone in its sweeps
    order = ["admin", "repair", "--admin-socket", str(daemon.folder / "admin" / "admin.sock")]
    assert main(order, {}) == 0
    return allocated_by(count)


def test_thousands_of_lives_leave_nothing_behind(tmp_path, record_testsuite_property):
    node, count = Node(tmp_path, cgroup=1), tmp_path / "count"
    few = "telemetry: {auditRing: 500}\n"  # kept records are no leak, so the ring is full before the first count
    counting = ("-m", "tests.rig.counting_daemon", str(count))
    with (
        RawRuntime(node.nri_socket) as runtime,
        daemon_of(node, config=few, program=counting) as daemon,
        runtime.accept() as plugin,
    ):
        plugin.welcome()
        # from then on gRPC is loaded, with its threads and its megabytes
        wait_until(lambda: "cannot compare" in daemon.check("synchronised")["detail"], 20, "a try to ask CRI")
        for number in range(FLAT_AFTER):
            live(plugin, number)
        things, rss = open_things(daemon), resident_kb(daemon, "Rss")
        blocks = [allocated_after(FLAT_AFTER, daemon, count)]
        for first in range(FLAT_AFTER, FLAT_AFTER + 3 * STRETCH, STRETCH):
            for number in range(first, first + STRETCH):
                live(plugin, number)
            blocks.append(allocated_after(first + STRETCH, daemon, count))
        kept = [after - before for before, after in pairwise(blocks)]
        grown = resident_kb(daemon, "Rss") - rss
        record_testsuite_property("kept_blocks", kept)
        record_testsuite_property("grown_kb", grown)
        wait_until(lambda: open_things(daemon) <= things, 20, f"{things}, not {open_things(daemon)}")
        assert assert_unhurt(daemon)["containers"] == []
        # a leak shows in each stretch
        assert min(kept) < STRETCH / 2, f"{kept} blocks are kept after {STRETCH} lives each"
        # what C libraries allocate, too
        assert grown < 6 * STRETCH, f"grown by {grown} kB"


def test_an_idle_daemon_with_110_pods_is_small_and_quiet(tmp_path, record_testsuite_property):
    with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
        served(daemon)
        for number in range(110):
            (shared, reclaimed)[number % 2](node, f"p{number}")
        piece_s, began, used = pace.piece_s(), time.monotonic(), cpu_seconds(daemon)
        wait_until(
            lambda: time.monotonic() > began + 5, 20, "five idle seconds, the comparison with CRI in them"
        )
        share = (cpu_seconds(daemon) - used) / (time.monotonic() - began)
        piece_s = max(piece_s, pace.piece_s())
        pss = resident_kb(daemon, "Pss") / 1024
        record_testsuite_property("cpu_percent", 100 * share)
        record_testsuite_property("pss_mib", pss)
        assert share < PIECES * piece_s, f"{100 * share:.1f} % of a core, a piece is {1000 * piece_s:.1f} ms"
        assert pss < 80, f"{pss:.0f} MiB"


def test_a_daemon_that_is_killed_un_pins_nothing(node, daemon):
    owner, other = dedicated(node), shared(node)
    os.kill(daemon.pid, signal.SIGKILL)
    wait_until(lambda: daemon.is_dead, 20, "its end")
    assert [cpuset.render(node.cpus(one)) for one in (owner, other)] == ["0-1", "2-7"]


def test_a_daemon_told_to_end_before_it_is_wired_ends_well(node_v2, tmp_path):
    waits = tmp_path / "waits"
    with daemon_of(node_v2, program=("-m", "tests.rig.unwired_daemon", str(waits))) as daemon:
        wait_until(waits.exists, 20, "the daemon to have read its configuration")
        assert daemon.terminate(ENDS_WITHIN_S) == 0
        assert "Traceback" not in daemon.log()


def test_a_daemon_that_hangs_ends_by_itself(node_v2, tmp_path):
    """No liveness probe restarts it: any process could bind the port of such a probe first."""
    hangs = tmp_path / "hangs"
    with daemon_of(node_v2, program=("-m", "tests.rig.hung_daemon", str(hangs))) as daemon:
        served(daemon)
        hangs.touch()
        wait_until(lambda: daemon.is_dead, 60, "the daemon's end")
        assert "hung_daemon.py" in daemon.log()
