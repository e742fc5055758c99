"""The process that made a rig's folder: if it has ended, a later run may take the rig away.

A process is named by its id and its start time, for the kernel gives an id to another process later. Anybody may make
a folder in /tmp, and the notes in it tell root what to end and to write: so only folders of this user count.
"""

import os
import stat
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
    noted = {path.parent: path.read_text().split() for path in notes(folders, prefix, _FILE)}
    return [
        folder for folder, words in noted.items() if len(words) == 2 and not lives(int(words[0]), words[1])
    ]


def notes(folders: Path, prefix: str, name: str) -> list[Path]:
    """Return the files of this name in the folders with this prefix that belong to this user."""
    found = [path / name for path in folders.glob(f"{prefix}*") if _is_own(path)]
    return [path for path in found if path.is_file()]


def _is_own(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:  # another run has removed it
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def lives(pid: int, since: str) -> bool:
    """Return whether the process that began at a time still runs."""
    return bool(since) and started(pid) == since


def started(pid: int) -> str:
    """Return when a process began, in clock ticks since boot; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except OSError:
        return ""
