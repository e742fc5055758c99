"""`nri-coloc restore`: restore original values and print a line for each; refuse while a daemon runs."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from nri_coloc.cli.exit_codes import DONE, FAILED
from nri_coloc.core.texts import counted, plain
from nri_coloc.errors import SettingsError
from nri_coloc.host import cgroup_layout, state_file
from nri_coloc.host.journal import Journal
from nri_coloc.host.marks import Marks
from nri_coloc.restore import restoration
from nri_coloc.restore.restoration import JOURNAL, Place, RuntimeAt, Undone
from nri_coloc.service.instance_lock import InstanceLock


def is_absent(runtime: RuntimeAt) -> bool:
    """Return whether there is no runtime at the NRI socket, and print a message if there is none."""
    if _may_be_there(runtime.nri_socket):
        return False
    print(
        f"nri-coloc: there is no runtime at {runtime.nri_socket}: only kernel files are restored; "
        "name another socket with --nri-socket or --config",
        file=sys.stderr,
    )
    return True


def _may_be_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return True  # without access the runtime is tried, and its error is printed


def run(state_dir: str, host_root: str, runtime: RuntimeAt | None) -> int:
    """Restore all values, without a runtime only kernel files; return 1 if a value could not be restored."""
    _refuse_unreadable(state_dir)
    lock = InstanceLock(state_dir)
    try:
        if not lock.take():
            raise SettingsError(
                f"a daemon is using {state_dir}; stop it first, because it would write its values again"
            )
        place = _place(state_dir, host_root)
        return _told(restoration.restore(place, runtime), place.journal, with_specs=runtime is not None)
    finally:
        lock.release()


def _place(state_dir: str, host_root: str) -> Place:
    layout = cgroup_layout.detect(host_root)
    journal = Journal(str(Path(state_dir, JOURNAL)), host_root, Marks(layout.mounts))
    journal.load()
    return Place(journal, host_root, layout)


def _refuse_unreadable(state_dir: str) -> None:
    """Raise SettingsError if the state folder is missing or the journal is unreadable: it would count as empty."""
    journal = Path(state_dir, JOURNAL)
    try:
        if journal in Path(state_dir).iterdir():
            state_file.try_to_read(journal)
    except (FileNotFoundError, NotADirectoryError) as error:
        mend = "name the daemon's folder with --state-dir, or create it again if it was deleted"
        raise SettingsError(f"there is no state folder {state_dir}; {mend}") from error
    except OSError as error:
        raise SettingsError(
            f"{error.filename or journal}: cannot be read: {error.strerror}; be the daemon's user (root), and name its "
            "state folder with --state-dir"
        ) from error


def _told(undone: Undone, journal: Journal, *, with_specs: bool) -> int:
    if undone.elsewhere:
        print(f"nri-coloc: {plain(undone.elsewhere)}", file=sys.stderr)
        return FAILED
    files, specs = undone.files, undone.specs
    for file in files.done:
        print(f"restored {plain(file)}")
    for file, now in files.unknown:
        print(f"unknown {plain(file)}: its original value is unknown; its value is now {plain(_shown(now))}")
    for file, now in files.anothers:
        print(
            f"kept {plain(file)}: another writer changed it after nri-coloc; its value is {plain(now.strip())}"
        )
    for words in specs.done:
        print(f"sent to the runtime: {plain(words)}")
    for error in (*files.refused, *specs.refused):
        print(f"nri-coloc: {plain(error)}", file=sys.stderr)
    more = {"kept": len(files.anothers), "unknown": len(files.unknown)}
    rest = "".join(f", {number} {word}" for word, number in more.items() if number)
    print(f"{len(files.done)} restored, {len(files.gone)} gone, {len(files.refused)} refused{rest}")
    if with_specs and not undone.unreachable:
        print(f"specs of containers: {len(specs.done)} restored, {len(specs.refused)} not")
    for words in _remarks(undone, journal):
        print(f"nri-coloc: {plain(words)}", file=sys.stderr)
    is_left = files.refused or files.unknown or specs.refused or undone.unreachable or undone.unwritten
    return FAILED if is_left or undone.lacking else DONE


def _shown(value: str) -> str:
    return value.strip() or "that of its parent"


def _remarks(undone: Undone, journal: Journal) -> Iterator[str]:
    """Yield a sentence for each problem of the state folder and the runtime, with its remedy."""
    if undone.unreachable:
        yield (
            f"the runtime's specs could not be read ({undone.unreachable}): containers keep the values of their specs; "
            "run restore again while the runtime runs (--nri-socket, --cri-socket or --config name its sockets), "
            "or with --files-only if there is no runtime"
        )
    if undone.unwritten:
        yield f"{undone.unwritten}; restored values stay, and running restore again does no harm"
    if journal.complaint:
        yield f"the restore journal {journal.path} {journal.complaint}; {_left_of(journal, undone)}"
    elif undone.lacking:
        yield f"{undone.lacking}; settings of pods that are not listed here end with the pods"
    yield from _elsewhere(journal)
    if journal.dropped:
        values = counted(journal.dropped, "value")
        yield f"the journal had {values} from before the last boot, whose cgroups no longer exist"


def _elsewhere(journal: Journal) -> Iterator[str]:
    """Yield a sentence on values of other daemons with other state folders, and with this one."""
    folders = dict(journal.elsewhere)
    state_dir = os.path.realpath(Path(journal.path).parent)
    number = folders.pop(state_dir, 0)
    if folders:
        known = ", ".join(f"{folder} (values={number})" for folder, number in sorted(folders.items()))
        yield (
            f"values on cgroups belong to daemons with other state folders: {known}; name one of these with --state-dir"
        )
    if number:
        yield (
            f"values on cgroups belong to another daemon with the state folder {state_dir} (values={number}); if "
            f"{journal.path} came from a backup or an image, remove it and run restore again; if a container on this "
            "machine, such as a kind node, has its own folder with this path, run restore there"
        )


def _left_of(journal: Journal, undone: Undone) -> str:
    if not undone.lacking:
        return "the original values were read from the cgroups' marks"
    return f"values that are only in it were not restored; it is kept{journal.kept_as and f' as {journal.kept_as}'}"
