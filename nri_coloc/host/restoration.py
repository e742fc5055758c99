"""Restore every value that the journal holds.

It needs only the journal, runs with the daemon stopped, and also after a crash at any point. A file that is gone needs
nothing. A file that another writer wrote after us keeps its value. A file that the kernel refuses is reported, and
stays in the journal for another try. So does a CPU set or memory nodes below a refused one, because they got the
refused cgroup's at most. The room `restore` restores specs too, because that needs the runtime.
"""

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from nri_coloc.core import kubepods
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, write_back
from nri_coloc.host.bandwidth_files import BURSTS, QUOTAS
from nri_coloc.host.journal import Journal
from nri_coloc.host.originals import CPUSETS, Entry


@dataclass(frozen=True, slots=True)
class Restored:
    """The outcome, by files as the host names them.

    done: files with their original value again.
    gone: files that no longer exist.
    refused: errors of the kernel. The sets below such a file are in no list.
    unknown: files whose original value is unknown, with the value that they have now.
    anothers: files that another writer wrote after us, with the value that they keep.
    unwritten: why the journal could not be rewritten, "" if it was.
    """

    done: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    refused: tuple[KernelInterfaceError, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    anothers: tuple[tuple[str, str], ...] = ()
    unwritten: str = ""

    @property
    def settled(self) -> frozenset[str]:
        """Files that need nothing more."""
        return frozenset({*self.done, *self.gone, *(file for file, _ in (*self.unknown, *self.anothers))})


def restore(
    journal: Journal, host_root: str, version: int, also_kept: frozenset[str] = frozenset()
) -> Restored:
    """Restore all original values in an order that the kernel takes; keep refused entries in the journal.

    also_kept: entries that are needed later.

    A refused value is retried once at the end: two files that bound each other can be in each other's way.
    """
    root = host_root.rstrip("/")
    entries = journal.entries()
    ordered = sorted(entries, key=_turn)
    putting_back = _PuttingBack(root, entries, version, write_back.placed_in(root + file for file in ordered))
    refused = putting_back.run(ordered)
    if refused:
        refused = putting_back.run(refused)
    gone = tuple(file for file in ordered if file not in refused and not os.path.exists(root + file))  # noqa: PTH110 - never raises
    held = {file for file in ordered if _is_held_by(refused, file)}.difference(gone)
    settled = [file for file in ordered if file not in held]
    kept = [file for file in ordered if file in held or file in also_kept]
    unwritten = journal.keep(kept) if settled else ""
    anothers = putting_back.anothers
    written = [file for file in settled if file not in gone and file not in anothers]
    return Restored(
        done=tuple(file for file in written if entries[file].is_known),
        gone=gone,
        refused=tuple(refused.values()),
        unknown=tuple((file, entries[file].original) for file in written if not entries[file].is_known),
        anothers=tuple((file, anothers[file]) for file in settled if file in anothers and file not in gone),
        unwritten=unwritten,
    )


def _is_held_by(refused: Container[str], file: str) -> bool:
    """Return whether a file was refused, or is a set that a refused one above it bounds."""
    folder, _, name = file.rpartition("/")
    bounds = [f"{above}/{name}" for above in _above(folder)] if name in CPUSETS else []
    return any(each in refused for each in (file, *bounds))


def _above(folder: str) -> Iterator[str]:
    """Yield the folders above a folder, the innermost first."""
    while folder := folder.rpartition("/")[0]:
        yield folder


class _PuttingBack:
    """Writes original values, unless another writer wrote a file after us.

    apart: the folders with CPUs of their own that will be restored themselves.
    anothers: the values of other writers that were found, by file.
    """

    def __init__(self, root: str, entries: Mapping[str, Entry], version: int, apart: Container[str]) -> None:
        self.anothers: dict[str, str] = {}
        self._root = root
        self._entries = entries
        self._version = version
        self._apart = apart

    def run(self, names: Iterable[str]) -> dict[str, KernelInterfaceError]:
        """Restore files in this order; return the refusals by file."""
        refused: dict[str, KernelInterfaceError] = {}
        for file in names:
            try:
                self._put_back(file)
            except KernelInterfaceError as error:
                refused[file] = error
        return refused

    def _put_back(self, file: str) -> None:
        path, entry = self._root + file, self._entries[file]
        shown = files.read(path) if entry.ours else None
        if shown is not None and entry.is_anothers(shown):
            self.anothers[file] = shown
            return
        not_following = self._apart if kubepods.is_a_pods(path.rpartition("/")[0]) else None
        write_back.give_back(path, entry.original, self._version, f"{self._root}/proc", not_following)


def _turn(file: str) -> tuple[int, int]:
    """Return the sort key of a file.

    First bursts, which may not be above a quota. Then quotas, which we only ever raise, from the innermost cgroup. Then
    all other files from the outermost cgroup, so that children find room.
    """
    name, depth = file.rpartition("/")[2], file.count("/")
    if name in BURSTS:
        return 0, depth
    return (1, -depth) if name in QUOTAS else (2, depth)
