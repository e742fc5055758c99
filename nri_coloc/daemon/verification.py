"""Whether a push arrived: what the container's files show afterwards, compared with what was pushed; and what they
showed before it, for the journal.

Only what every runtime writes as it stands is compared: a weight on cgroup v2 is runc's own conversion, which newer
versions bend, and the cpuset's files are the actuator's work. What is gone or cannot be read is nothing to compare.
"""

from typing import Protocol

from nri_coloc.daemon import targets
from nri_coloc.knobs.files import Controller, number, whole_pages
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.state import Assignment
from nri_coloc.model.workload import Phase


class Reader(Protocol):
    """A file of a cgroup, None if it is gone or cannot be read."""

    def text(self, path: str, controller: Controller, name: str) -> str | None: ...


class Journalling(Protocol):
    """Keeps what files show that are about to be changed."""

    def remember(self, path: str, changes: Knobs) -> None: ...


class Verification:
    """`version`: of the hierarchy that holds the cpu and memory controllers."""

    def __init__(self, reader: Reader, version: int) -> None:
        self._reader = reader
        self._version = version

    def __call__(self, assignment: Assignment, changes: Knobs) -> str:
        """Return in words what the files of a running container show otherwise; "" if nothing."""
        path = targets.container_path(assignment)
        if path is None or assignment.container.phase is not Phase.RUNNING:
            return ""
        found = [
            f"{name} shows {shown}, pushed was {wanted}"
            for controller, name, wanted in self._expected(changes)
            if (text := self._reader.text(path, controller, name))
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


def remember(writer: Journalling, assignment: Assignment, changes: Knobs) -> None:
    """Journal what a push is about to change; what a record says needs no journal, and what is given back was ours."""
    path = targets.container_path(assignment) if assignment.by_file else None
    if path is not None:
        writer.remember(path, changes.without(assignment.returned))
