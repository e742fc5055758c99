"""Values into kernel files: which file of which controller takes a value, and in which form; and back.

The texts of these files are read here and nowhere else, lists of CPUs in `core.cpuset`. A text that makes no sense is
None and no exception: the caller, which knows the file's name, makes an error of it.

The cpuset is not here, nor are quotas and bursts: their files are written in orders that depend on the tree
(`host.cpusets`, `host.bandwidth_files`). Everything else is one independent write. A file that the kernel does not have
is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from nri_coloc.core import cpuset, weights
from nri_coloc.core.knobs import NO_KNOBS, NO_LIMIT, PAGE, Capability, Knobs
from nri_coloc.core.weights import bent_cpu_weight, bfq_weight, blkio_weight, cpu_weight

Controller = Literal["cpu", "cpuset", "memory", "blkio"]

MEMORY_BOUNDS: Final = frozenset({"memory.high", "memory.max", "memory.limit_in_bytes"})
"""The files that hold the memory bounds of a reclaim cgroup."""

MEMORY_LIMIT: Final = {1: "memory.limit_in_bytes", 2: "memory.max"}
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


def beyond_pushes(orders: Knobs, can: Capability) -> tuple[FileValue, ...]:
    """Return the values that a container needs and no push brings.

    The answer to its creation may have carried them, but other settings held at that time, or `restore` has reverted
    them.

    I/O weights are lost under systemd's cgroup driver too, at a daemon-reload: runc makes no property of them
    (libcontainer/cgroups/systemd/v2.go, unifiedResToSystemdProps), and systemd writes its default.
    """
    return (*_mems(orders), *_memory(orders._replace(memory_limit=None), can), *_io(orders, can))


def all_but_cpuset(orders: Knobs, can: Capability) -> tuple[FileValue, ...]:
    """Return every value as files: for a pod's cgroup, and for a container whose creation we did not answer."""
    return (
        *_mems(orders),
        *_cpu(orders, can),
        *_memory(orders, can),
        *_io(orders, can),
    )


def whole_pages(amount: int) -> int:
    """Return an amount of memory as the kernel keeps and shows it, bytes.

    If a file showed less than was written, it would be taken for another writer's value.
    """
    return amount // PAGE * PAGE


def memory_bounds(high: int, limit: int, cgroup: int) -> tuple[FileValue, ...]:
    """Return the memory bounds of a reclaim cgroup as files, bytes: memory.high first; v1 has the limit alone."""
    values = {"memory.high": high} if cgroup == 2 else {}
    values[MEMORY_LIMIT[cgroup]] = limit
    return tuple(FileValue("memory", name, str(whole_pages(amount))) for name, amount in values.items())


def shown(name: str, text: str) -> Knobs:
    """Return the knob of a file's text, for a person to read; none for "no limit" and for files that are not ours.

    If several values of a knob make the same text, the least of them.
    """
    if name == "cpuset.mems":
        return Knobs(mems=text or None)
    read = _READERS.get(name)
    words = text.removeprefix("default ").split()
    value = number(words[0]) if words else None
    return NO_KNOBS if read is None or value is None or not 0 <= value < UNLIMITED else read(value)


def number(text: str) -> int | None:
    """Return the whole number that a text says, None if it says none.

    int() alone would take "1_0" and "+1", and refuses more than 4300 digits with a ValueError.
    """
    text = text.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _U64_DIGITS else None


def numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list such as cgroup.procs; a word that is none is left out."""
    yield from (found for word in text.split() if (found := number(word)) is not None)


def makes_sense(name: str, text: str) -> bool:
    """Whether a kernel shows such a text in a file of this name, and would take it back.

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


_U64_DIGITS: Final = 20

UNLIMITED: Final = 1 << 62
"""v1 shows a missing memory limit as a number just below 2^63."""

_BOUNDLESS: Final = frozenset({"cpu.max", "memory.max", "memory.high", "memory.low", "memory.min"})
"""Files that say "max"."""

_READERS: Final[Mapping[str, Callable[[int], Knobs]]] = {
    "cpu.shares": lambda n: Knobs(shares=n),
    "cpu.weight": lambda n: Knobs(shares=weights.shares_of(n)),
    "cpu.cfs_quota_us": lambda n: Knobs(quota=n),
    "cpu.max": lambda n: Knobs(quota=n),
    "cpu.cfs_burst_us": lambda n: Knobs(burst=n),
    "cpu.max.burst": lambda n: Knobs(burst=n),
    "memory.limit_in_bytes": lambda n: Knobs(memory_limit=n),
    "memory.max": lambda n: Knobs(memory_limit=n),
    "memory.high": lambda n: Knobs(memory_high=n),
    "memory.low": lambda n: Knobs(memory_low=n),
    "memory.min": lambda n: Knobs(memory_min=n),
    "io.weight": lambda n: Knobs(io_weight=n),
    "io.bfq.weight": lambda n: Knobs(io_weight=weights.io_weight(n)),
    "blkio.bfq.weight": lambda n: Knobs(io_weight=weights.io_weight(n)),
    "blkio.weight": lambda n: Knobs(io_weight=weights.io_weight(n)),
}


def spec_files(changes: Knobs, cgroup: int) -> tuple[str, ...]:
    """Return the cpu and memory files that a runtime writes when these values of its spec change.

    A limit of memory is also one of memory and swap (nri-protocol §5.2), which must not be below it at any moment.
    """
    v1 = cgroup == 1
    named = (
        (changes.shares, ("cpu.shares",) if v1 else ("cpu.weight",)),
        (changes.quota, ("cpu.cfs_quota_us",) if v1 else ("cpu.max",)),
        (changes.period, ("cpu.cfs_period_us",) if v1 else ("cpu.max",)),
        (
            changes.memory_limit,
            ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes")
            if v1
            else ("memory.swap.max", "memory.max"),
        ),
    )
    return tuple(dict.fromkeys(name for value, names in named if value is not None for name in names))


def _mems(orders: Knobs) -> Iterator[FileValue]:
    if orders.mems:
        yield FileValue("cpuset", "cpuset.mems", orders.mems)


def _cpu(orders: Knobs, can: Capability) -> Iterator[FileValue]:
    if orders.shares is None:
        return
    if can.cgroup == 1:
        yield FileValue("cpu", "cpu.shares", str(orders.shares))
    else:
        text, image = str(cpu_weight(orders.shares)), str(bent_cpu_weight(orders.shares))
        yield FileValue("cpu", "cpu.weight", text, image if image != text else "")


def _memory(orders: Knobs, can: Capability) -> Iterator[FileValue]:
    limit = MEMORY_LIMIT[can.cgroup]
    values = (
        # its end is the runtime's to write: the limit of memory and swap, set together with it, has to go first
        (limit, None if orders.memory_limit == NO_LIMIT else orders.memory_limit),
        ("memory.high", orders.memory_high),
        ("memory.low", orders.memory_low),
        ("memory.min", orders.memory_min),
    )
    for name, value in values:
        if value is not None and (name == limit or name in can.files):
            yield FileValue("memory", name, str(whole_pages(value)))


def _io(orders: Knobs, can: Capability) -> Iterator[FileValue]:
    weight = orders.io_weight
    if weight is None:
        return
    if can.cgroup == 1:
        values = {"blkio.bfq.weight": str(bfq_weight(weight)), "blkio.weight": str(blkio_weight(weight))}
    else:
        values = {"io.weight": f"default {weight}", "io.bfq.weight": str(bfq_weight(weight))}
    for name, text in values.items():
        if name in can.files:
            yield FileValue("blkio", name, text)
