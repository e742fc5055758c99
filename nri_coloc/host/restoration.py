"""Restore every value that the journal holds.

It needs only the journal, runs with the daemon stopped, and also after a crash at any point. A file that is gone needs
nothing. A file that the kernel refuses is reported, and stays in the journal for another try. The room `restore`
restores specs too, because that needs the runtime.
"""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass

from nri_coloc.core import kubepods
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, resizes, write_back
from nri_coloc.host.bandwidth_files import BURSTS, QUOTAS
from nri_coloc.host.journal import Journal


@dataclass(frozen=True, slots=True)
class Restored:
    """The outcome, by files as the host names them.

    done: files with their original value again.
    gone: files that no longer exist.
    refused: errors of the kernel.
    unknown: files whose original value is unknown, with the value that they have now.
    unwritten: why the journal could not be rewritten, "" if it was.
    """

    done: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    refused: tuple[KernelInterfaceError, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    unwritten: str = ""

    @property
    def settled(self) -> frozenset[str]:
        """Files that need nothing more."""
        return frozenset({*self.done, *self.gone, *(file for file, _ in self.unknown)})


def restore(
    journal: Journal, host_root: str, version: int, also_kept: frozenset[str] = frozenset()
) -> Restored:
    """Restore all original values in an order that the kernel takes; keep refused entries in the journal.

    also_kept: entries that are needed later.

    A refused value is retried once at the end: two files that bound each other can be in each other's way.
    """
    root = host_root.rstrip("/")
    entries = journal.entries()
    originals = {file: entries[file].text for file in sorted(entries, key=_turn)}
    apart = write_back.placed_in(root + file for file in originals)
    refused = _put_all_back(root, originals, version, apart)
    if refused:
        refused = _put_all_back(root, {file: originals[file] for file in refused}, version, apart)
    put_back = [file for file in originals if file not in refused]
    kept = [file for file in originals if file in refused or file in also_kept]
    unwritten = journal.keep(kept) if put_back else ""
    gone = tuple(file for file in put_back if not os.path.exists(root + file))  # noqa: PTH110 - never raises
    there = [file for file in put_back if file not in gone]
    return Restored(
        done=tuple(file for file in there if entries[file].is_known),
        gone=gone,
        refused=tuple(refused.values()),
        unknown=tuple((file, originals[file]) for file in there if not entries[file].is_known),
        unwritten=unwritten,
    )


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
    """Write one original value back, unless the file holds a newer value of the kubelet's already.

    apart: the folders with CPUs of their own that will be restored themselves.
    """
    folder, shown = (root + file).rpartition("/")[0], files.read(root + file)
    if shown is not None and resizes.is_kubelets(file, shown, was):
        return
    not_following = apart if kubepods.is_a_pods(folder) else None
    write_back.give_back(root + file, was, version, f"{root}/proc", not_following)


def _turn(file: str) -> tuple[int, int]:
    """Return the sort key of a file.

    First bursts, which may not be above a quota. Then quotas, which we only ever raise, from the innermost cgroup. Then
    all other files from the outermost cgroup, so that children find room.
    """
    name, depth = file.rpartition("/")[2], file.count("/")
    if name in BURSTS:
        return 0, depth
    return (1, -depth) if name in QUOTAS else (2, depth)
