"""Which files this process has open below a folder: what threads of other tests open and close meanwhile counts not."""

import os
from pathlib import Path


def below(folder: os.PathLike[str] | str) -> int:
    """Count descriptors that lead to a folder or into it, also to what has been removed there since."""
    return sum(str(folder) in _target(descriptor) for descriptor in Path("/proc/self/fd").iterdir())


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # it was that of the listing, or another thread's
        return ""
