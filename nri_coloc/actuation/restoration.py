"""`nri-coloc restore`: put back every journalled value that was there before us.

Works on the journal alone, with the daemon stopped, also after a crash in the middle of anything. A file that is
gone needs nothing; one that the kernel refuses is reported and kept in the journal for another try.
"""

from dataclasses import dataclass
from pathlib import Path

from nri_coloc.actuation import cgroups, journal, tasks
from nri_coloc.actuation.bandwidths import BURSTS, QUOTAS
from nri_coloc.errors import KernelInterfaceError


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it, by file as the host names it."""

    done: tuple[str, ...]
    gone: tuple[str, ...]
    refused: tuple[KernelInterfaceError, ...]


def restore(path: str, host_root: str, version: int) -> Restored:
    """Write back all originals in an order that the kernel takes; shorten the journal."""
    root = host_root.rstrip("/")
    done: list[str] = []
    gone: list[str] = []
    refused: list[KernelInterfaceError] = []
    left: dict[str, str] = {}
    for file, was in sorted(journal.load(path).items(), key=lambda entry: _turn(entry[0])):
        try:
            found = _put_back(root + file, was, version)
            (done if found else gone).append(file)
        except KernelInterfaceError as error:
            refused.append(error)
            left[file] = was
    if done or gone:
        journal.replace(Path(path), left)
    return Restored(tuple(done), tuple(gone), tuple(refused))


def _put_back(file: str, was: str, version: int) -> bool:
    """Write one original back; the tasks of a cgroup get the scheduler's defaults. False if it is gone."""
    if file.rpartition("/")[2] != tasks.NAME:
        return cgroups.restore(file, was, version)
    failure = tasks.reset(file.rpartition("/")[0], version, was)
    if failure is not None:
        raise failure
    return Path(file).exists()


def _turn(file: str) -> tuple[int, int]:
    """Bursts first, for they may not be above a quota; quotas, which we only ever raise, from the innermost cgroup;
    then all else from the outermost, so that children find room."""
    name, depth = file.rpartition("/")[2], file.count("/")
    if name in BURSTS:
        return 0, depth
    return (1, -depth) if name in QUOTAS else (2, depth)
