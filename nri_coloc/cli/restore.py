"""`nri-coloc restore`: what it did, in lines; refuses while a daemon holds the state folder."""

import sys
from pathlib import Path

from nri_coloc.cli.asking import plain
from nri_coloc.cli.exit_codes import DONE, FAILED
from nri_coloc.daemon import restoration
from nri_coloc.daemon.instance_lock import InstanceLock
from nri_coloc.daemon.restoration import JOURNAL, RuntimeAt, Undone
from nri_coloc.errors import SettingsError


def is_absent(runtime: RuntimeAt) -> bool:
    """Whether nothing is at the usual place of a runtime that nobody named; says so."""
    if _may_be_there(runtime.nri_socket):
        return False
    print(
        f"nri-coloc: there is no runtime at {runtime.nri_socket}: kernel files alone are put back; "
        "--nri-socket or --config names another",
        file=sys.stderr,
    )
    return True


def _may_be_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return True  # where we may not look is asked, and its refusal told


def run(state_dir: str, host_root: str, runtime: RuntimeAt | None) -> int:
    """Restore everything, without a runtime the kernel's files alone; 1 if anything was left."""
    _refuse_unreadable(state_dir)
    lock = InstanceLock(state_dir, may_be_read_only=True)
    try:
        if not lock.take():
            raise SettingsError(
                f"a daemon is using {state_dir}; stop it first, or it would undo the restoration"
            )
        return _told(restoration.restore(state_dir, host_root, runtime), with_specs=runtime is not None)
    finally:
        lock.release()


def _refuse_unreadable(state_dir: str) -> None:
    """Raise SettingsError where there is no state folder, or a journal that is not for us: it would pass for none."""
    journal = Path(state_dir, JOURNAL)
    try:
        if journal in Path(state_dir).iterdir():
            journal.open("rb").close()
    except (FileNotFoundError, NotADirectoryError) as error:
        what = f"there is no state folder {state_dir}; name the daemon's with --state-dir"
        raise SettingsError(what) from error
    except OSError as error:
        raise SettingsError(
            f"{error.filename}: cannot be read: {error.strerror}; be the daemon's user (root), and name its state "
            "folder with --state-dir"
        ) from error


def _told(undone: Undone, *, with_specs: bool) -> int:
    if undone.elsewhere:
        print(f"nri-coloc: {undone.elsewhere}", file=sys.stderr)
        return FAILED
    files, specs = undone.files, undone.specs
    for file in files.done:
        print(f"restored {plain(file)}")
    for words in specs.done:
        print(f"told the runtime of {words}")
    for error in (*files.refused, *specs.refused):
        print(f"nri-coloc: {plain(error)}", file=sys.stderr)
    print(f"{len(files.done)} restored, {len(files.gone)} gone, {len(files.refused)} refused")
    if undone.unreachable:
        print(
            f"nri-coloc: the runtime's specs could not be looked at ({undone.unreachable}): containers keep what "
            "theirs say; run restore again beside the runtime (--nri-socket, --cri-socket or --config name another "
            "than the usual one), or with --files-only where there is none",
            file=sys.stderr,
        )
    elif with_specs:
        print(f"specs of containers: {len(specs.done)} restored, {len(specs.refused)} not")
    if undone.unwritten:
        print(
            f"nri-coloc: {undone.unwritten}; what was put back stays so, and to run restore again does no harm",
            file=sys.stderr,
        )
    is_left = files.refused or specs.refused or undone.unreachable or undone.unwritten
    return FAILED if is_left else DONE
