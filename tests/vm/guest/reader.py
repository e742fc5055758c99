"""A program: reads a disk past the page cache for some seconds as a member of a cgroup, one block after the other.

Arguments: the cgroup's folder, the disk, seconds. It prints "ready", waits for a line, and prints the number of blocks
that it read.
"""

import mmap
import os
import sys
import time
from pathlib import Path

BLOCK = 1 << 16
SPAN = 1 << 28


def main() -> None:
    cgroup, disk, seconds = sys.argv[1:]
    opened = os.open(disk, os.O_RDONLY | os.O_DIRECT)  # first: a container may open no disk
    Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
    page = mmap.mmap(-1, BLOCK)  # direct I/O wants whole pages
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    ends, blocks = time.monotonic() + float(seconds), 0
    while time.monotonic() < ends:
        os.preadv(opened, [page], blocks * BLOCK % SPAN)
        blocks += 1
    sys.stdout.write(f"{blocks}\n")


main()
