"""The table of knobs: each value that the daemon sets, its kernel files, and the way in which the runtime gets it.

`Knobs` is a record of wishes or of facts: `None` means "not ours" or "unknown", never "zero". `TABLE` has a row for
each of its fields. `Capability` says which values this kernel and this runtime can take; a probe fills it at the start.
The functions between convert a weight or a number of shares to the number that a kernel file wants, and back.

`nri.codec` and `host` take files, texts and messages from here. The annotation that orders a knob is a row of
`pods.keys`. `host.cpusets` and `host.bandwidth_files` order the writes of rows that are `ordered`; each other write is
independent of the rest.

`Knobs` is a named tuple and no dataclass: several are made and compared in every hook, a tuple five times faster.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from math import ceil, log2
from mmap import PAGESIZE
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_args

KnobValue = int | str

MIN_SHARES: Final = 2
"""The kubelet's shares for "no CPU request", and the kernel's least weight (pkg/kubelet/cm/helpers_linux.go,
MinShares; kernel/sched/sched.h, MIN_SHARES)."""

PAGE: Final = PAGESIZE
"""The page of this machine in bytes: 4096 or, on some of arm64 and ppc64le, 65536. Kernels keep memory limits in whole
pages, rounded down (Documentation/admin-guide/cgroup-v2, "Memory")."""

LEAST_MEMORY: Final = 4 << 20
"""Bytes: the least memory with which a container starts. With less, runc fails at every start: the kernel refuses the
limit (EBUSY) or kills the init process. Measured with busybox's `true` in steps of 256 KiB on kernel 6.18 and cgroup
v1 (benchmarks/least_memory.py): 2.5 MiB with runc 1.1.5, 3.25 MiB with runc 1.3.2; rounded up to a whole MiB."""

KERNELS_IO_WEIGHT: Final = 100
"""The weight of a new cgroup (CGROUP_WEIGHT_DFL)."""

NO_LIMIT: Final = -1
"""The value of a quota or a memory limit that means "none" (OCI runtime specification, config-linux.md)."""

UNLIMITED_BYTES: Final = 1 << 62
"""Bytes: a limit of this or more is none. cgroup v1 shows "no limit" as LONG_MAX rounded down to a page, whose size
differs between machines; no machine has half of this."""

KERNELS_SHARES: Final = 1024
"""The shares of a new cgroup on v1 (kernel/sched/core.c, ROOT_TASK_GROUP_LOAD)."""

KERNELS_PERIOD: Final = 100_000
"""The CFS period of a new cgroup in µs (kernel/sched/fair.c, default_cfs_period)."""

MAX_SHARES: Final = 262_144
"""The largest value that kubelet and kernel use, 256 CPUs' worth: a greater request reads the same."""


class Knobs(NamedTuple):
    """The value of each knob, None if it is not set.

    shares: as cgroup v1 counts them, 1024 = one CPU.
    quota, period, burst: µs.
    memory_limit, memory_high, memory_low, memory_min: bytes.
    cpus, mems: cpulists.
    io_weight: 1–10000; 100 is the kernel's default.
    io_max: bytes a second that a throttled pod may read, and as many that it may write, by device: "8:0=1048576"; "max"
        for no limit.
    """

    cpus: str | None = None
    mems: str | None = None
    shares: int | None = None
    quota: int | None = None
    period: int | None = None
    burst: int | None = None
    memory_limit: int | None = None
    memory_high: int | None = None
    memory_low: int | None = None
    memory_min: int | None = None
    oom_score_adj: int | None = None
    io_weight: int | None = None
    blockio_class: str | None = None
    rdt_class: str | None = None
    io_max: str | None = None

    def named(self) -> dict[str, KnobValue]:
        """Return the set knobs by their audit names, in a fixed order."""
        return {name: value for name, value in zip(NAMES, self, strict=True) if value is not None}

    def differing(self, other: "Knobs") -> "Knobs":
        """Return the set knobs whose value differs from the other's."""
        if NO_KNOBS in (self, other):
            return self
        return Knobs._make([None if a == b else a for a, b in zip(self, other, strict=True)])

    def where_set(self, other: "Knobs") -> "Knobs":
        """Return the knobs that are set in the other too."""
        if NO_KNOBS in (self, other):
            return NO_KNOBS
        return Knobs._make([None if b is None else a for a, b in zip(self, other, strict=True)])

    def without(self, other: "Knobs") -> "Knobs":
        """Return the knobs that are not set in the other."""
        if NO_KNOBS in (self, other):
            return self
        return Knobs._make([a if b is None else None for a, b in zip(self, other, strict=True)])

    def overlaid(self, other: "Knobs") -> "Knobs":
        """Return this record with the other's set knobs on top."""
        if NO_KNOBS in (self, other):
            return self if other == NO_KNOBS else other
        return Knobs._make([a if b is None else b for a, b in zip(self, other, strict=True)])


