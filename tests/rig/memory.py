"""Temporary folders of tests lie in memory, if the machine has a memory file system with room; a runtime's on the disk.

A simulated node is a tree of thousands of small files. `pytest tests/unit/sampling tests/unit/node_sim
tests/scenario/test_lending_on_simulated_node.py` took 89 s of CPU time on a busy disk, and 30 s in memory.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
ROOM: Final = 4 << 30
"""Bytes that must be free."""

DISK: Final = tempfile.gettempdir()
"""The folder for temporary files that the machine names itself."""


def use_memory(folder: Path = MEMORY, room: int = ROOM) -> None:
    """Let this process and its children make temporary folders in memory; keep a TMPDIR that is set already."""
    if "TMPDIR" in os.environ or not _is_fit(folder, room):
        return
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # Python reads TMPDIR again when it needs the folder


def _is_fit(folder: Path, room: int) -> bool:
    if not folder.is_dir():
        return False
    found = os.statvfs(folder)
    may_run = not found.f_flag & os.ST_NOEXEC  # tests run programs that they write there
    return may_run and found.f_bavail * found.f_frsize >= room
