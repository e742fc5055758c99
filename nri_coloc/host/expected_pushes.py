"""The files that a push will change: journalled before it, and expected by the journal until the runtime has answered.

There is one writer at a time: the caller serialises, as for the journal. One push is in flight at a time.
"""

from contextlib import suppress
from typing import Protocol

from nri_coloc.core.knobs import Controller, Knobs
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, write_back
from nri_coloc.host.bandwidth_files import QUOTAS, Bandwidths
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import CPUS, in_spec, spec_files


class Layout(Protocol):
    """The folders of the hierarchies."""

    @property
    def version(self) -> int: ...

    def folder(self, controller: Controller, path: str) -> str | None: ...


class ExpectedPushes:
    """Journals the values that the runtime is about to replace."""

    def __init__(self, layout: Layout, journal: Journal, bandwidths: Bandwidths) -> None:
        self._layout = layout
        self._journal = journal
        self._bandwidths = bandwidths
        self._expected: list[tuple[str, tuple[str, ...]]] = []

    def begin(self, path: str, changes: Knobs) -> None:
        """Journal the files of a container that the runtime will write for these changes."""
        version = self._layout.version
        texts = {value.name: value.texts for value in in_spec(changes, version)}
        names = spec_files(changes, version)
        for name in names if changes.cpus is None else (*names, CPUS):
            with suppress(KernelInterfaceError):
                self._expect(path, name, texts.get(name, ()))

    def _expect(self, path: str, name: str, texts: tuple[str, ...]) -> None:
        folder = self._layout.folder(_controller(name), path)
        file = f"{folder}/{name}"
        shown = None if folder is None else files.value(file)
        if shown is not None:
            self._journal.expect(file, write_back.own(file, shown, self._layout.version), *texts)
            self._expected.append((file, texts))

    def end(self) -> None:
        """Note that the runtime has written these files, or will not write them."""
        for file, texts in self._expected:
            shown = _shown(file)
            self._journal.arrived(file, shown, *texts)
            if file.rpartition("/")[2] in QUOTAS:
                self._bandwidths.pushed(file, shown)
        self._expected.clear()


def _controller(name: str) -> Controller:
    if name == CPUS:
        return "cpuset"
    return "memory" if name.startswith("memory") else "cpu"


def _shown(file: str) -> str | None:
    """Return what a file shows, None if it is gone or cannot be read."""
    try:
        return files.read(file)
    except KernelInterfaceError:
        return None
