"""Measured values, as immutable records: a lean one for the fast loop, a full one for the slow loop.

All counters are the kernel's own running totals. Rates are made by comparing two readings of the same `key`, so that
a cgroup that was created again between them never looks like a burst. None means "could not be read": a value, not an
error. Times are monotonic seconds, CPU times and stalls µs, memory bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask

SCHEDULER_TICK_S: Final = 0.004
"""Counters of a task that keeps running are brought up to date by the scheduler's tick (250 Hz on most kernels)."""


class Role(StrEnum):
    """The cgroups whose use a fast sample measures."""

    PODS = "pods"
    """Everything below kubepods."""
    SYSTEM = "system"
    """Everything on the node beside kubepods, HOST too: PODS less BOX and DEDICATED, and SYSTEM less HOST, and of both
    together less RESERVED, are what is used and not lent. On cgroup v2 it is several samples."""
    BOX = "box"
    """A reclaimed pod's cgroup."""
    HOST = "host"
    """A host group, outside of kubepods."""
    DEDICATED = "dedicated"
    """Use of cgroups that run only on owned CPUs: of a container, or of a pool with CPUs of its own."""
    RESERVED = "reserved"
    """Use of unassigned CPUs (reserved ones, and isolated ones that are free), as far as PODS or SYSTEM contain it:
    on cgroup v1 they contain no interrupts and no stolen time."""
    ONLINE = "online"
    """An online pod, or a group of nothing but online pods: its stalls count."""
    TIER = "tier"
    """Members of one tier, where pools are sized by load (partition)."""


class Signal(StrEnum):
    """The signal of a group's CPU stall."""

    PSI = "PSI"
    """The kernel's own figure: the time in which at least one task of the group waited."""
    RUN_DELAY = "run-queue delay"
    """The summed waiting time of a few of its busiest tasks, used if the kernel has no PSI."""


class Sample(NamedTuple):
    """One cgroup at one moment, or several cgroups that are read as one figure; one sample per key and tick.

    `key` is its identity: the folder's inode, never its path. A negative number stands for the exact set of cgroups of
    a sum or difference. No cgroup of a role lies inside another cgroup of that role. The samples of a role are read
    round-robin, each with its own `at`, and are summed as rates.

    usage_us: None if the cgroup cannot be read or is `gone`, or if a counter of a difference was reset. None also for a
        single online pod whose usage was not read.
    stalled_us: the stall by `signal`; with PSI, cpu `some total=`.
    throttled_us: time that its own quotas held it back, 0 without a quota. Summed over CPUs, so it can exceed the stall
        that it caused. The kernel adds it when a period ends, up to 100 ms after the stall.
    shares_box: whether reclaimed tasks may run on its CPUs now.
    tier: for TIER, the name of the tier.
    """

    key: int
    role: Role
    at: float
    usage_us: int | None = None
    stalled_us: int | None = None
    throttled_us: int | None = None
    shares_box: bool = True
    tier: str = ""
    signal: Signal = Signal.PSI
    gone: bool = False


class Look(NamedTuple):
    """The sums of one fast tick's counters, before samples are made of them; µs of CPU time.

    left_us: use of PODS without BOX and DEDICATED.
    system_us: use of SYSTEM without HOST; RESERVED is not subtracted.
    box_us: use of BOX and HOST.
    waited_us: the stall of each ONLINE group that every tick reads, in the same order on each tick. None of them is
        missing.
    online: the samples of the groups that are read round-robin.
    """

    at: float
    left_us: int
    system_us: int
    box_us: int
    waited_us: tuple[int, ...] = ()
    online: tuple[Sample, ...] = ()


class FastReadings(NamedTuple):
    """The counters of one fast tick: all summed counters, and others round-robin.

    at: when the tick began.
    late_s: how much later than planned.
    lendable: CPUs of `share` now; if pools are sized by load, of all tiers and the reclaim pool. Reserved and dedicated
        CPUs are left out.
    threads_per_core: threads per core of the lendable CPUs.
    cpus: online CPUs of the machine, 0 if unknown. No counter rises faster.
    took_s: CPU time of a tick since the last tick that decided, with waking up.
    mean_took_s: the mean of the last ticks.
    yields: whether all reclaim cgroups weigh less than every online cgroup beside them.
    equal: an online pod that weighs as little, and alone prevents `yields`; "" for none.
    most: the operator's maximum of CPUs for the reclaim pool, 0 for any number.
    members: the number of BOX and HOST samples when all have been read.
    counters_s: how far a CPU's counter may lag, the scheduler's tick.
    """

    at: float
    samples: tuple[Sample, ...] = ()
    late_s: float = 0.0
    lendable: int = 0
    threads_per_core: int = 1
    cpus: int = 0
    took_s: float = 0.0
    mean_took_s: float = 0.0
    yields: bool = False
    most: int = 0
    members: int = 0
    equal: str = ""
    counters_s: float = SCHEDULER_TICK_S


