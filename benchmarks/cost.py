"""`cost.*`: the daemon's cost on a node that it lends from (DESIGN §7: 1 % of a core and 80 MiB PSS with 110 pods, 2 %
and 110 MiB with 500).

`cost.second.quiet.110` is µs of CPU time in each second (10 000 are 1 %) while no pod uses anything, `….busy.110`
while all pods together use 5.5 of 8 CPUs, in steps as fine as a kernel's. Of the whole process tree, beside a simulated
node in a process of its own. The memory is printed. Another number of pods: `python -m benchmarks cost 500`.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import figures, folders
from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of, reclaimed, served, shared
from tests.rig.daemon import Daemon

PODS = 110
USED_CPUS = 5.5
SECONDS = 30
SETTLES_S = 12.0


def run(pods: int = PODS) -> dict[str, figures.Figures]:
    """Return the figures of a quiet node, then of a busy one."""
    results = {}
    with (
        folders.planted() as root,
        Node(Path(root), cgroup=1) as node,
        daemon_of(node, config="reclaim: {enabled: true}\n") as daemon,
    ):
        served(daemon)
        for number in range(pods):
            (shared, reclaimed)[number % 2](node, f"p{number}")
        time.sleep(SETTLES_S)
        results[f"cost.second.quiet.{pods}"] = _seconds(daemon)
        with _used(node):
            time.sleep(SETTLES_S)
            results[f"cost.second.busy.{pods}"] = _seconds(daemon)
        print(
            f"cost.pss.{pods}: {_pss_kib(daemon) / 1024:.1f} MiB of {len(list(_tree(daemon.pid)))} processes"
        )
    return results


@contextmanager
def _used(node: Node) -> Iterator[None]:
    """Let the counters of all pods, of the reclaim cgroups and of the online pods rise while the block lasts."""
    half = str(USED_CPUS / 2)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.usage", str(node.host_root), half, half, half]
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(5)


def _seconds(daemon: Daemon) -> figures.Figures:
    samples = []
    before, began = _cpu_ns(daemon), time.monotonic_ns()
    for _ in range(SECONDS):
        time.sleep(1.0)
        used, now = _cpu_ns(daemon), time.monotonic_ns()
        samples.append((used - before) * 1_000_000_000 // (now - began))
        before, began = used, now
    print(f"mean {sum(samples) / len(samples) / 1e7:.2f} % of a core")
    return figures.of(samples)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def _cpu_ns(daemon: Daemon) -> int:
    """Return the CPU time of all living threads, by the scheduler's own nanoseconds."""
    return sum(
        int((task / "schedstat").read_text().split()[0])
        for pid in _tree(daemon.pid)
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def _pss_kib(daemon: Daemon) -> int:
    lines = (
        line
        for pid in _tree(daemon.pid)
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    )
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
