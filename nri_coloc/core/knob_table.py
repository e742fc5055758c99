"""The table of knobs: for each field of `Knobs` its kernel files and the way in which the runtime gets its value.

`nri.adjustment` and `host` take files, texts and messages from here. The annotation that orders a knob is a row of
`pods.keys`. `host.cpusets` and `host.bandwidth_files` order the writes of rows that are `ordered`; each other write is
independent of the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from nri_coloc.core import weights
from nri_coloc.core.knobs import (
    KERNELS_IO_WEIGHT,
    KERNELS_SHARES,
    NO_KNOBS,
    NO_LIMIT,
    PAGE,
    Capability,
    Knobs,
)

Controller = Literal["cpu", "cpuset", "memory", "blkio"]


class Carrier(StrEnum):
    """How the runtime gets a knob's value."""

    SPEC = "a field of the resources of an adjustment and of an update"
    UNIFIED = "on v2 an entry of `unified`, under the file's name; on v1 a file"
    CREATION = "a field of an adjustment alone"
    FILE = "a file alone"
    DEVICES = "a file alone, one line for each device (`host.io_limits`)"


class KernelFile(NamedTuple):
    """A file of one version of cgroups that holds a knob.

    cgroup: the version, 1 or 2.
    controller: its hierarchy; on v2 they are one.
    text: return the text to write for a value; None to leave the file as it is.
    value: return the knob's value for a number that the file shows.
    fresh: the kernel's text in a new cgroup; "" if it follows the parent or another file.
    boundless: whether it shows "max" for "no limit".
    image: return the text that another version of the runtime writes for the same value.
    """

    cgroup: int
    controller: Controller
    name: str
    text: Callable[[Any], str | None] = str
    value: Callable[[int], int] = int
    fresh: str = ""
    boundless: bool = False
    image: Callable[[Any], str] | None = None


class Knob(NamedTuple):
    """One row.

    field: the field of `Knobs`.
    carrier: how the runtime gets its value.
    files: its files, on both versions of cgroups.
    ordered: whether the order of its writes depends on the tree of cgroups.
    restorable: whether an original value can be restored.
    """

    field: str
    carrier: Carrier
    files: tuple[KernelFile, ...] = ()
    ordered: bool = False
    restorable: bool = True


def whole_pages(amount: int) -> int:
    """Return an amount of memory in bytes as the kernel keeps and shows it.

    If a file showed less than was written, it would be taken for another writer's value.
    """
    return amount // PAGE * PAGE


def _pages(amount: int) -> str:
    return str(whole_pages(amount))


def _limit(amount: int) -> str | None:
    # the runtime removes a limit itself: the limit of memory and swap has to go first
    return None if amount == NO_LIMIT else _pages(amount)


def _cpu_weight(shares: int) -> str:
    return str(weights.cpu_weight(shares))


def _bent_cpu_weight(shares: int) -> str:
    return str(weights.bent_cpu_weight(shares))


def _bfq_weight(weight: int) -> str:
    return str(weights.bfq_weight(weight))


def _blkio_weight(weight: int) -> str:
    return str(weights.blkio_weight(weight))


def _default_weight(weight: int) -> str:
    return f"default {weight}"


def _memory_v2(field: str, name: str, fresh: str) -> Knob:
    return Knob(
        field, Carrier.UNIFIED, (KernelFile(2, "memory", name, text=_pages, fresh=fresh, boundless=True),)
    )


_WEIGHT: Final = str(KERNELS_IO_WEIGHT)
"""cpu.weight, io.weight and bfq's of a new cgroup (Documentation/admin-guide/cgroup-v2, "Weights")."""