def _audit_name(attribute: str) -> str:
    for prefix in ("memory_", "io_"):
        if attribute.startswith(prefix):
            return attribute.replace("_", ".", 1)
    return attribute


def burst_of(quota: int | None, percent: int | None) -> int | None:
    """Return a percentage (0–100) of a quota as CFS burst in µs; None without a quota or a percentage.

    Never above the quota, which the kernel refuses (kernel/sched/core.c, tg_set_cfs_bandwidth: EINVAL). Koordinator's
    default of ten times the quota needs a patched kernel.
    """
    if quota is None or quota <= 0 or percent is None:
        return None
    return quota * min(max(percent, 0), 100) // 100


ATTRIBUTES: Final = Knobs._fields
AUDIT_NAMES: Final = tuple((name, _audit_name(name)) for name in ATTRIBUTES)
"""(attribute, name in the audit) of every knob: `memory_limit` is called `memory.limit`, and so on."""

NAMES: Final = tuple(name for _, name in AUDIT_NAMES)

NO_KNOBS: Final = Knobs()


@dataclass(frozen=True, slots=True)
class Original:
    """The original values of a container.

    ours: the knobs that we set, by attribute.
    values: their values before our first write, None if there was none.
    """

    ours: frozenset[str]
    values: Knobs = NO_KNOBS

    def completed(self, later: "Original") -> "Original":
        """Return this with the later knobs added; a knob that was ours already keeps its first original value."""
        both = zip(ATTRIBUTES, self.values, later.values, strict=True)
        values = [first if name in self.ours else second for name, first, second in both]
        return Original(self.ours | later.ours, Knobs._make(values))


@dataclass(frozen=True, slots=True)
class Capability:
    """The values that this kernel and this runtime take.

    cgroup: 1 or 2.
    files: control files that a pod's cgroup has here. A file that is not listed is not written.
    seen_below: the cgroups of all pods below which `files` was read, "" for a pod outside these. If there is none,
        `files` was guessed from another cgroup.
    oom_at_create: whether the runtime applies an adjustment's oom_score_adj (NRI ≥ 0.7).
    oom_least: the lowest oom_score_adj that the runtime may set. With a lower one runc cannot create the container.
    resctrl: whether it is mounted.
    """

    cgroup: int = 1
    files: frozenset[str] = frozenset()
    oom_at_create: bool = True
    oom_least: int = 0
    resctrl: bool = False
    seen_below: frozenset[str] = frozenset()

    def unified(self, name: str) -> bool:
        """Whether `unified` may carry a value: on v2 only (v1 fails the creation), and only for a file that exists."""
        return self.cgroup == 2 and name in self.files

    def oom_by_answer(self, wanted: int | None, former: int | None) -> bool:
        """Return whether the answer to a creation may carry an oom_score_adj; otherwise it is written at the start."""
        if wanted is None or not self.oom_at_create:
            return False
        return wanted >= min(self.oom_least, former or 0)


NOTHING_KNOWN: Final = Capability()


MIN_WEIGHT: Final = 1
MAX_IO_WEIGHT: Final = 10_000
MAX_CPU_WEIGHT: Final = 10_000
BLKIO_WEIGHTS: Final = (10, 1000)
"""The range of v1's blkio.weight (Documentation/admin-guide/cgroup-v1/blkio-controller)."""


