"""The wanted values of a cgroup, the result of applying them, and the writes that are left for later."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.files import Correction
from nri_coloc.host.knob_files import FileValue


@dataclass(frozen=True, slots=True)
class Target:
    """A cgroup by its path below the hierarchy's root.

    cpus: 0 leaves the cpuset alone.
    inherited: all directly below has the same CPUs.
    beyond: CPUs that on cgroup v1 the cgroup itself has too, as far as its parent has them, and nothing below it.
    """

    path: str
    cpus: CPUMask = 0
    values: tuple[FileValue, ...] = ()
    journalled: bool = False
    inherited: bool = False
    beyond: CPUMask = 0


class Later(NamedTuple):
    """A write that may take long, and the file that it is of; it returns what the kernel refuses."""

    file: str
    write: Callable[[], KernelInterfaceError | None]

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.file.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of applying a target.

    cpus: the CPUs read back, None if the cgroup or its cpuset is missing.
    before: the CPUs before the write.
    corrected: every other file that was written.
    absent: the names of the files that are missing.
    later: writes that are still to be made, of files among the corrected.
    """

    cpus: CPUMask | None = None
    before: CPUMask | None = None
    failures: tuple[KernelInterfaceError, ...] = ()
    corrected: tuple[Correction, ...] = ()
    absent: tuple[str, ...] = ()
    later: tuple[Later, ...] = ()


@dataclass(slots=True)
class Writes:
    """The result of one target's writes so far."""

    failures: list[KernelInterfaceError] = field(default_factory=list)
    corrected: list[Correction] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    later: list[Later] = field(default_factory=list)

    def applied(self, cpus: CPUMask | None = None, before: CPUMask | None = None) -> Applied:
        """Return it as it is in the end."""
        failures, corrected = tuple(self.failures), tuple(self.corrected)
        return Applied(
            cpus=cpus,
            before=before,
            failures=failures,
            corrected=corrected,
            absent=tuple(self.absent),
            later=tuple(self.later),
        )


def holds(current: str, value: FileValue) -> bool:
    """Whether a file shows a value already, or its image."""
    return same(current, value.text) or is_image(current, value)


def is_image(current: str, value: FileValue) -> bool:
    """Whether a file shows the text that another version of the runtime writes for a value."""
    return bool(value.image) and same(current, value.image)


def same(current: str, wanted: str) -> bool:
    """Whether a file shows a value already; weights are shown with and without the word "default"."""
    return (
        current == wanted
        or current.split() == wanted.split()
        or current.split("\n", maxsplit=1)[0].removeprefix("default ") == wanted.removeprefix("default ")
    )
