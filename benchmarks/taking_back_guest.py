"""The guest's part of `taking_back`: rounds of a bare `memory.reclaim` and of an urgent order, of the same size.

A program holds anonymous pages that compress 3:1, and zram is the swap. Each round begins with a new program.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from nri_coloc.host import cgroup_layout
from nri_coloc.host.memory_reclaim import MemoryReclaim
from nri_coloc.pressure.reclaim_worker import Order, ReclaimWorker
from nri_coloc.pressure.taking_back import Regime, Take

MIB: Final = 1 << 20
HELD, SIZE, FIRST = 1024 * MIB, 512 * MIB, 256 * MIB
ROUNDS: Final = 3
SAMPLE_S: Final = 0.05
ROOT: Final = Path("/sys/fs/cgroup")
GROUP: Final = "kubepods/hog"
RESULT: Final = Path("/vm/taking_back.json")
SECONDS: Final = 120.0
PROGRAM: Final = """
import mmap, os, sys, time
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text("0")
size = int(sys.argv[2])
block = (os.urandom(1365) + bytes(4096 - 1365)) * 256
held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, len(block)):
    held[at : at + len(block)] = block
print("held", flush=True)
time.sleep(3600)
"""


def test_pace() -> None:
    busybox = os.environ["VM_BUSYBOX"]
    subprocess.run(["modprobe", "zram"], check=True)
    Path("/sys/block/zram0/disksize").write_text("2G")
    for command in ("mkswap", "swapon"):
        subprocess.run([busybox, command, "/dev/zram0"], check=True, capture_output=True)
    for path in ("", "kubepods"):
        (ROOT / path).mkdir(exist_ok=True)
        (ROOT / path / "cgroup.subtree_control").write_text("+memory")
    (ROOT / GROUP).mkdir()
    files = MemoryReclaim(cgroup_layout.detect("/"))
    rounds = [(name, _round(act, files)) for _ in range(ROUNDS) for name, act in WAYS.items()]
    RESULT.write_text(json.dumps(rounds))


def _round(act: Callable[[MemoryReclaim, Event], None], files: MemoryReclaim) -> dict[str, float]:
    """Return seconds of the whole size, seconds of the first bytes, and the rise of MemAvailable in bytes."""
    with _hog():
        before, begun, done = _available(), time.monotonic(), Event()
        thread = Thread(target=act, args=(files, done))
        thread.start()
        first_s = None
        while not done.wait(SAMPLE_S):
            if first_s is None and _available() - before >= FIRST:
                first_s = time.monotonic() - begun
        whole_s, rise = time.monotonic() - begun, _available() - before
        thread.join()
    return {"seconds": whole_s, "first_s": first_s or whole_s, "rise": float(rise)}


def _bare(files: MemoryReclaim, done: Event) -> None:
    assert files.reclaim(GROUP, SIZE, only_cache=False)
    done.set()


def _urgent(files: MemoryReclaim, done: Event) -> None:
    worker = ReclaimWorker(files, lambda _: True)
    worker.submit((Order(Take("hog", SIZE), GROUP, Regime.URGENT),))
    ends = time.monotonic() + SECONDS
    while worker.is_busy and time.monotonic() < ends:
        time.sleep(SAMPLE_S / 5)
    assert sum(one.amount for one in worker.results()) == SIZE
    done.set()
    worker.stop()


WAYS: Final = {"bare": _bare, "urgent": _urgent}


@contextmanager
def _hog() -> Iterator[None]:
    command = [sys.executable, "-c", PROGRAM, str(ROOT / GROUP), str(HELD)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as hog:
        assert hog.stdout is not None
        hog.stdout.readline()
        try:
            yield
        finally:
            hog.kill()


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
