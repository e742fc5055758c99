"""Jobs in children of this process, which see the objects that it has made, and may change them."""

import multiprocessing
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")
FORK: Final = multiprocessing.get_context("fork")
MEMORY: Final = 8 << 30
"""Bytes of address space for a child: an endless loop may fill a list."""


class Ended(NamedTuple):
    """The result of a child, or the number of the signal that ended it."""

    result: Any
    signal: int


def run(jobs: Iterable[tuple[T, Callable[[], object]]], workers: int) -> Iterator[tuple[T, Ended]]:
    """Run each job in a child of this process, `workers` at once; yield the names of jobs with their ends."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        running: dict[Connection, tuple[T, ForkProcess]] = {}
        for number, (name, work) in enumerate(jobs):
            if len(running) == workers:
                yield _first_end(running)
            receiver, sender = FORK.Pipe(duplex=False)
            child = FORK.Process(target=_child, args=(work, sender, Path(home, str(number))))
            child.start()
            sender.close()
            running[receiver] = name, child
        while running:
            yield _first_end(running)


def _first_end(running: dict[Connection, tuple[T, ForkProcess]]) -> tuple[T, Ended]:
    receiver = wait(list(running))[0]
    assert isinstance(receiver, Connection)
    name, child = running.pop(receiver)
    try:
        result = receiver.recv()
    except EOFError:
        result = None
    child.join()
    if child.exitcode is None or child.exitcode > 0:
        raise SystemExit(f"the child for {name} failed")
    return name, Ended(result, -child.exitcode)


def _child(work: Callable[[], object], sender: Connection, folder: Path) -> None:
    said = os.open(os.devnull, os.O_WRONLY)
    os.dup2(said, 1)
    folder.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sender.send(work())
    shutil.rmtree(folder, ignore_errors=True)