class MemoryReading(NamedTuple):
    """One cgroup's memory. `working_set` = usage − inactive file cache (as the kubelet counts it).

    `file`: page cache that can go back to a file; tmpfs and shared memory, `shared`, cannot. `slab_reclaimable`: the
    kernel's own that can, dentries and inodes; None where it does not tell (v1). `locked`: the part of `file` that a
    process keeps in memory (mlock(2)).
    """

    usage: int
    anon: int = 0
    file: int = 0
    inactive_file: int = 0
    working_set: int = 0
    limit: int | None = None
    oom_kills: int = 0
    high_events: int = 0
    shared: int = 0
    slab_reclaimable: int | None = None
    locked: int = 0

    @property
    def most_slab(self) -> int:
        """Reclaimable slab, or at most so much: what is no process's and no file's is the kernel's."""
        if self.slab_reclaimable is not None:
            return self.slab_reclaimable
        return max(0, self.usage - self.anon - self.file - self.shared)

    @property
    def cache(self) -> int:
        """Page cache that the kernel can take back, bytes."""
        return self.file - self.locked

    @property
    def unreclaimable(self) -> int:
        """Memory that no bound gets back, bytes: all but unlocked page cache and known reclaimable slab."""
        return max(0, self.usage - self.cache - (self.slab_reclaimable or 0))


class IOReading(NamedTuple):
    """Bytes and operations since the cgroup was made, all devices together."""

    read_bytes: int = 0
    written_bytes: int = 0
    reads: int = 0
    writes: int = 0


@dataclass(frozen=True, slots=True)
class GroupReading:
    """One cgroup in the full picture; every part that its kernel does not offer is None.

    `cpu_stall_us`, `memory_stall_us`, `io_stall_us`: PSI's running totals (`some`).
    `run_delay_us`: only where there is no PSI, of a container's living threads; it falls when one of them ends.
    A container's I/O and its stalls for memory and I/O are in its pod's reading only; throttling and waiting for CPUs
    are in containers' only.
    """

    key: int
    at: float
    usage_us: int | None = None
    throttled_us: int | None = None
    throttled_periods: int | None = None
    run_delay_us: int | None = None
    cpu_stall_us: int | None = None
    memory_stall_us: int | None = None
    io_stall_us: int | None = None
    memory: MemoryReading | None = None
    io: IOReading | None = None

    @property
    def cpu_wait_us(self) -> int | None:
        """The CPU wait, µs: by PSI, or by the threads' run-queue delay if there is no PSI."""
        return self.run_delay_us if self.cpu_stall_us is None else self.cpu_stall_us


class StallReading(NamedTuple):
    """The stalls of one pod, and its use of the resources that it waits for. None is unknown.

    key: the cgroup's identity, as in `Sample`.
    cpu_us, memory_us, io_us: PSI's `some` totals.
    throttled_us: time for which the quotas of the pod and its containers held them back.
    memory_bytes, limit_bytes: memory in use, and its limit; no limit is 0.
    limit_hits: how often the pod or a cgroup below it reached its own memory limit.
    devices: I/O by device ("8:0").
    """

    key: int
    at: float
    usage_us: int | None = None
    cpu_us: int | None = None
    throttled_us: int | None = None
    memory_us: int | None = None
    io_us: int | None = None
    memory_bytes: int | None = None
    limit_bytes: int | None = None
    limit_hits: int | None = None
    devices: Mapping[str, IOReading] | None = None


class SharingCost(NamedTuple):
    """The cost of sharing for some cgroups in an interval: sums of the rise of their counters.

    For containers: throttling by a quota, waiting for a CPU, kills for memory. For pods: bytes and operations of I/O,
    stalls for memory and for I/O, and reclaim events at memory.high.
    """

    throttled_us: int = 0
    waited_us: int = 0
    oom_kills: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    reads: int = 0
    writes: int = 0
    memory_stalled_us: int = 0
    io_stalled_us: int = 0
    high_events: int = 0


