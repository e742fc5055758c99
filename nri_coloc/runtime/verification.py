"""A container's files before and after a push: original values for the journal, then a comparison with the push.

Only values that every runtime writes unchanged are compared: a weight on cgroup v2 is runc's own conversion, and newer
versions convert differently; the actuator writes the cpuset's files. A file that is gone or unreadable is not compared.
"""

from typing import Protocol

from nri_coloc.core.knobs import Controller, Knobs, whole_pages
from nri_coloc.core.state import Assignment
from nri_coloc.core.workload import Phase
from nri_coloc.host.knob_files import number
from nri_coloc.repair import targets


class Files(Protocol):
    """Cgroups' files.

    text: a file's text; None if it is gone or cannot be read.
    remember: keeps the values that changes are about to replace.
    arrived: notes that the runtime has made these changes, or will not make them.
    """

    def text(self, path: str, controller: Controller, name: str) -> str | None: ...

    def remember(self, path: str, changes: Knobs) -> None: ...

    def arrived(self) -> None: ...


class Verification:
    """Compares a container's files with pushes.

    version: of the hierarchy that holds the cpu and memory controllers, 1 or 2.
    """

    def __init__(self, files: Files, version: int) -> None:
        self._files = files
        self._version = version

    def remember(self, assignment: Assignment, changes: Knobs) -> None:
        """Journal the values that a push is about to change.

        A container with a record needs no entry, and a value that is being restored was ours.
        """
        path = targets.container_path(assignment) if assignment.by_file else None
        if path is not None:
            self._files.remember(path, changes.without(assignment.returned))

    def arrived(self) -> None:
        """Note the runtime's answer to the push."""
        self._files.arrived()

    def differing(self, assignment: Assignment, changes: Knobs) -> str:
        """Return the changes that a running container's files do not show, a sentence; "" if they show all."""
        path = targets.container_path(assignment)
        if path is None or assignment.container.phase is not Phase.RUNNING:
            return ""
        found = [
            f"{name} shows {shown}, pushed was {wanted}"
            for controller, name, wanted in self._expected(changes)
            if (text := self._files.text(path, controller, name))
            and not _agrees(controller, shown := text.split()[0], wanted)
        ]
        return "; ".join(found)

    def _expected(self, changes: Knobs) -> list[tuple[Controller, str, int]]:
        v1 = self._version == 1
        files: list[tuple[Controller, str, int | None]] = [
            ("cpu", "cpu.shares", changes.shares if v1 else None),
            ("cpu", "cpu.cfs_quota_us" if v1 else "cpu.max", changes.quota),
            ("memory", "memory.limit_in_bytes" if v1 else "memory.max", changes.memory_limit),
        ]
        return [(controller, name, value) for controller, name, value in files if value is not None]


def _agrees(controller: Controller, shown: str, wanted: int) -> bool:
    found = number(shown)
    if found is None or found < 0:
        return wanted < 0
    return found == (whole_pages(wanted) if controller == "memory" else wanted)
