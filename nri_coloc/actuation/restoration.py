"""`nri-coloc restore`: put back every journalled value that was there before us.

Works on the journal alone, with the daemon stopped, also after a crash in the middle of anything. A file that is
gone needs nothing; one that the kernel refuses is reported and kept in the journal for another try. What the
runtime's own spec of a container says is `daemon.spec_restoration`'s work, which needs the runtime.
"""

import os
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_coloc.actuation import former_values, journal
from nri_coloc.actuation.bandwidths import BURSTS, QUOTAS
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model import kubepods


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it, by file as the host names it. `unwritten`: why the journal could not be written anew, or ""."""

    done: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    refused: tuple[KernelInterfaceError, ...] = ()
    unwritten: str = ""


def restore(
    path: str, host_root: str, version: int, also_kept: Callable[[str], bool] = lambda _file: False
) -> Restored:
    """Write back all originals in an order that the kernel takes; shorten the journal to what is refused.

    `also_kept`: which entries somebody needs yet. What is refused is tried once more at the end: two files that bound
    each other can be in each other's way.
    """
    root = host_root.rstrip("/")
    originals = journal.load(path)
    order = sorted(originals, key=_turn)
    apart = former_values.placed_in(root + file for file in originals)
    refused = _put_all_back(root, {file: originals[file] for file in order}, version, apart)
    if refused:
        refused = _put_all_back(root, {file: originals[file] for file in refused}, version, apart)
    put_back = [file for file in order if file not in refused]
    kept = {file: was for file, was in originals.items() if file in refused or also_kept(file)}
    unwritten = rewrite(path, kept) if put_back else ""
    gone = tuple(file for file in put_back if not os.path.exists(root + file))  # noqa: PTH110 - never raises
    return Restored(tuple(f for f in put_back if f not in gone), gone, tuple(refused.values()), unwritten)


def rewrite(path: str, entries: Mapping[str, str]) -> str:
    """Have the journal hold these entries alone; returns why it cannot be written, "" if it was.

    To put a value back a second time does no harm, and to lose it does: a journal that is too long is well enough.
    """
    try:
        journal.replace(Path(path), entries)
    except OSError as error:
        return f"the journal {path} cannot be written anew: {os.strerror(error.errno or 0)}"
    return ""


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
    former_values.give_back(root + file, was, version, f"{root}/proc", not_following)


def _turn(file: str) -> tuple[int, int]:
    """Bursts first, for they may not be above a quota; quotas, which we only ever raise, from the innermost cgroup;
    then all else from the outermost, so that children find room."""
    name, depth = file.rpartition("/")[2], file.count("/")
    if name in BURSTS:
        return 0, depth
    return (1, -depth) if name in QUOTAS else (2, depth)
