"""Read how much memory is left: on the machine, on one memory node, and below the limit of kubepods.

Read once a second, so only the files that change: the kernel's watermarks are read once a minute, because
/proc/zoneinfo has lines for each CPU.
"""

import os
import re
from typing import Final

from nri_coloc.core.readings import MemoryLeft, MemoryReading
from nri_coloc.host import cgroup_layout, counters
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.readings import CgroupReader, content, whole

WATERMARK_S: Final = 60.0
"""Seconds for which the watermarks count. They change if an operator writes vm.min_free_kbytes, or memory comes."""

_HELD_V1: Final = (b"hierarchical_anon=", b"hierarchical_unevictable=")
_HELD_V2: Final = (b"anon ", b"shmem ", b"kernel_stack ", b"pagetables ", b"slab_unreclaimable ")
"""The lines of memory.numa_stat with memory that cannot go back to a file; on cgroup v2 without locked page cache."""

_CACHE_V2: Final = (b"file ", b"shmem ", b"inactive_file ", b"active_file ", b"unevictable ")


class MemoryLeftReader:
    """Reads the machine of one layout. `host_root` is where /proc and /sys are found."""

    def __init__(self, layout: CgroupLayout, host_root: str = "/") -> None:
        self._layout = layout
        self._root = host_root.rstrip("/")
        self._cgroups = CgroupReader(layout, host_root)
        self._page_size = os.sysconf("SC_PAGE_SIZE")
        self._watermark: tuple[float, int] | None = None

    def machine(self, at: float) -> MemoryLeft | None:
        """Return the machine's memory; None if a file cannot be read.

        at: the present time, seconds: the kernel's watermarks are read again when they are old.
        """
        found = counters.meminfo(content(f"{self._root}/proc/meminfo"))
        watermark = self._low_watermark(at)
        if found is None or not found.total or watermark is None:
            return None
        cache = found.inactive_file + found.active_file // 2 + found.slab_reclaimable // 2
        return MemoryLeft(found.total, found.free + cache - watermark)

    def numa_node(self, number: int, at: float, machine_bytes: int) -> MemoryLeft | None:
        """Return the memory of one NUMA node. It has a part of the watermarks, by its part of the machine's memory."""
        path = f"{self._root}/sys/devices/system/node/node{number}/meminfo"
        found, watermark = counters.numa_meminfo(content(path)), self._low_watermark(at)
        if found is None or watermark is None or not machine_bytes:
            return None
        own = watermark * found.total // machine_bytes
        return MemoryLeft(found.total, found.free + found.file // 2 - own)

    def below_limit(self, path: str, at: float) -> MemoryLeft | None:
        """Read a cgroup with a limit of its own; None without one, or if it cannot be read."""
        found = self.held(path, at)
        if found is None or found.limit is None:
            return None
        cache = found.inactive_file + max(0, found.cache - found.inactive_file) // 2
        slab = (found.slab_reclaimable or 0) // 2
        return MemoryLeft(found.limit, found.limit - found.usage + cache + slab)

    def held(self, path: str, at: float) -> MemoryReading | None:
        """Read the memory of a cgroup; None if it cannot be read."""
        found = self._cgroups.amounts(path, at)
        return None if found is None else found.memory

    def unreclaimable_on(self, path: str, number: int) -> int:
        """Read the memory of a cgroup on one memory node that the end of its pod frees, without page cache, bytes.

        0 if it is unknown. tmpfs counts: on cgroup v1 the kernel counts it as anonymous (mm/memcontrol.c,
        memcg_numa_stat_show: LRU_ALL_ANON). So does locked page cache.
        """
        below = cgroup_layout.below_root(path)
        text = content(f"{self._layout.memory}/{below}/memory.numa_stat") if self._layout.memory else None
        on_node = re.compile(rb"^(\w+[ =]).*\bN%d=(\d{1,20})\b" % number, re.MULTILINE)
        found = {name: int(amount) for name, amount in on_node.findall(text or b"")}
        if self._layout.version == 1:
            return sum(found.get(name, 0) for name in _HELD_V1) * self._page_size
        file, shared, inactive, active, unevictable = (found.get(name, 0) for name in _CACHE_V2)
        locked = counters.locked(file - shared, inactive + active, unevictable)
        return sum(found.get(name, 0) for name in _HELD_V2) + locked

    def _low_watermark(self, at: float) -> int | None:
        known = self._watermark
        if known is not None and 0 <= at - known[0] < WATERMARK_S:
            return known[1]
        found = counters.watermark(whole(f"{self._root}/proc/zoneinfo"), self._page_size)
        self._watermark = None if found is None else (at, found)
        return found
