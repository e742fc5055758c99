"""Restore journals of tests: read, written by hand, and restored from."""

from collections.abc import Mapping
from pathlib import Path

from nri_coloc.host import cgroup_layout, journal_file, restoration
from nri_coloc.host.journal import Journal
from nri_coloc.host.marks import Marks
from nri_coloc.host.originals import Entry
from nri_coloc.restore.restoration import JOURNAL, Place


def load(path: str | Path) -> dict[str, str]:
    """Return the original values in a journal, by file."""
    return {file: one.original for file, one in journal_file.read(str(path)).entries.items()}


def lines(originals: Mapping[str, str]) -> str:
    """Return a journal without a header, in the form of version 1."""
    return journal_file.text({file: Entry(was) for file, was in originals.items()})


def restored(path: str | Path, host_root: str | Path, version: int) -> restoration.Restored:
    """Restore kernel files by a journal alone."""
    return restoration.restore(Journal(str(path), str(host_root)), str(host_root), version)


def place(state_dir: str | Path, host_root: str | Path) -> Place:
    """Return the node of a state folder, with its journal loaded."""
    layout = cgroup_layout.detect(str(host_root))
    journal = Journal(str(Path(state_dir, JOURNAL)), str(host_root), Marks(layout.mounts))
    journal.load()
    return Place(journal, str(host_root), layout)