def bfq_weight(io_weight: int) -> int:
    """Map 1–10000 to bfq's 1–1000: up to 100 unchanged, above it compressed and rounded down."""
    if io_weight <= 100:
        return io_weight
    return 100 + (io_weight - 100) * 900 // 9900


def blkio_weight(io_weight: int) -> int:
    """Map to v1's blkio.weight: bfq's number within its narrower range."""
    low, high = BLKIO_WEIGHTS
    return min(max(bfq_weight(io_weight), low), high)


def cpu_weight(shares: int) -> int:
    """Map cgroup v1 shares (2–262144) to v2's cpu.weight (1–10000), as runc and the kubelet do.

    Source: opencontainers/cgroups ConvertCPUSharesToCgroupV2Value, the linear curve. Newer versions bend
    it; what is read back after a runtime's own write may differ for values between the ends.
    """
    shares = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (shares - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def io_weight(bfq: int) -> int:
    """Map bfq's weight (1–1000) back to the least io_weight of which `bfq_weight` makes it."""
    if bfq <= 100:
        return bfq
    return 100 - (bfq - 100) * 9900 // -900


def shares_of(weight: int) -> int:
    """Map v2's cpu.weight (1–10000) back to the least shares of which `cpu_weight` makes it."""
    above = min(max(weight, MIN_WEIGHT), MAX_CPU_WEIGHT) - MIN_WEIGHT
    return MIN_SHARES + -(-above * (MAX_SHARES - MIN_SHARES) // 9999)


def bent_cpu_weight(shares: int) -> int:
    """Map shares to cpu.weight as opencontainers/cgroups does from 0.0.5 and runc from 1.3.2 on.

    Source: their ConvertCPUSharesToCgroupV2Value, a curve through (2, 1), (1024, 100) and (262144, 10000).
    """
    if shares <= MIN_SHARES:
        return MIN_WEIGHT
    if shares >= MAX_SHARES:
        return MAX_CPU_WEIGHT
    doublings = log2(shares)
    return ceil(10 ** ((doublings * doublings + 125 * doublings) / 612 - 7 / 34))


@lru_cache(maxsize=1024)
def shares_behind(weight: int) -> tuple[int, int]:
    """Return the least and the most shares of one weight, by the mapping that takes more of the two.

    The mappings are `cpu_weight` and `bent_cpu_weight`.
    """
    known = range(MIN_SHARES, MAX_SHARES + 1)
    weight = min(max(weight, MIN_WEIGHT), MAX_CPU_WEIGHT)
    ends = [
        (bisect_right(known, weight, key=mapping) - 1, mapping) for mapping in (cpu_weight, bent_cpu_weight)
    ]
    last, mapping = max(ends, key=lambda end: end[0])
    return known[min(last, bisect_left(known, weight, key=mapping))], known[last]


Controller = Literal["cpu", "cpuset", "memory", "blkio"]

CONTROLLERS: Final[tuple[Controller, ...]] = get_args(Controller)
"""The v1 names of the controllers that are used; on v2 `blkio` is called `io`, and all share one folder."""


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
    return str(cpu_weight(shares))


def _bent_cpu_weight(shares: int) -> str:
    return str(bent_cpu_weight(shares))


def _bfq_weight(weight: int) -> str:
    return str(bfq_weight(weight))


def _blkio_weight(weight: int) -> str:
    return str(blkio_weight(weight))


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
                value=shares_of,
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
            KernelFile(1, "blkio", "blkio.bfq.weight", text=_bfq_weight, value=io_weight, fresh=_WEIGHT),
            # 500: Documentation/admin-guide/cgroup-v1/blkio-controller
            KernelFile(1, "blkio", "blkio.weight", text=_blkio_weight, value=io_weight, fresh="500"),
            KernelFile(2, "blkio", "io.weight", text=_default_weight, fresh=f"default {_WEIGHT}"),
            KernelFile(2, "blkio", "io.bfq.weight", text=_bfq_weight, value=io_weight, fresh=_WEIGHT),
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
    for field, names in _WITH_OWN_FILES if can.seen_below else ():
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
