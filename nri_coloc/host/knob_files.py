"""Values of kernel files: their texts, the wanted values of a cgroup, and the result of applying them.

The rows of `core.knobs` say which text a value has. The texts of these files are read here and nowhere else, lists of
CPUs in `core.cpuset`. A text that makes no sense is None and no exception: the caller, which knows the file's name,
makes an error of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nri_coloc.core import cpuset, knobs
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import (
    NO_KNOBS,
    NO_LIMIT,
    UNLIMITED_BYTES,
    Capability,
    Carrier,
    Controller,
    KernelFile,
    Knobs,
    KnobValue,
    whole_pages,
)
from nri_coloc.errors import KernelInterfaceError

U64_DIGITS: Final = 20
"""The digits of the largest number that a kernel file shows."""

CPUS: Final = "cpuset.cpus"
"""The file of a cgroup's own CPUs, on both versions."""

MEMS: Final = "cpuset.mems"
"""The file of a cgroup's own memory nodes, on both versions."""

MEMORY_BOUNDS: Final = frozenset(file.name for file in knobs.files("memory_high", "memory_limit"))
"""The files that hold the memory bounds of a reclaim cgroup."""

MEMORY_LIMIT: Final = {file.cgroup: file.name for file in knobs.files("memory_limit")}
"""Files that bound the use, by the version of cgroups."""

MEMORY_USAGE: Final = {1: "memory.usage_in_bytes", 2: "memory.current"}
"""Files of the use, by the version of cgroups."""


@dataclass(frozen=True, slots=True)
class FileValue:
    """One write.

    controller: its hierarchy; on v2 they are one.
    name: the file's name.
    text: the text to write.
    image: the text that another version of the runtime writes for the same order; a file with it is not written. "" for
        none.
    """

    controller: Controller
    name: str
    text: str
    image: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what the file may show once it holds the value."""
        return (self.text, self.image) if self.image else (self.text,)


def beyond_pushes(orders: Knobs, can: Capability) -> tuple[FileValue, ...]:
    """Return the values that a container needs and no push brings.

    The answer to its creation may have carried them, but other settings held at that time, or `restore` has reverted
    them.

    I/O weights are lost under systemd's cgroup driver too, at a daemon-reload: runc makes no property of them
    (libcontainer/cgroups/systemd/v2.go, unifiedResToSystemdProps), and systemd writes its default.
    """
    return _values(orders, can, _BEYOND_PUSHES)


def in_spec(changes: Knobs, cgroup: int) -> tuple[FileValue, ...]:
    """Return the CPU weight and the memory limit that a runtime writes after a change of a container's spec.

    A quota and its period are one file on v2, and the spec may have either already.
    """
    return _values(changes, Capability(cgroup), ("shares", "memory_limit"))


def all_but_cpuset(orders: Knobs, can: Capability) -> tuple[FileValue, ...]:
    """Return every value as files: for a pod's cgroup, and for a container whose creation we did not answer."""
    return _values(orders, can, _INDEPENDENT)


_INDEPENDENT: Final = tuple(knob.field for knob in knobs.TABLE if not knob.ordered)
_BEYOND_PUSHES: Final = ("mems", *knobs.carried(Carrier.UNIFIED))


def _values(orders: Knobs, can: Capability, fields: tuple[str, ...]) -> tuple[FileValue, ...]:
    return tuple(
        FileValue(file.controller, file.name, text, _image(file, text, getattr(orders, field)))
        for field in fields
        for file, text in knobs.written(orders, can, field)
    )


def _image(file: KernelFile, text: str, value: KnobValue) -> str:
    image = file.image(value) if file.image else text
    return "" if image == text else image


def memory_bounds(high: int, limit: int, cgroup: int) -> tuple[FileValue, ...]:
    """Return the memory bounds of a reclaim cgroup as files, bytes: memory.high first; v1 has the limit alone."""
    values = {"memory.high": high} if cgroup == 2 else {}
    values[MEMORY_LIMIT[cgroup]] = limit
    return tuple(FileValue("memory", name, str(whole_pages(amount))) for name, amount in values.items())


def shown(name: str, text: str) -> Knobs:
    """Return the knob of a file's text, for records; none for "no limit" and for files that are not ours.

    If several values of a knob make the same text, this is the least of them.
    """
    if name == "cpuset.mems":
        return Knobs(mems=text or None)
    read = _READERS.get(name)
    words = text.removeprefix("default ").split()
    value = number(words[0]) if words else None
    if read is None or value is None or not 0 <= value < UNLIMITED_BYTES:
        return NO_KNOBS
    field, convert = read
    return Knobs(**{field: convert(value)})  # type: ignore[arg-type]  # only rows of whole numbers are read


def number(text: str) -> int | None:
    """Return the whole number that a text says, None if it says none.

    int() alone would take "1_0" and "+1", and refuses more than 4300 digits with a ValueError.
    """
    text = text.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= U64_DIGITS else None


