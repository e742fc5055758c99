"""Folders for simulated cgroups: files in them may have extended attributes, as cgroups may."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BUILD = Path(__file__).parents[2] / "build"


@contextmanager
def folder(preferred: Path | None = None) -> Iterator[Path]:
    """Yield a folder that takes extended attributes.

    Before Linux 6.6 a tmpfs takes none; the project's own disk does.
    """
    if preferred is not None and takes_attributes(preferred):
        yield preferred
        return
    _BUILD.mkdir(exist_ok=True)
    other = Path(tempfile.mkdtemp(prefix="attributes-", dir=None if takes_attributes(_TEMPORARY) else _BUILD))
    try:
        yield other
    finally:
        shutil.rmtree(other)


def takes_attributes(path: Path) -> bool:
    """Return whether a folder takes a user's extended attribute."""
    try:
        os.setxattr(path, "user.nri-coloc.trial", b"1")
        os.removexattr(path, "user.nri-coloc.trial")
    except OSError:
        return False
    return True


_TEMPORARY = Path(tempfile.gettempdir())
