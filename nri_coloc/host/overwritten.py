"""Values that other writers wrote over ours, and which value `restore` writes then.

If another writer resets a file, the original value stays the value to restore. A resize of a pod is different: the
kubelet writes the pod's cgroup, before it calls the runtime for the containers if it grows and after that if it shrinks
(pkg/kubelet/kuberuntime, doPodResizeAction). So a foreign value within `LASTS_S` of the runtime's message, before or
after, is the kubelet's new value, and the original from then on.
"""

from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core.knobs import Controller
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import makes_sense

LASTS_S: Final = 100.0
"""The longest pause between two looks at a file: a memory bound is looked at with each picture of the node, every half
minute at the least, and not for a minute after a refusal. The kubelet's own steps are runs of runc, seconds at most."""


KUBELETS: Final = frozenset({"cpu.shares", "cpu.weight", "memory.limit_in_bytes", "memory.max"})
"""Files of a pod's cgroup that it writes at a resize. Quotas too, which `bandwidths` handles."""

CONTROLLERS: Final[tuple[Controller, ...]] = ("cpu", "memory")
"""Whose files these are."""

MOST: Final = 1024
"""Resizes kept at a time, in both hierarchies of cgroup v1: of all pods of a large node. The end of a pod is not
reported."""


class _Found(NamedTuple):
    text: str
    at: float


class Overwritten:
    """One writer at a time: the caller serialises, as for the journal. Times are of any one clock, seconds."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ours: dict[str, str] = {}
        self._theirs: dict[str, _Found] = {}
        self._resized: dict[str, float] = {}

    def wrote(self, file: str, text: str) -> None:
        """Know what a file holds by our hand."""
        self._ours[file] = text

    def ours(self, file: str) -> str | None:
        """Return our last value of a file; None if this process did not write it."""
        return self._ours.get(file)

    def found(self, file: str, shown: str, now: float) -> None:
        """Look whose value a file shows; to be called before it is written again."""
        folder, _, name = file.rpartition("/")
        if name not in KUBELETS or self._ours.get(file, shown) == shown:
            return
        if self._journal.original(file) in (None, shown):
            return
        if now - self._resized.get(folder, -inf) < LASTS_S:
            self._adopt(file, shown)
        else:
            self._theirs[file] = _Found(shown, now)

    def resized(self, folder: str, now: float) -> None:
        """Know that the kubelet is resizing the pod of a cgroup: its values were found shortly before, or will be."""
        self._resized.pop(folder, None)
        self._resized[folder] = now
        if len(self._resized) > MOST:
            del self._resized[next(iter(self._resized))]
        for file in self._journal.below(folder):
            found = self._theirs.get(file)
            if found is not None and now - found.at < LASTS_S:
                self._adopt(file, found.text)

    def look(self, file: str, now: float) -> None:
        """Read a file that the kubelet writes too, and look whose value it shows; raises KernelInterfaceError."""
        name = file.rpartition("/")[2]
        shown = files.read(file) if name in KUBELETS else None
        if shown is not None and makes_sense(name, shown):
            self.found(file, shown, now)

    def look_again(self, now: float) -> None:
        """Look once more at all pods that are being resized: it is the last look before their files are restored."""
        for folder in [folder for folder, at in self._resized.items() if now - at < LASTS_S]:
            for file in self._journal.below(folder):
                with suppress(KernelInterfaceError):  # the caller that restores it records it
                    self.look(file, now)

    def tidy(self, now: float) -> None:
        """Forget files that the journal has forgotten, and resizes that are over."""
        self._ours = {k: text for k, text in self._ours.items() if self._journal.original(k) is not None}
        self._theirs = {k: found for k, found in self._theirs.items() if now - found.at < LASTS_S}
        self._resized = {k: at for k, at in self._resized.items() if now - at < LASTS_S}

    def _adopt(self, file: str, shown: str) -> None:
        self._theirs.pop(file, None)
        self._journal.renew(file, shown)
