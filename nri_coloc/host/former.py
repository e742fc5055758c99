"""One original value, and a harmless substitute where it cannot be known."""

from typing import Final, NamedTuple

from nri_coloc.core import kubepods
from nri_coloc.host import io_limits, originals

CPUSETS: Final = frozenset({"cpuset.cpus", "cpuset.mems"})


class Former(NamedTuple):
    """The value of a file before our first write.

    text: the value that `restore` writes.
    is_known: False where the value before us could not be known; `text` is then a value that does no harm.
    """

    text: str
    is_known: bool = True


def unknown(file: str, found: str) -> Former:
    """Return a harmless substitute for an original that cannot be known.

    A cpuset is as its parent's. A value that the runtime's spec of a container holds too stays as found, for the two
    agree. Every other file gets the value that the kernel gives a new cgroup.
    """
    folder, _, name = file.rpartition("/")
    if name in CPUSETS:
        return Former("", is_known=False)
    if name in originals.SPEC_FILES and kubepods.is_a_pods(folder.rpartition("/")[0]):
        return Former(found, is_known=False)
    fresh = "" if name in io_limits.ALL_NAMES else found
    return Former(originals.KERNELS.get(name, fresh), is_known=False)
