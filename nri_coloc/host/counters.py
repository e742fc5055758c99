"""Parse the kernel's text for CPU time, pressure, run-queue delay, I/O and memory, and name the file of each counter.

Each function takes the bytes of a file (None: it could not be read). It returns None for text that is empty, cut off,
negative, "max", or longer than a 64-bit number: a missing reading is a value. Formats:
Documentation/admin-guide/cgroup-v1/cpuacct.rst, cgroup-v2.rst, Documentation/accounting/psi.rst,
Documentation/scheduler/sched-stats.rst, proc(5). Pure.

v1 counts CPU time in `cpuacct` (ns, and cheaper to read than anything else), throttling in `cpu`, and has pressure in
the v2 hierarchy beside it, where runc makes the same cgroups. On v2 one folder has it all.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import UNLIMITED_BYTES
from nri_coloc.core.readings import IOReading, MemoryReading, NumaMemory
from nri_coloc.host.cgroup_layout import CgroupLayout, Hierarchy
from nri_coloc.host.knob_files import U64_DIGITS

USER_HZ: Final = 100
"""In which /proc/stat counts, on every architecture with cgroups but alpha and ia64 (sysconf(3), _SC_CLK_TCK)."""

_FLAT: Final = re.compile(rb"^(\S+) (\d{1,20})$", re.MULTILINE)
_USAGE: Final = re.compile(rb"^usage_usec (\d{1,20})$", re.MULTILINE)
_PERIODS: Final = re.compile(rb"^nr_throttled (\d{1,20})$", re.MULTILINE)
_THROTTLED: Final = re.compile(rb"^throttled_(usec|time) (\d{1,20})$", re.MULTILINE)
_AVG10: Final = re.compile(rb"some avg10=(\d{1,3}\.\d{1,2}) ")
_CPU_LINE: Final = re.compile(rb"^cpu(\d{1,5}) ([^\n]+)$", re.MULTILINE)
_TASKS: Final = (0, 1, 2)
"""user, nice, system; guest time is in user already."""

_BUSY: Final = (*_TASKS, 5, 6, 7)
"""And irq, softirq, steal: stolen time is gone as well."""


class Throttling(NamedTuple):
    """The throttling by a cgroup's own quota: periods that ran out, and µs held back, summed over its CPUs' queues."""

    periods: int
    throttled_us: int


class Schedstat(NamedTuple):
    """How long a task ran, and how long it waited for a CPU while it could have run, µs; both never fall."""

    ran_us: int
    waited_us: int


def whole(text: bytes | None) -> int | None:
    """Return the one unsigned number of a file."""
    return _number(text.strip()) if text is not None else None


def flat(text: bytes | None) -> dict[bytes, int]:
    """Return a flat-keyed file ("name 123" a line); lines that are anything else are left out."""
    return {name: int(number) for name, number in _FLAT.findall(text or b"")}


def cpuacct_usage_us(text: bytes | None) -> int | None:
    """Read v1's cpuacct.usage: ns, the whole subtree."""
    word = text.rstrip(b"\n") if text else b""
    return int(word) // 1000 if word.isdigit() and len(word) <= U64_DIGITS else None


def cpu_stat_usage_us(text: bytes | None) -> int | None:
    """Read the usage of the unified hierarchy's cpu.stat: µs, the whole subtree."""
    match = _USAGE.search(text) if text else None
    return int(match[1]) if match else None


def throttling(text: bytes | None) -> Throttling | None:
    """Read cpu.stat of a v1 `cpu` cgroup (`throttled_time`, ns) or of a v2 one (`throttled_usec`)."""
    microseconds = throttled_us(text)
    match = _PERIODS.search(text) if text else None
    return None if microseconds is None or match is None else Throttling(int(match[1]), microseconds)


def throttled_us(text: bytes | None) -> int | None:
    """Return only the throttled time, µs, from the bytes that `throttling` reads."""
    match = _THROTTLED.search(text) if text else None
    if match is None:
        return None
    return int(match[2]) // (1000 if match[1] == b"time" else 1)


def some_us(text: bytes | None) -> int | None:
    """Read the `some total=` of a pressure file: µs in which at least one task waited."""
    words, _, total = (text or b"").partition(b"\n")[0].rpartition(b" total=")
    return _number(total) if words.startswith(b"some ") else None


