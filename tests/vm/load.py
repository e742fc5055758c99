"""Work in a container's cgroup: busy loops, and readers of a disk that count the blocks they read."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
            name: stack.enter_context(
                run_python(container, [str(_READER)], str(disk), str(seconds), pipe=subprocess.PIPE)
            )
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
def run_python(
    container: Container, program: Sequence[str], *words: str, pipe: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program until the block ends; then end all its processes.

    program: a file, or "-c" and a text. Its first word is the folder of the container's cgroup, which it enters itself.
    pipe: for its standard input and output, as of `subprocess`.
    """
    command = [sys.executable, "-I", "-S", *program, str(_folder(container)), *words]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)


def _folder(container: Container) -> Path:
    return ROOT / container.path.lstrip("/")


def _members(container: Container) -> list[str]:
    return container.cgroup("cgroup.procs").split()
