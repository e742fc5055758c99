"""The guest's part of `disk`: rounds without and with the daemon, each alone first and then beside a writer.

The disk is the kernel's null_blk under bfq: a millisecond for each request, and 40 MB a second. An online pod reads
4 KiB past the page cache fifty times a second. A reclaimed pod writes as fast as it can, past the page cache or through
it.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.vm.load import run_python
from tests.vm.node import Container, Node

RESULT: Final = Path("/vm/disk.json")
DISK: Final = "nullb0"
OPTIONS: Final = {
    "size": 1024,
    "memory_backed": 1,
    "queue_mode": 2,
    "submit_queues": 1,
    "hw_queue_depth": 8,
    "irqmode": 2,
    "completion_nsec": 1_000_000,
    "mbps": 40,
    "power": 1,
}
MOUNTED: Final = Path("/scratch/disk")
ALONE_S: Final = 16.0
"""Seconds alone; the daemon's baseline needs ten."""

SETTLE_S: Final = 8.0
"""Seconds from the writer's first request to the first read that counts: some steps down the ladder."""

BESIDE_S: Final = 40.0
"""Seconds that count: longer than `hold`, so a step up and the hurt that it makes are among them."""

STARTED_S: Final = 300
MIB: Final = 1 << 20
THROTTLES: Final = "pressure: {io: {action: throttle}}\n"

READER: Final = """
import mmap, os, sys, time
from pathlib import Path
cgroup, disk, taken = sys.argv[1:]
opened = os.open(disk, os.O_RDONLY | os.O_DIRECT)
Path(cgroup, "cgroup.procs").write_text("0")
page, block = mmap.mmap(-1, 4096), 0
with open(taken, "w", buffering=1) as notes:
    while True:
        begun = time.monotonic()
        os.preadv(opened, [page], (block * 7919 % 65536) * 4096)
        notes.write(f"{begun} {time.monotonic() - begun}\\n")
        block += 1
        time.sleep(0.02)
"""

DIRECT: Final = """
import mmap, os, sys
from pathlib import Path
cgroup, folder = sys.argv[1:]
Path(cgroup, "cgroup.procs").write_text("0")
for number in range(4):
    if os.fork() == 0:
        file = os.open(f"{folder}/direct{number}", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        page, at = mmap.mmap(-1, 1 << 20), 0
        while True:
            os.pwritev(file, [page], (at % 32) << 20)
            at += 1
while True:
    os.wait()
"""

BUFFERED: Final = """
import os, sys
from pathlib import Path
cgroup, folder = sys.argv[1:]
Path(cgroup, "cgroup.procs").write_text("0")
block = bytes(1 << 20)
while True:
    with open(f"{folder}/buffered", "wb") as file:
        for _ in range(128):
            file.write(block)
        os.fsync(file.fileno())
"""

WRITERS: Final = {"direct": DIRECT, "buffered": BUFFERED}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Yield a folder of a file system on the disk."""
    busybox = os.environ["VM_BUSYBOX"]
    for command in (("modprobe", "null_blk", "nr_devices=0"), ("modprobe", "ext4")):
        subprocess.run(command, check=True, capture_output=True)
    made = Path("/sys/kernel/config/nullb", DISK)
    if not made.parent.is_dir():
        subprocess.run(("mount", "-t", "configfs", "config", "/sys/kernel/config"), check=True)
    made.mkdir()
    for name, value in OPTIONS.items():
        (made / name).write_text(str(value))
    subprocess.run((busybox, "mke2fs", f"/dev/{DISK}"), check=True, capture_output=True)
    Path("/sys/block", DISK, "queue/scheduler").write_text("bfq")
    MOUNTED.mkdir()
    subprocess.run(("mount", "-t", "ext4", f"/dev/{DISK}", MOUNTED), check=True, capture_output=True)
    yield MOUNTED
    subprocess.run(("umount", MOUNTED), check=True, capture_output=True)


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("kind", WRITERS)
def test_round(node: Node, folder: Path, kind: str, number: int) -> None:
    node.plugin.terminate()
    plain = _half(node, folder, kind)
    node.plugin.start()
    node.plugin.wait_synchronised(STARTED_S)
    node.plugin.config.write(THROTTLES)
    played = {"kind": kind, "number": number, "plain kubelet": plain, "nri-coloc": _half(node, folder, kind)}
    assert node.plugin.audit("pressure.throttle"), node.plugin.log()
    with RESULT.open("a") as file:
        file.write(json.dumps(played) + "\n")


def _half(node: Node, folder: Path, kind: str) -> dict[str, Any]:
    """Return the seconds of each read alone and beside the writer, and the MiB a second that it wrote."""
    online = node.pod("online")
    offline = node.pod("offline", kube_qos="besteffort", qos_class="reclaimed")
    taken = Path("/scratch/taken")
    with run_python(online, ["-c", READER], f"/dev/{DISK}", str(taken)):
        time.sleep(ALONE_S)
        begun = time.monotonic()
        with run_python(offline, ["-c", WRITERS[kind]], str(folder)):
            time.sleep(SETTLE_S)
            before = _written(offline)
            time.sleep(BESIDE_S)
            written, ended = _written(offline) - before, time.monotonic()
    reads = [tuple(map(float, line.split())) for line in taken.read_text().splitlines()]
    node.clear()
    return {
        "alone": [took for at, took in reads if at < begun],
        "beside": [took for at, took in reads if begun + SETTLE_S <= at < ended],
        "written": written / BESIDE_S / MIB,
    }


def _written(container: Container) -> int:
    """Return the bytes that a pod has written to the disk."""
    words = container.pod_cgroup("io.stat").split()
    return sum(int(word.partition("=")[2]) for word in words if word.startswith("wbytes="))
