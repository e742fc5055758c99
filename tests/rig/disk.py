"""A disk of a few kilobytes that can be full, and folders that cannot be written: mounts that are removed again."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

SIZE: Final = "64k"
_BALLAST: Final = "ballast"


@contextmanager
def tiny(folder: Path) -> Iterator[Path]:
    """Yield the folder of a file system of its own, of 64 KiB."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Write until the disk is full."""
    with (disk / _BALLAST).open("ab", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"x" * 512):
            pass


def free(disk: Path) -> None:
    """Remove the file that `fill` wrote."""
    (disk / _BALLAST).unlink()


@contextmanager
def read_only(folders: list[Path]) -> Iterator[None]:
    """Bind folders over themselves, read-only: every write in them is refused with EROFS, root's too."""
    bound: list[Path] = []
    try:
        for folder in folders:
            subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
            bound.append(folder)
            subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        for folder in reversed(bound):
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
