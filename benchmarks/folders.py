"""The folder of simulated kernel files during a measurement."""

import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")


def planted() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder in memory, if there is such a file system.

    A kernel's own file costs microseconds to write; one on a disk with a journal was seen to take a millisecond.
    """
    return tempfile.TemporaryDirectory(prefix="coloc-bench-", dir=_MEMORY if _MEMORY.is_dir() else None)
