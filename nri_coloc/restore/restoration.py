"""Restore all original values in the one order that works: kernel files by the journal, then the runtime's specs.

Pods' cgroups come first, because on cgroup v1 a container's set must lie within its pod's. The journal keeps the
entries of containers until their specs are restored. Entries of specs that could not be restored stay for another try.
"""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from nri_coloc.core import kubepods
from nri_coloc.core.texts import PlainLog
from nri_coloc.core.workload import KnownKeys
from nri_coloc.errors import ColocError
from nri_coloc.host import restoration as files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.journal import Journal
from nri_coloc.host.originals import CPUSETS, SPEC_FILES, Entry
from nri_coloc.host.restoration import Restored
from nri_coloc.nri import codec
from nri_coloc.restore import spec_restoration
from nri_coloc.restore.spec_restoration import SpecRestoration, SpecsRestored
from nri_coloc.runtime.cri_side import CriSide
from nri_coloc.runtime.listing import PATIENCE_S, Listing, take

JOURNAL: Final = "restore.jsonl"

ENDS_WITHIN_S: Final = 0.5
"""Seconds for which the daemon's end waits for each writing thread, and for the runtime's list."""

SPECS_WITHIN_S: Final = 2.0
"""Seconds for which the daemon's end restores specs, one container after another; `nri-coloc restore` does the rest."""

_ELSEWHERE: Final = (
    "no cgroup of the journal {journal} is below {root}, and no kubelet's cgroup either: nothing was restored, and the "
    "journal is kept; use the daemon's --host-root; if the kubelet and its cgroups are gone from this node for good, "
    "remove the journal"
)


_LACKING: Final = (
    "the restore journal {journal} was lost, and this kernel keeps no original values on cgroups: settings that "
    "nri-coloc made may be in force without being known"
)


@dataclass(frozen=True, slots=True)
class RuntimeAt:
    """The runtime's sockets.

    patience_s: seconds for each answer on the NRI socket.
    """

    nri_socket: str
    cri_socket: str
    plugin_name: str
    patience_s: float = PATIENCE_S


class Thread(Protocol):
    """A thread of the daemon that writes."""

    def ended(self, seconds: float) -> bool: ...


class Place(NamedTuple):
    """The node whose values are restored.

    journal: loaded.
    host_root: root of the host's files.
    layout: hierarchies of its cgroups.
    """

    journal: Journal
    host_root: str
    layout: CgroupLayout


class Undone(NamedTuple):
    """The outcome.

    files, specs: results for kernel files and for the runtime's specs.
    unreachable: why the runtime's specs could not be read, "" if they were.
    elsewhere: why nothing was done, "" if something was.
    unwritten: why the journal could not be shortened, "" if it was.
    lacking: why values of ours may be in force that no journal and no mark holds, "" if there can be none.
    """

    files: Restored
    specs: SpecsRestored
    unreachable: str = ""
    elsewhere: str = ""
    unwritten: str = ""
    lacking: str = ""


def restore(place: Place, runtime: RuntimeAt | None, seconds: float = float("inf"), busy: str = "") -> Undone:
    """Restore everything and return the outcome; without a runtime only files.

    seconds: time after which no further spec is begun.
    busy: why the runtime must not be asked now, or "". The entries of containers are then kept for another try.

    Below a root that cannot be the host's nothing is done. All files would count as gone there, and be forgotten.
    """
    until = time.monotonic() + seconds
    journal, entries = place.journal, place.journal.entries()
    if _is_elsewhere(entries, place):
        words = _ELSEWHERE.format(root=place.host_root, journal=journal.path)
        return Undone(Restored(), SpecsRestored(), elsewhere=words)
    done = Undone(Restored(), SpecsRestored(), lacking=journal.lacking)
    version, root = place.layout.version, place.host_root
    if runtime is None:
        put_back = files.restore(journal, root, version)
        return done._replace(files=put_back, unwritten=put_back.unwritten)
    put_back = files.restore(journal, root, version, frozenset(filter(_is_of_a_container, entries)))
    done = done._replace(files=put_back, unwritten=put_back.unwritten)
    if busy:
        return done._replace(unreachable=busy)
    try:
        # of a pod's metadata a restore reads only whether it claims a record
        listing = Listing(codec.Reader(KnownKeys()))
        listed = take(runtime.nri_socket, runtime.plugin_name, listing, runtime.patience_s)
    except (OSError, ColocError) as error:
        return done._replace(unreachable=f"{runtime.nri_socket}: {error}")
    if journal.may_lack and spec_restoration.carries_records(listed):
        done = done._replace(lacking=done.lacking or _LACKING.format(journal=journal.path))
    of_others = {file for file, _ in put_back.anothers}
    texts = {
        file: one.original
        for file, one in entries.items()
        if (one.is_known or _is_a_set(file)) and file not in of_others
    }
    specs = SpecRestoration(place.layout, root, CriSide(lambda: runtime.cri_socket), texts).run(listed, until)
    kept = (entries.keys() - put_back.settled) | _of(specs.failed, entries)
    return done._replace(specs=specs, unwritten=journal.keep(kept) if entries else "")


def _is_a_set(file: str) -> bool:
    return file.rpartition("/")[2] in CPUSETS


def at_exit(
    place: Place, runtime: RuntimeAt, writers: Iterable[Thread], pusher: Thread, log: PlainLog
) -> tuple[str, ...]:
    """Restore everything at the daemon's end; return sentences on values that were not restored.

    Files are written after every thread stopped writing, and specs as long as there is time. If a push is still in
    flight no spec is restored, because a second call would not help.
    """
    if not all(writer.ended(ENDS_WITHIN_S) for writer in writers):
        log.warning("nothing is restored, because a thread is still writing; run `nri-coloc restore`")
        return ("nothing restored: a thread was still writing",)
    busy = "" if pusher.ended(ENDS_WITHIN_S) else "a push is in flight"
    undone = restore(place, replace(runtime, patience_s=ENDS_WITHIN_S), SPECS_WITHIN_S, busy)
    log.info("restored", files=len(undone.files.done), specs=len(undone.specs.done))
    left = _left(undone)
    for words in left:
        log.warning("not restored; run `nri-coloc restore`", because=words)
    return left


def _left(undone: Undone) -> tuple[str, ...]:
    unknown = (f"{file}: its original value is unknown" for file, _ in undone.files.unknown)
    obstacles = (undone.elsewhere or undone.unreachable, undone.unwritten, undone.lacking)
    return (*map(str, undone.files.refused), *unknown, *undone.specs.refused, *filter(None, obstacles))


def _is_elsewhere(entries: Mapping[str, Entry], place: Place) -> bool:
    root = place.host_root.rstrip("/")
    mounts = {mount.removeprefix(root) for mount in place.layout.mounts}
    return kubepods.is_elsewhere(entries, mounts, lambda path: os.path.exists(root + path))  # noqa: PTH110 - never raises


def _is_of_a_container(file: str) -> bool:
    """Return whether a journalled file belongs to a container and is in its runtime's spec too."""
    folder, _, name = file.rpartition("/")
    return name in SPEC_FILES and kubepods.is_a_pods(folder.rpartition("/")[0])


def _of(paths: frozenset[str], entries: Iterable[str]) -> set[str]:
    """Return the entries of some containers' files, by the containers' cgroups."""
    return {
        file
        for file in entries
        if _is_of_a_container(file) and any(file.rpartition("/")[0].endswith(f"/{path}") for path in paths)
    }