TABLE: Final[tuple[Knob, ...]] = (
    Knob(
        "cpus",
        Carrier.SPEC,
        (KernelFile(1, "cpuset", "cpuset.cpus"), KernelFile(2, "cpuset", "cpuset.cpus")),
        ordered=True,
    ),
    Knob(
        "mems",
        Carrier.SPEC,
        (KernelFile(1, "cpuset", "cpuset.mems"), KernelFile(2, "cpuset", "cpuset.mems")),
    ),
    Knob(
        "shares",
        Carrier.SPEC,
        (
            KernelFile(1, "cpu", "cpu.shares", fresh=str(KERNELS_SHARES)),
            KernelFile(
                2,
                "cpu",
                "cpu.weight",
                text=_cpu_weight,
                value=weights.shares_of,
                fresh=_WEIGHT,
                image=_bent_cpu_weight,
            ),
        ),
    ),
    Knob(
        "quota",
        Carrier.SPEC,
        (KernelFile(1, "cpu", "cpu.cfs_quota_us"), KernelFile(2, "cpu", "cpu.max", boundless=True)),
        ordered=True,
    ),
    Knob(
        "period",
        Carrier.SPEC,
        (KernelFile(1, "cpu", "cpu.cfs_period_us"), KernelFile(2, "cpu", "cpu.max", boundless=True)),
        ordered=True,
    ),
    Knob(
        "burst",
        Carrier.FILE,
        (
            KernelFile(1, "cpu", "cpu.cfs_burst_us", fresh="0"),
            KernelFile(2, "cpu", "cpu.max.burst", fresh="0"),
        ),
        ordered=True,
    ),
    Knob(
        "memory_limit",
        Carrier.SPEC,
        (
            KernelFile(1, "memory", "memory.limit_in_bytes", text=_limit, fresh=str(NO_LIMIT)),
            KernelFile(2, "memory", "memory.max", text=_limit, fresh="max", boundless=True),
        ),
    ),
    _memory_v2("memory_high", "memory.high", "max"),
    _memory_v2("memory_low", "memory.low", "0"),
    _memory_v2("memory_min", "memory.min", "0"),
    Knob("oom_score_adj", Carrier.CREATION),
    Knob(
        "io_weight",
        Carrier.UNIFIED,
        (
            KernelFile(
                1, "blkio", "blkio.bfq.weight", text=_bfq_weight, value=weights.io_weight, fresh=_WEIGHT
            ),
            # 500: Documentation/admin-guide/cgroup-v1/blkio-controller
            KernelFile(1, "blkio", "blkio.weight", text=_blkio_weight, value=weights.io_weight, fresh="500"),
            KernelFile(2, "blkio", "io.weight", text=_default_weight, fresh=f"default {_WEIGHT}"),
            KernelFile(2, "blkio", "io.bfq.weight", text=_bfq_weight, value=weights.io_weight, fresh=_WEIGHT),
        ),
    ),
    Knob("blockio_class", Carrier.CREATION, restorable=False),
    Knob("rdt_class", Carrier.CREATION, restorable=False),
    Knob(
        "io_max",
        Carrier.DEVICES,
        (
            KernelFile(1, "blkio", "blkio.throttle.read_bps_device"),
            KernelFile(1, "blkio", "blkio.throttle.write_bps_device"),
            KernelFile(2, "blkio", "io.max"),
        ),
        ordered=True,
    ),
)
"""One row for each field of `Knobs`, in their order."""

ROWS: Final[Mapping[str, Knob]] = MappingProxyType({knob.field: knob for knob in TABLE})
"""The rows by field."""


def files(*fields: str, cgroup: int = 0) -> tuple[KernelFile, ...]:
    """Return the files of some knobs (all without a name), of one version of cgroups or, with 0, of both."""
    rows = [ROWS[field] for field in fields] if fields else TABLE
    every = chain.from_iterable(knob.files for knob in rows)
    return tuple(file for file in every if cgroup in (0, file.cgroup))


def carried(*carriers: Carrier) -> tuple[str, ...]:
    """Return the fields of the knobs with one of these carriers."""
    return tuple(knob.field for knob in TABLE if knob.carrier in carriers)


_WITH_OWN_FILES: Final = tuple(
    (knob.field, frozenset(file.name for file in knob.files))
    for knob in TABLE
    if knob.carrier in (Carrier.UNIFIED, Carrier.FILE)
)


def lacking(wanted: Knobs, can: Capability) -> Knobs:
    """Return the wanted values that this node cannot take; a file only guessed to be missing does not count."""
    found: dict[str, Any] = {}
    for field, names in _WITH_OWN_FILES if can.seen_on_pods else ():
        value = getattr(wanted, field)
        if value is not None and not names & can.files:
            found[field] = value
    if not (wanted.rdt_class is None or can.resctrl):
        found["rdt_class"] = wanted.rdt_class
    return Knobs(**found) if found else NO_KNOBS


def written(orders: Knobs, can: Capability, field: str) -> Iterator[tuple[KernelFile, str]]:
    """Yield each file to write for one knob, with its text. A file that the kernel does not have is left out."""
    knob, value = ROWS[field], getattr(orders, field)
    for file in () if value is None else knob.files:
        if file.cgroup == can.cgroup and (knob.carrier is Carrier.SPEC or file.name in can.files):
            text = file.text(value)
            if text:
                yield file, text
