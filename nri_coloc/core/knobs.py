"""The values that the daemon sets, by their audit names (docs/audit.md), and which of them are possible on this node.

`Knobs` is a record of wishes or of facts: `None` means "not ours" or "unknown", never "zero". `core.knob_table` has a
row for each field. `Capability` says which values this kernel and this
runtime can take; a probe fills it at the start.

`Knobs` is a named tuple and no dataclass: several are made and compared in every hook, a tuple five times faster.
"""

from dataclasses import dataclass
from mmap import PAGESIZE
from typing import Final, NamedTuple

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
    seen_on_pods: whether `files` was read from a pod's cgroup; otherwise it was guessed from another cgroup.
    oom_at_create: whether the runtime applies an adjustment's oom_score_adj (NRI ≥ 0.7).
    oom_least: the lowest oom_score_adj that the runtime may set. With a lower one runc cannot create the container.
    resctrl: whether it is mounted.
    """

    cgroup: int = 1
    files: frozenset[str] = frozenset()
    oom_at_create: bool = True
    oom_least: int = 0
    resctrl: bool = False
    seen_on_pods: bool = False

    def unified(self, name: str) -> bool:
        """Whether `unified` may carry a value: on v2 only (v1 fails the creation), and only for a file that exists."""
        return self.cgroup == 2 and name in self.files

    def oom_by_answer(self, wanted: int | None, former: int | None) -> bool:
        """Whether the answer to a creation may carry an oom_score_adj; otherwise it is written at the start."""
        if wanted is None or not self.oom_at_create:
            return False
        return wanted >= min(self.oom_least, former or 0)


NOTHING_KNOWN: Final = Capability()
