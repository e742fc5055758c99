"""The process that made a rig's folder: if it has ended, a later run may take the rig away.

A process is named by its id and its start time, for the kernel gives an id to another process later.
"""

import os
from pathlib import Path
from typing import Final

_FILE: Final = "owner"
_START_TIME: Final = 19
"""Index of a process's start time in /proc/<pid>/stat, counted after the name."""


def note(folder: Path) -> None:
    """Note this process as the owner of a folder."""
    (folder / _FILE).write_text(f"{os.getpid()} {started(os.getpid())}")


def without_owner(folders: Path, prefix: str) -> list[Path]:
    """Return the folders with this prefix whose noted owner has ended."""
    noted = {path.parent: path.read_text().split() for path in folders.glob(f"{prefix}*/{_FILE}")}
    return [folder for folder, words in noted.items() if len(words) == 2 and not _lives(*words)]


def started(pid: int) -> str:
    """Return when a process began, in clock ticks since boot; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except OSError:
        return ""


def _lives(pid: str, since: str) -> bool:
    return started(int(pid)) == since
