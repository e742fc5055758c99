"""The files that this process has open below a folder; files that threads of other tests open do not count."""

import os
from pathlib import Path


def below(folder: os.PathLike[str] | str) -> int:
    """Return the number of descriptors that lead to a folder or into it, also to files that were removed since."""
    return sum(str(folder) in _target(descriptor) for descriptor in Path("/proc/self/fd").iterdir())


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # the descriptor was that of the listing, or another thread's
        return ""