def as_bytes(text: str) -> int:
    """Return an amount in bytes; "max", and v1's texts for it, a large number or -1, is above any."""
    found = number(text)
    return UNLIMITED_BYTES if found is None or found < 0 else found


def as_quota(text: str) -> int:
    """Return the quota that a file shows, µs; -1 for none."""
    quota = number(text.partition(" ")[0])
    return NO_LIMIT if quota is None or quota < 0 else quota


def numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list such as cgroup.procs; a word that is none is left out."""
    yield from (found for word in text.split() if (found := number(word)) is not None)


def makes_sense(name: str, text: str) -> bool:
    """Return whether a kernel shows such a text in a file of this name, and would take it back.

    An empty text, and any text of a file that is not ours, counts as sensible.
    """
    if name == "cpuset.mems":
        return _is_list(text)
    if not text.strip() or (name not in _READERS and name != "cpu.cfs_period_us"):
        return True
    first, *more = text.partition("\n")[0].removeprefix("default ").split() or [""]
    is_value = number(first) is not None or (first == "max" and name in _BOUNDLESS)
    return is_value and len([*numbers(" ".join(more))]) == len(more) == (1 if name == "cpu.max" else 0)


def _is_list(text: str) -> bool:
    try:
        cpuset.parse(text)
    except ValueError:
        return False
    return True


_BOUNDLESS: Final = frozenset(file.name for file in knobs.files() if file.boundless)
"""Files that say "max"."""

_LISTS: Final = ("cpus", "mems")

_READERS: Final = {
    file.name: (knob.field, file.value)
    for knob in knobs.TABLE
    for file in knob.files
    if knob.carrier is not Carrier.DEVICES and knob.field not in (*_LISTS, "period")  # no quota, no period
}
"""Field and conversion of the number that a file shows."""

WITH_SWAP: Final = {"memory.limit_in_bytes": "memory.memsw.limit_in_bytes", "memory.max": "memory.swap.max"}
"""The file of memory and swap together that a runtime writes before the file of the limit."""


def spec_files(changes: Knobs, cgroup: int) -> tuple[str, ...]:
    """Return the cpu and memory files that a runtime writes when these values of its spec change.

    A limit of memory is also one of memory and swap (nri-protocol §5.2), which must not be below it at any moment.
    """
    fields = [field for field in _IN_SPEC if getattr(changes, field) is not None]
    names = [file.name for field in fields for file in knobs.files(field, cgroup=cgroup)]
    with_swap = [each for name in names for each in (WITH_SWAP.get(name, name), name)]
    return tuple(dict.fromkeys(with_swap))


_IN_SPEC: Final = tuple(field for field in knobs.carried(Carrier.SPEC) if field not in _LISTS)


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


class Correction(NamedTuple):
    """A file that was written: its name, what it showed, what it was given."""

    name: str
    was: str
    now: str


Shown = tuple[tuple[str, str], ...]
"""Files and the texts that they showed."""


class Later(NamedTuple):
    """A write that may take long, and its file; `write` returns the kernel's refusal, None for none."""

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
    partly: the names of the files that cannot have their whole value yet: they keep memory nodes with much memory.
    later: writes that are still to be made, of files among the corrected.
    shown: all files that were read, if each held its value; None if one did not.
    """

    cpus: CPUMask | None = None
    before: CPUMask | None = None
    failures: tuple[KernelInterfaceError, ...] = ()
    corrected: tuple[Correction, ...] = ()
    absent: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()
    later: tuple[Later, ...] = ()
    shown: Shown | None = field(default=None, compare=False)


@dataclass(slots=True)
class Writes:
    """The result of one target's writes so far.

    moves: whether CPUs were written, also if the tasks had them before.
    """

    failures: list[KernelInterfaceError] = field(default_factory=list)
    corrected: list[Correction] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    later: list[Later] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)
    moves: bool = False

    def applied(self, cpus: CPUMask | None = None, before: CPUMask | None = None) -> Applied:
        """Return it as it is in the end."""
        failures, corrected = tuple(self.failures), tuple(self.corrected)
        differed = corrected or failures or self.absent or self.partly or self.later or self.moves
        return Applied(
            cpus=cpus,
            before=before,
            failures=failures,
            corrected=corrected,
            absent=tuple(self.absent),
            partly=tuple(self.partly),
            later=tuple(self.later),
            shown=None if differed else tuple(self.shown),
        )


def holds(current: str, value: FileValue) -> bool:
    """Return whether a file shows a value already, or its image."""
    return same(current, value.text) or is_image(current, value)


def is_image(current: str, value: FileValue) -> bool:
    """Return whether a file shows the text that another version of the runtime writes for a value."""
    return bool(value.image) and same(current, value.image)


def same(current: str, wanted: str) -> bool:
    """Return whether a file shows a value already; weights are shown with and without the word "default"."""
    return (
        current == wanted
        or current.split() == wanted.split()
        or current.split("\n", maxsplit=1)[0].removeprefix("default ") == wanted.removeprefix("default ")
    )
