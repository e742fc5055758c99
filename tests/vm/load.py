"""Work in a container's cgroup: busy loops, and readers of a disk that count the blocks they read."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.vm.node import ROOT, Container, until

_LOOP: Final = 'echo $$ > "$0/cgroup.procs"; while :; do :; done'
_READER: Final = Path(__file__).parent / "guest/reader.py"
_STARTED_S: Final = 180


@contextmanager
def burning(container: Container, loops: int) -> Iterator[None]:
    """Run this number of busy loops in a container until the block ends."""
    folder = str(_folder(container))
    running = [subprocess.Popen(["sh", "-c", _LOOP, folder]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
        for loop in running:
            loop.wait()
        until(lambda: not {str(loop.pid) for loop in running} & set(_members(container)), "the loops to go")


def read_side_by_side(disk: Path, seconds: float, readers: Mapping[str, Container]) -> dict[str, int]:
    """Return the blocks that each reader got: containers read a disk past the page cache at the same time."""
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(_reader(disk, seconds, container))
            for name, container in readers.items()
        }
        for process in running.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = {
            name: process.communicate(timeout=_STARTED_S + seconds)[0] for name, process in running.items()
        }
    return {name: int(text) for name, text in said.items()}


@contextmanager
def _reader(disk: Path, seconds: float, container: Container) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-S", str(_READER), str(_folder(container)), str(disk), str(seconds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _folder(container: Container) -> Path:
    return ROOT / container.path.lstrip("/")


def _members(container: Container) -> list[str]:
    return container.cgroup("cgroup.procs").split()
