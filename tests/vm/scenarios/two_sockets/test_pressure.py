"""Pressure triggers of half a second: granted with CAP_SYS_RESOURCE; the loop reads totals instead (decision 24)."""

import os
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vm.node import ROOT, until

FIRES_MS = 180_000
WINDOW = b"some 50000 500000"  # a stall of 50 ms in 500 ms; unprivileged windows are multiples of 2 s


@dataclass
class Crowd:
    folder: Path
    loops: list[subprocess.Popen[bytes]]

    def come(self) -> None:
        """Start two busy loops, which compete for the one CPU."""
        command = f"echo $$ > {self.folder}/cgroup.procs; while :; do :; done"
        self.loops.extend(subprocess.Popen(["sh", "-c", command]) for _ in range(2))


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Yield a cgroup that has one CPU."""
    (ROOT / "cgroup.subtree_control").write_text("+cpuset +cpu")
    folder = ROOT / "crowd"
    folder.mkdir()
    (folder / "cpuset.cpus").write_text("7")
    loops: list[subprocess.Popen[bytes]] = []
    yield Crowd(folder, loops)
    for loop in loops:
        loop.kill()
        loop.wait()
    until(lambda: not (folder / "cgroup.procs").read_text(), "the loops to be gone")
    folder.rmdir()


def test_a_short_trigger_is_granted_and_fires(crowd: Crowd):
    trigger = os.open(crowd.folder / "cpu.pressure", os.O_RDWR | os.O_NONBLOCK)
    os.write(trigger, WINDOW)
    poll = select.poll()
    poll.register(trigger, select.POLLPRI)
    assert poll.poll(0) == []
    crowd.come()
    assert poll.poll(FIRES_MS) == [(trigger, select.POLLPRI)]
    os.close(trigger)