def some_avg10(text: bytes | None) -> float | None:
    """Read the `some avg10=` of a pressure file as a part of the last ten seconds, 0 to 1."""
    found = _AVG10.match(text or b"")
    return None if found is None else float(found[1]) / 100


def schedstat(text: bytes | None) -> Schedstat | None:
    """Read a task's schedstat: "on-CPU waiting timeslices", the first two in ns.

    "0 0 0" is how a kernel that does not count says so (fs/proc/base.c, proc_pid_schedstat: !sched_info_on()), and a
    task that never ran.
    """
    words = (text or b"").split()
    if len(words) != 3:
        return None
    ran, waited, slices = map(_number, words)
    if ran is None or waited is None or slices is None or not ran + waited + slices:
        return None
    return Schedstat(ran // 1000, waited // 1000)


def busy_us(text: bytes | None, *, by_tasks: bool = False) -> Mapping[int, int]:
    """Return busy time by CPU from /proc/stat, µs in steps of 10 ms; a broken line is left out.

    `by_tasks`: without interrupts and stolen time.
    """
    found, parts = {}, _TASKS if by_tasks else _BUSY
    for number, line in _CPU_LINE.findall(text or b""):
        ticks = [_number(word) for word in line.split()]
        busy = [ticks[at] for at in parts if at < len(ticks)]
        if int(number) <= cpuset.MAX_CPU_ID and None not in busy and len(busy) >= 3:
            found[int(number)] = sum(tick or 0 for tick in busy) * (1_000_000 // USER_HZ)
    return found


def _number(word: bytes) -> int | None:
    """Return an unsigned decimal number of at most 64 bits' length; int() alone would take "1_0" and "+1"."""
    return int(word) if len(word) <= U64_DIGITS and word.isdigit() else None


_V2: Final = (b"rbytes", b"wbytes", b"rios", b"wios")


def io_stat(text: bytes | None) -> IOReading | None:
    """Read v2's io.stat; an empty file means that nothing was read or written yet.

    Some kernels print a device without figures, on the next one's line (as "8:0 8:16 rbytes=1 …"), and others
    add figures of io.cost: only what is known is looked for.
    """
    if text is None:
        return None
    sums = dict.fromkeys(_V2, 0)
    for word in text.split():
        name, _, value = word.partition(b"=")
        if name not in sums:
            continue
        number = whole(value)
        if number is None:
            return None
        sums[name] += number
    return IOReading(*(sums[name] for name in _V2))


_BLKIO_LINE: Final = re.compile(rb"^(\d{1,7}:\d{1,7}) +(Read|Write) +(?!0$)(\S+)$", re.MULTILINE)
"""A line of v1 of a device with I/O: the kernel lists all devices, most of them with 0."""


def blkio(service_bytes: bytes | None, serviced: bytes | None) -> IOReading | None:
    """Read v1's blkio.throttle.io_service_bytes and io_serviced, or their `_recursive` twins."""
    moved, operations = _by_kind(service_bytes), _by_kind(serviced)
    if moved is None or operations is None:
        return None
    return IOReading(moved[b"Read"], moved[b"Write"], operations[b"Read"], operations[b"Write"])


def _by_kind(text: bytes | None) -> Mapping[bytes, int] | None:
    """Sum the lines "MAJOR:MINOR KIND N"; the last line is the total of all kinds and has no device."""
    if text is None:
        return None
    sums = {b"Read": 0, b"Write": 0}
    for _, kind, value in _BLKIO_LINE.findall(text):
        number = whole(value)
        if number is None:
            return None
        sums[kind] += number
    return sums


_DEVICE: Final = re.compile(rb"\d{1,7}:\d{1,7}")


def io_by_device(text: bytes | None) -> Mapping[str, IOReading] | None:
    """Read v2's io.stat by device, such as "8:0"; devices without figures are left out."""
    if text is None:
        return None
    found: dict[str, dict[bytes, int]] = {}
    device = ""
    for word in text.split():
        name, _, value = word.partition(b"=")
        if _DEVICE.fullmatch(word):
            device = word.decode()
        elif name in _V2 and device:
            number = whole(value)
            if number is None:
                return None
            found.setdefault(device, dict.fromkeys(_V2, 0))[name] = number
    return {device: IOReading(*(sums[name] for name in _V2)) for device, sums in found.items()}


def blkio_by_device(service_bytes: bytes | None, serviced: bytes | None) -> Mapping[str, IOReading] | None:
    """Read v1's blkio.throttle.io_service_bytes and io_serviced, or their `_recursive` twins, by device.

    Devices without I/O are left out: the kernel lists all of them.
    """
    if service_bytes is None or serviced is None:
        return None
    found: dict[str, dict[bytes, int]] = {}
    for text, prefix in ((service_bytes, b"moved "), (serviced, b"served ")):
        for device, kind, value in _BLKIO_LINE.findall(text):
            number = whole(value)
            if number is None:
                return None
            found.setdefault(device.decode(), {})[prefix + kind] = number
    names = (b"moved Read", b"moved Write", b"served Read", b"served Write")
    return {device: IOReading(*(sums.get(name, 0) for name in names)) for device, sums in found.items()}


def stolen_us(text: bytes | None) -> int | None:
    """Return the time that the hypervisor took from all CPUs, µs, from /proc/stat's first line; None if unknown."""
    words = (text or b"").partition(b"\n")[0].split()
    ticks = _number(words[8]) if len(words) > 8 and words[0] == b"cpu" else None
    return None if ticks is None else ticks * (1_000_000 // USER_HZ)


KIB: Final = 1024

_STAT: Final = re.compile(
    rb"^(total_rss|total_cache|total_shmem|total_inactive_file|total_active_file|total_unevictable"
    rb"|anon|file|shmem|inactive_file|active_file|unevictable|slab_reclaimable) (\d{1,20})$",
    re.MULTILINE,
)
_LOW: Final = re.compile(rb"^ +low +(\d{1,20})$", re.MULTILINE)
_KIB_LINE: Final = re.compile(rb"^(?:Node \d+ )?(\w+(?:\(\w+\))?): +(\d{1,16}) kB$", re.MULTILINE)


class CgroupFiles(NamedTuple):
    """The bytes of one cgroup's memory files; `events`: v2's memory.events or v1's memory.oom_control."""

    usage: bytes | None
    stat: bytes | None
    limit: bytes | None
    events: bytes | None = None


class NodeMemory(NamedTuple):
    """The figures of /proc/meminfo, bytes."""

    total: int
    free: int
    inactive_file: int
    active_file: int
    slab_reclaimable: int


def reading(files: CgroupFiles) -> MemoryReading | None:
    """Read a cgroup of either version, children included (v1: the `total_` lines).

    Working set = usage − inactive file pages, at least 0, as the kubelet evicts by (cadvisor, setMemoryStats).
    tmpfs and shared memory are page cache to the kernel, and cannot be reclaimed without swap: no part of `file`.
    v1 counts kills of the cgroup itself only, has no memory.high, and reports only the sum of the kernel's own memory
    (mm/memcontrol.c, memcg1_stats has no slab).
    """
    usage = whole(files.usage)
    stat = {name: int(amount) for name, amount in _STAT.findall(files.stat or b"")}
    anon = stat.get(b"total_rss", stat.get(b"anon"))
    cache = stat.get(b"total_cache", stat.get(b"file"))
    shared = stat.get(b"total_shmem", stat.get(b"shmem", 0))
    inactive = stat.get(b"total_inactive_file", stat.get(b"inactive_file"))
    if usage is None or anon is None or cache is None or inactive is None or not _is_limit(files.limit):
        return None
    file = max(0, cache - shared)
    active = stat.get(b"total_active_file", stat.get(b"active_file", file))
    unevictable = stat.get(b"total_unevictable", stat.get(b"unevictable", 0))
    events = flat(files.events)
    return MemoryReading(
        usage=usage,
        anon=anon,
        file=file,
        inactive_file=inactive,
        working_set=max(0, usage - inactive),
        limit=limit(files.limit),
        oom_kills=events.get(b"oom_kill", 0),
        high_events=events.get(b"high", 0),
        shared=shared,
        slab_reclaimable=stat.get(b"slab_reclaimable"),
        locked=locked(file, inactive + active, unevictable),
    )


def locked(file: int, on_lists: int, unevictable: int) -> int:
    """Return the part of page cache that processes keep in memory (mlock(2)), bytes.

    on_lists: active and inactive pages of files. Locked pages are on neither list; nor are pages that are on none yet.
    """
    return min(unevictable, max(0, file - on_lists))


def limit(text: bytes | None) -> int | None:
    """Read memory.max or memory.limit_in_bytes; None where there is no limit, or none that can be read."""
    found = whole(text)
    return None if found is None or found >= UNLIMITED_BYTES else found


def _is_limit(text: bytes | None) -> bool:
    return whole(text) is not None or (text or b"").strip() == b"max"


def meminfo(text: bytes | None) -> NodeMemory | None:
    """Read /proc/meminfo; reclaimable slab is absent from very old kernels and counts 0."""
    found = _kib_lines(text)
    names = (b"MemTotal", b"MemFree", b"Inactive(file)", b"Active(file)")
    if any(name not in found for name in names):
        return None
    total, free, inactive, active = (found[name] for name in names)
    return NodeMemory(total, free, inactive, active, found.get(b"SReclaimable", 0))


def swap_free(text: bytes | None) -> int:
    """Read the free swap from /proc/meminfo, bytes; 0 if it has no such line."""
    return _kib_lines(text).get(b"SwapFree", 0)


def numa_meminfo(text: bytes | None) -> NumaMemory | None:
    """Read a node's meminfo; `file` is the page cache without tmpfs, and without pages that processes lock."""
    found = _kib_lines(text)
    if b"MemTotal" not in found or b"MemFree" not in found:
        return None
    file = max(0, found.get(b"FilePages", 0) - found.get(b"Shmem", 0))
    listed = found.get(b"Inactive(file)", 0) + found.get(b"Active(file)", file)
    file -= locked(file, listed, found.get(b"Unevictable", 0))
    return NumaMemory(found[b"MemTotal"], found[b"MemFree"], file)


def watermark(text: bytes | None, page_size: int) -> int | None:
    """Read /proc/zoneinfo: the low watermarks of all zones, where the kernel begins to reclaim; bytes."""
    found = _LOW.findall(text or b"")
    return sum(map(int, found)) * page_size if found else None


def _kib_lines(text: bytes | None) -> Mapping[bytes, int]:
    return {name: int(amount) * KIB for name, amount in _KIB_LINE.findall(text or b"")}


Parse = Callable[[bytes | None], int | None]


class Source(NamedTuple):
    """A file, and how to get the counter out of its bytes."""

    folder: str
    name: str
    parse: Parse


def usage(layout: CgroupLayout, path: str) -> Source | None:
    """Return the counter of a cgroup's CPU time, µs, with all cgroups below it."""
    if counts_tasks(layout):
        return _source(layout, "cpuacct", path, "cpuacct.usage", cpuacct_usage_us)
    hierarchy: Hierarchy = "cpu" if layout.version == 2 else "unified"
    return _source(layout, hierarchy, path, "cpu.stat", cpu_stat_usage_us)


def counts_tasks(layout: CgroupLayout) -> bool:
    """Return whether the counter of CPU time counts tasks only, as v1's cpuacct does (kernel/sched/cpuacct.c).

    The root's cpu.stat also counts interrupts and stolen time (kernel/cgroup/rstat.c, root_cgroup_cputime).
    """
    return layout.version == 1 and layout.cpuacct is not None


def stalled(layout: CgroupLayout, path: str) -> Source | None:
    """Return the counter of PSI's `some total=` for the CPU, µs."""
    return _source(layout, "unified", path, "cpu.pressure", some_us)


def throttled(layout: CgroupLayout, path: str) -> Source | None:
    """Return the counter of the time that a cgroup's own quota held it back, µs, summed over CPUs, itself alone."""
    return _source(layout, "cpu", path, "cpu.stat", throttled_us)


def identity(layout: CgroupLayout, path: str) -> str | None:
    """Return the folder whose inode is the cgroup's identity.

    Each hierarchy numbers its folders on its own, so the same one must be asked for all.
    """
    source = usage(layout, path)
    return None if source is None else source.folder


def _source(layout: CgroupLayout, hierarchy: Hierarchy, path: str, name: str, parse: Parse) -> Source | None:
    folder = layout.folder(hierarchy, path)
    return None if folder is None else Source(folder, name, parse)