class NumaMemory(NamedTuple):
    """One memory node, bytes."""

    total: int
    free: int
    file: int = 0


class MemoryLeft(NamedTuple):
    """The memory of the machine, of one of its nodes, or below a cgroup's limit; bytes.

    available: free memory and the page cache that the kernel can reclaim, without its watermarks. It may be negative.
    """

    total: int
    available: int


class DiskLeft(NamedTuple):
    """What is left of a file system, for processes without privileges.

    total, available: bytes; `total` is above 0.
    inodes, free_inodes: number; 0 for a file system that has no fixed number of inodes.
    disk: number of its disk, as in io.stat; "" if it is unknown.
    """

    total: int
    available: int
    inodes: int
    free_inodes: int
    disk: str = ""

    @property
    def space(self) -> float:
        """The part of the space that is available, 0 to 1."""
        return self.available / self.total

    @property
    def inodes_left(self) -> float:
        """The part of the inodes that is free, 0 to 1; 1 without a fixed number of inodes."""
        return self.free_inodes / self.inodes if self.inodes else 1.0


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The machine as a whole.

    watermark: the kernel's low watermarks of all zones, bytes (/proc/zoneinfo).
    reserved_usage_us: CPU time on `reserved`, the CPUs that are neither lent nor owned, as far as it is in `usage_us`.
    """

    at: float
    usage_us: int | None = None
    reserved_usage_us: int | None = None
    reserved: CPUMask = 0
    memory_total: int = 0
    memory_free: int = 0
    inactive_file: int = 0
    active_file: int = 0
    slab_reclaimable: int = 0
    watermark: int = 0
    nodes: Mapping[int, NumaMemory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """The snapshot: all readings of about one moment, by pod id and container id, with kubepods and the node.

    A pod or container whose cgroup is gone is not in it. `took_s`: the wall time of taking it.
    """

    at: float
    node: NodeReading
    kubepods: GroupReading | None = None
    pods: Mapping[str, GroupReading] = field(default_factory=dict)
    containers: Mapping[str, GroupReading] = field(default_factory=dict)
    host_groups: Mapping[str, GroupReading] = field(default_factory=dict)
    took_s: float = 0.0


def risen(before: int | None, after: int | None) -> int | None:
    """Return the rise of a counter; None if it could not be read, or was reset."""
    return None if before is None or after is None or after < before else after - before


def together(groups: Sequence[GroupReading]) -> GroupReading | None:
    """Return the CPU time and memory of several cgroups as of one; None for no cgroup.

    The limit of memory is the sum of their limits; there is none if one of them has none. The key changes when the
    cgroups do.
    """
    if len(groups) < 2:
        return groups[0] if groups else None
    used, memory = [one.usage_us for one in groups], [one.memory for one in groups]
    return GroupReading(
        key=hash(tuple(one.key for one in groups)),
        at=groups[0].at,
        usage_us=None if None in used else sum(filter(None, used)),
        memory=None if None in memory else _memory_of(list(filter(None, memory))),
    )


def _memory_of(each: Sequence[MemoryReading]) -> MemoryReading:
    limits, slabs = [one.limit for one in each], [one.slab_reclaimable for one in each]
    return MemoryReading(
        usage=sum(one.usage for one in each),
        anon=sum(one.anon for one in each),
        file=sum(one.file for one in each),
        inactive_file=sum(one.inactive_file for one in each),
        working_set=sum(one.working_set for one in each),
        limit=None if None in limits else sum(filter(None, limits)),
        shared=sum(one.shared for one in each),
        slab_reclaimable=None if None in slabs else sum(filter(None, slabs)),
        locked=sum(one.locked for one in each),
    )


def seconds_between(before: GroupReading, after: GroupReading) -> float | None:
    """Return the time between two readings, more than 0; None for two different cgroups or a clock that stands."""
    return None if before.key != after.key or after.at <= before.at else after.at - before.at


def milli_between(before: GroupReading | None, after: GroupReading | None) -> int | None:
    """Return the mean use, milli-CPU; None if `seconds_between` is, or if the counter went back."""
    if before is None or after is None or (seconds := seconds_between(before, after)) is None:
        return None
    used_us = risen(before.usage_us, after.usage_us)
    return None if used_us is None else round(used_us / seconds / 1000)
