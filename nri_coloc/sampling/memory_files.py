"""The kernel's words for memory, as bytes; pure.

As in `counters`, a file's bytes come in and None goes out for what makes no sense. A cgroup's memory is read as a
whole or not at all: a limit that could not be read must never look like "no limit".
Formats: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst, proc(5).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.model.readings import MemoryReading, NumaMemory
from nri_coloc.sampling import counters

KIB: Final = 1024
NO_LIMIT: Final = 1 << 62
"""v1 shows "no limit" as LONG_MAX rounded down to a page, which depends on the page's size."""

_STAT: Final = re.compile(
    rb"^(total_rss|total_cache|total_shmem|total_inactive_file|anon|file|shmem|inactive_file|slab_reclaimable)"
    rb" (\d{1,20})$",
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
    """What /proc/meminfo says, bytes."""

    total: int
    free: int
    inactive_file: int
    active_file: int
    slab_reclaimable: int


def reading(files: CgroupFiles) -> MemoryReading | None:
    """Read a cgroup of either version, children included (v1: the `total_` lines).

    Working set = usage − inactive file pages, at least 0, as the kubelet evicts by (cadvisor, setMemoryStats).
    tmpfs and shared memory are page cache to the kernel, and cannot be reclaimed without swap: no part of `file`.
    v1 counts kills of the cgroup itself only, has no memory.high, and tells of the kernel's own memory the sum only
    (mm/memcontrol.c, memcg1_stats has no slab).
    """
    usage = counters.whole(files.usage)
    stat = {name: int(amount) for name, amount in _STAT.findall(files.stat or b"")}
    anon = stat.get(b"total_rss", stat.get(b"anon"))
    cache = stat.get(b"total_cache", stat.get(b"file"))
    shared = stat.get(b"total_shmem", stat.get(b"shmem", 0))
    inactive = stat.get(b"total_inactive_file", stat.get(b"inactive_file"))
    if usage is None or anon is None or cache is None or inactive is None or not _is_limit(files.limit):
        return None
    events = counters.flat(files.events)
    return MemoryReading(
        usage=usage,
        anon=anon,
        file=max(0, cache - shared),
        inactive_file=inactive,
        working_set=max(0, usage - inactive),
        limit=limit(files.limit),
        oom_kills=events.get(b"oom_kill", 0),
        high_events=events.get(b"high", 0),
        shared=shared,
        slab_reclaimable=stat.get(b"slab_reclaimable"),
    )


def limit(text: bytes | None) -> int | None:
    """Read memory.max or memory.limit_in_bytes; None where there is no limit, or none that can be read."""
    found = counters.whole(text)
    return None if found is None or found >= NO_LIMIT else found


def _is_limit(text: bytes | None) -> bool:
    return counters.whole(text) is not None or (text or b"").strip() == b"max"


def meminfo(text: bytes | None) -> NodeMemory | None:
    """Read /proc/meminfo; reclaimable slab is absent from very old kernels and counts 0."""
    found = _kib_lines(text)
    names = (b"MemTotal", b"MemFree", b"Inactive(file)", b"Active(file)")
    if any(name not in found for name in names):
        return None
    total, free, inactive, active = (found[name] for name in names)
    return NodeMemory(total, free, inactive, active, found.get(b"SReclaimable", 0))


def numa_meminfo(text: bytes | None) -> NumaMemory | None:
    """Read a node's meminfo; `file` is the page cache without tmpfs, as in a cgroup's."""
    found = _kib_lines(text)
    if b"MemTotal" not in found or b"MemFree" not in found:
        return None
    file = max(0, found.get(b"FilePages", 0) - found.get(b"Shmem", 0))
    return NumaMemory(found[b"MemTotal"], found[b"MemFree"], file)


def watermark(text: bytes | None, page_size: int) -> int | None:
    """Read /proc/zoneinfo: the low watermarks of all zones, where the kernel begins to reclaim; bytes."""
    found = _LOW.findall(text or b"")
    return sum(map(int, found)) * page_size if found else None


def _kib_lines(text: bytes | None) -> Mapping[bytes, int]:
    return {name: int(amount) * KIB for name, amount in _KIB_LINE.findall(text or b"")}
