"""Restore every value that the journal knows.

Works on the journal alone, with the daemon stopped, also after a crash in the middle of anything. A file that is gone
needs nothing. One that the kernel refuses is reported and kept in the journal for another try. Specs in the runtime
are `daemon.spec_restoration`'s work, which needs the runtime.
"""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass

from nri_coloc.core import kubepods
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import write_back
from nri_coloc.host.bandwidth_files import BURSTS, QUOTAS
from nri_coloc.host.journal import Journal


@dataclass(frozen=True, slots=True)
class Restored:
    """The outcome, by files as the host names them.

    unknown: files whose original value is not known, with the value that they have now.
    unwritten: why the journal could not be written again, "" if it was.
    """

    done: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    refused: tuple[KernelInterfaceError, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    unwritten: str = ""

    @property
    def settled(self) -> frozenset[str]:
        """The files of which nothing is left to be done."""
        return frozenset({*self.done, *self.gone, *(file for file, _ in self.unknown)})


def restore(
    journal: Journal, host_root: str, version: int, also_kept: frozenset[str] = frozenset()
) -> Restored:
    """Write back all originals in an order that the kernel takes; shorten the journal to the refused ones.

    also_kept: entries that are needed later.
    A refused value is tried once more at the end: two files that bound each other can be in each other's way.
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
    """Write one original back; `apart`: the folders that have a set of CPUs of their own to be written."""
    folder = (root + file).rpartition("/")[0]
    not_following = apart if kubepods.is_a_pods(folder) else None
    write_back.give_back(root + file, was, version, f"{root}/proc", not_following)


def _turn(file: str) -> tuple[int, int]:
    """Bursts first, for they may not be above a quota; quotas, which we only ever raise, from the innermost cgroup;
    then all else from the outermost, so that children find room."""
    name, depth = file.rpartition("/")[2], file.count("/")
    if name in BURSTS:
        return 0, depth
    return (1, -depth) if name in QUOTAS else (2, depth)
