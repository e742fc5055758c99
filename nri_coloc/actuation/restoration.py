"""`nri-coloc restore`: put back every journalled value that was there before us.

Works on the journal alone, with the daemon stopped, also after a crash in the middle of anything. A file that is
gone needs nothing; one that the kernel refuses is reported and kept in the journal for another try. What the
runtime's own spec of a container says is `daemon.spec_restoration`'s work, which needs the runtime.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_coloc.actuation import former_values, journal, oom_scores, tasks
from nri_coloc.actuation.bandwidths import BURSTS, QUOTAS
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model import kubepods


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it, by file as the host names it."""

    done: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    refused: tuple[KernelInterfaceError, ...] = ()


def restore(path: str, host_root: str, version: int) -> Restored:
    """Write back all originals in an order that the kernel takes; shorten the journal.

    What is refused is tried once more at the end: two files that bound each other can be in each other's way.
    """
    root = host_root.rstrip("/")
    originals = journal.load(path)
    order = sorted(originals, key=_turn)
    apart = former_values.placed_in(root + file for file in originals)
    refused = _put_all_back(root, {file: originals[file] for file in order}, version, apart)
    if refused:
        refused = _put_all_back(root, {file: originals[file] for file in refused}, version, apart)
    put_back = [file for file in order if file not in refused]
    if put_back:
        journal.replace(Path(path), {file: originals[file] for file in refused})
    gone = tuple(file for file in put_back if not Path(root + file).exists())
    return Restored(tuple(f for f in put_back if f not in gone), gone, tuple(refused.values()))


def keep(path: str, entries: Mapping[str, str]) -> None:
    """Have entries in the journal again, for another try; raises OSError."""
    if entries:
        journal.replace(Path(path), {**journal.load(path), **entries})


def _put_all_back(
    root: str, originals: Mapping[str, str], version: int, apart: Container[str]
) -> dict[str, KernelInterfaceError]:
    refused: dict[str, KernelInterfaceError] = {}
    for file, was in originals.items():
        try:
            _put_back(root, file, was, version, apart)
        except KernelInterfaceError as error:
            refused[file] = error
    return refused


def _put_back(root: str, file: str, was: str, version: int, apart: Container[str]) -> None:
    """Write one original back; the tasks of a cgroup get the scheduler's defaults, its processes their score.

    `apart`: the folders that have a set of CPUs of their own to be written.
    """
    folder, _, name = (root + file).rpartition("/")
    if name == tasks.NAME:
        failure = tasks.reset(folder, version, was)
    elif name in oom_scores.NAMES:
        failure = oom_scores.reset(folder, f"{root}/proc", was)
    else:
        former_values.restore(root + file, was, version, apart if kubepods.is_a_pods(folder) else None)
        return
    if failure is not None:
        raise failure


def _turn(file: str) -> tuple[int, int]:
    """Bursts first, for they may not be above a quota; quotas, which we only ever raise, from the innermost cgroup;
    then all else from the outermost, so that children find room."""
    name, depth = file.rpartition("/")[2], file.count("/")
    if name in BURSTS:
        return 0, depth
    return (1, -depth) if name in QUOTAS else (2, depth)
