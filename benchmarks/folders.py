"""Where simulated kernel files lie while something is measured."""

import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")


def planted() -> "tempfile.TemporaryDirectory[str]":
    """Make a folder in memory, where there is such a file system.

    A kernel's own file costs microseconds to write; one on a disk with a journal was seen to take a millisecond.
    """
    return tempfile.TemporaryDirectory(prefix="coloc-bench-", dir=_MEMORY if _MEMORY.is_dir() else None)
