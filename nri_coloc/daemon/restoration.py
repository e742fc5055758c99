"""All that `restore` puts back, in the one order that works: kernel files by the journal, then the runtime's specs.

Pods' cgroups come first because on cgroup v1 a container's set must lie within its pod's. The journal keeps the
entries of containers until their specs were told, and of those whose specs could not be told, for another try: it is
only ever shortened, for a full disk takes nothing that is longer.
"""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.actuation import journal
from nri_coloc.actuation import restoration as files
from nri_coloc.actuation.restoration import Restored
from nri_coloc.daemon import census
from nri_coloc.daemon.cri_side import CriSide
from nri_coloc.daemon.listing import Listing
from nri_coloc.daemon.spec_restoration import SpecRestoration, SpecsRestored
from nri_coloc.errors import ColocError
from nri_coloc.knobs.originals import SPEC_FILES
from nri_coloc.model import kubepods
from nri_coloc.model.metadata import KnownKeys
from nri_coloc.nri import codec
from nri_coloc.sampling import cgroup_layout
from nri_coloc.sampling.cgroup_layout import CgroupLayout

JOURNAL: Final = "restore.jsonl"
"""In the state folder."""

ENDS_WITHIN_S: Final = 0.5
"""How long the daemon's end waits for each thread that writes, and for the runtime's list."""

SPECS_WITHIN_S: Final = 2.0
"""How long it tells the runtime former values, one container after another; `nri-coloc restore` tells the rest."""

_ELSEWHERE: Final = (
    "nothing that the journal {journal} names is below {root}, not even what pods' ends leave there: nothing was put "
    "back and nothing forgotten; --host-root names the root that the daemon was given; if the kubelet and its cgroups "
    "are gone from this node for good, remove the journal"
)


@dataclass(frozen=True, slots=True)
class RuntimeAt:
    """Where the runtime is asked and told; `patience_s` for each answer of the first."""

    nri_socket: str
    cri_socket: str
    plugin_name: str
    patience_s: float = census.PATIENCE_S


class Log(Protocol):
    """Structured, for the operator."""

    def info(self, event: str, **fields: Any) -> Any: ...

    def warning(self, event: str, **fields: Any) -> Any: ...


class Thread(Protocol):
    """One of the daemon's that writes."""

    def ended(self, seconds: float) -> bool: ...


class Undone(NamedTuple):
    """What came of it. `unreachable`: why the runtime's specs could not be looked at, "" if they were.

    `elsewhere`: why nothing at all was done, "" if something was; `unwritten`: why the journal is too long, or "".
    """

    files: Restored
    specs: SpecsRestored
    unreachable: str = ""
    elsewhere: str = ""
    unwritten: str = ""


def restore(
    state_dir: str, host_root: str, runtime: RuntimeAt | None, seconds: float = float("inf"), busy: str = ""
) -> Undone:
    """Put everything back; without a runtime files alone. No further spec is begun after so many seconds.

    `busy`: why the runtime is there and may not be asked now, or "". Containers are kept for another try then.
    Below a root where nothing of it can be, nothing is done: all would be taken for gone, and be forgotten.
    """
    until = time.monotonic() + seconds
    layout = cgroup_layout.detect(host_root)
    path = str(Path(state_dir) / JOURNAL)
    entries = journal.load(path)
    if _is_elsewhere(entries, layout, host_root):
        return Undone(Restored(), SpecsRestored(), elsewhere=_ELSEWHERE.format(root=host_root, journal=path))
    if runtime is None:
        put_back = files.restore(path, host_root, layout.version)
        return Undone(put_back, SpecsRestored(), unwritten=put_back.unwritten)
    put_back = files.restore(path, host_root, layout.version, _is_of_a_container)
    if busy:
        return Undone(put_back, SpecsRestored(), busy, unwritten=put_back.unwritten)
    try:
        # of a pod's metadata a restore reads nothing but whether it claims a record
        listing = Listing(codec.Reader(KnownKeys()))
        listed = census.take(runtime.nri_socket, runtime.plugin_name, listing, runtime.patience_s)
    except (OSError, ColocError) as error:
        unreachable = f"{runtime.nri_socket}: {error}"
        return Undone(put_back, SpecsRestored(), unreachable, unwritten=put_back.unwritten)
    cri = CriSide(runtime.cri_socket)
    specs = SpecRestoration(layout, host_root, cri, entries).run(listed, until)
    refused = {file: entries[file] for file in entries.keys() - {*put_back.done, *put_back.gone}}
    kept = refused | _of(specs.failed, entries)
    return Undone(put_back, specs, unwritten=files.rewrite(path, kept) if entries else "")


def at_exit(
    place: tuple[str, str], runtime: RuntimeAt, writers: Iterable[Thread], pusher: Thread, log: Log
) -> None:
    """Put everything back at the daemon's end: all files, once nobody writes any more, and specs while there is time.

    `place`: state folder and host root. A push that is still in flight keeps the specs: a second call is no remedy.
    """
    if not all(writer.ended(ENDS_WITHIN_S) for writer in writers):
        log.warning("nothing is put back, for something is still being written; try `nri-coloc restore`")
        return
    busy = "" if pusher.ended(ENDS_WITHIN_S) else "a push is in flight"
    undone = restore(*place, replace(runtime, patience_s=ENDS_WITHIN_S), SPECS_WITHIN_S, busy)
    log.info("put back", files=len(undone.files.done), specs=len(undone.specs.done))
    why = undone.elsewhere or undone.unreachable
    for words in (
        *map(str, undone.files.refused),
        *undone.specs.refused,
        *filter(None, [why, undone.unwritten]),
    ):
        log.warning("not put back; try `nri-coloc restore`", because=words)


def _is_elsewhere(entries: Mapping[str, str], layout: CgroupLayout, host_root: str) -> bool:
    root = host_root.rstrip("/")
    folders = {layout.folder(controller, "") for controller in cgroup_layout.CONTROLLERS}
    mounts = {folder.removeprefix(root) for folder in folders if folder is not None}
    return kubepods.is_elsewhere(entries, mounts, lambda path: os.path.exists(root + path))  # noqa: PTH110 - never raises


def _is_of_a_container(file: str) -> bool:
    """Whether a journalled file is one of a container's that its runtime's spec speaks of too."""
    folder, _, name = file.rpartition("/")
    return name in SPEC_FILES and kubepods.is_a_pods(folder.rpartition("/")[0])


def _of(paths: frozenset[str], entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of some containers' files, by the containers' cgroups."""
    return {
        file: was
        for file, was in entries.items()
        if _is_of_a_container(file) and any(file.rpartition("/")[0].endswith(f"/{path}") for path in paths)
    }
