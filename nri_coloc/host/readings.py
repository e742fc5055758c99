"""Read the counters of one cgroup, or of the machine, as one value.

Files are opened, read and closed again: each open descriptor would hold a page of kernel memory (fs/seq_file.c),
ten megabytes at 110 pods. A missing file is None in the reading. A cgroup that is missing, or was created again while
it was read, has no reading. `use` alone reads a third of the files.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import GroupReading, IOReading, MemoryReading, NodeReading, NumaMemory
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, counters, files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.counters import CgroupFiles, NodeMemory, Schedstat

MOST_TASKS: Final = 64
"""How many threads of a container are asked for their run-queue delay at once, where there is no PSI."""

MOST_WITHIN: Final = 8
"""How many cgroups within another one are asked for their threads."""

_V1_MEMORY: Final = ("memory.usage_in_bytes", "memory.stat", "memory.limit_in_bytes", "memory.oom_control")
_V2_MEMORY: Final = ("memory.current", "memory.stat", "memory.max", "memory.events")
_BLKIO: Final = ("blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced")


class CgroupReader:
    """Reads cgroups of one layout. `host_root` is where /proc is found."""

    def __init__(self, layout: CgroupLayout, host_root: str = "/") -> None:
        self._layout = layout
        self._proc = f"{host_root.rstrip('/')}/proc"
        self._usage = counters.usage(layout, "")
        self._memory_names = _V1_MEMORY if layout.version == 1 else _V2_MEMORY

    def container(self, path: str, at: float) -> GroupReading | None:
        """Read a container's cgroup by its path below the hierarchy's root: CPU and memory.

        Never raises because of its files' contents; ValueError for a path that leads out of the hierarchy.
        """
        return self._read(cgroup_layout.below_root(path), at, self._cpu_and_memory)

    def cpu(self, path: str, at: float) -> GroupReading | None:
        """Read a cgroup's CPU time and its throttling by a quota; raises as `container` does."""
        return self._read(cgroup_layout.below_root(path), at, self._cpu)

    def amounts(self, path: str, at: float) -> GroupReading | None:
        """Read a cgroup's CPU time and memory, without stalls and throttling; raises as `container` does."""
        return self._read(cgroup_layout.below_root(path), at, self._amounts)

    def group(self, path: str, at: float) -> GroupReading | None:
        """Read CPU time, memory, I/O, and stalls for memory and I/O of a pod or host group; raises as `container`."""
        return self._read(cgroup_layout.below_root(path), at, self._everything)

    def tasks(self, path: str) -> Mapping[int, Schedstat]:
        """Read how long the first `MOST_TASKS` threads of a container's own cgroup ran and waited, by their ids.

        Threads that have ended, or whose schedstat the kernel does not show, are left out. It needs CONFIG_SCHED_INFO,
        which most kernels have. Raises as `container` does.
        """
        return self._tasks(cgroup_layout.below_root(path))

    def tasks_within(self, path: str) -> Mapping[int, Schedstat]:
        """Read the same of the first `MOST_WITHIN` cgroups below: a VM's shim makes one in its pod's cgroup."""
        below = cgroup_layout.below_root(path)
        folder = self._layout.folder("cpu", below)
        names = _folders(folder)[:MOST_WITHIN] if folder is not None else ()
        found = chain.from_iterable(self._tasks(f"{below}/{name}").items() for name in names)
        return dict(islice(found, MOST_TASKS))

    def _read(
        self, below: str, at: float, parts: Callable[[str, int, float], GroupReading]
    ) -> GroupReading | None:
        """Read a cgroup, if it is the same one before and after."""
        if self._usage is None:
            return None
        folder = f"{self._usage.folder}/{below}"
        key = files.inode(folder)
        if key is None:
            return None
        found = parts(below, key, at)
        return found if files.inode(folder) == key else None

    def _amounts(self, below: str, key: int, at: float) -> GroupReading:
        return GroupReading(key, at, self._usage_us(below), memory=self._memory(below))

    def _cpu(self, below: str, key: int, at: float) -> GroupReading:
        throttling = counters.throttling(content_below(self._layout.cpu, below, "cpu.stat"))
        return GroupReading(
            key=key,
            at=at,
            usage_us=self._usage_us(below),
            throttled_us=None if throttling is None else throttling.throttled_us,
            throttled_periods=None if throttling is None else throttling.periods,
        )

    def _cpu_and_memory(self, below: str, key: int, at: float) -> GroupReading:
        stall_us = self._stall_us(below, "cpu.pressure")
        return replace(
            self._cpu(below, key, at),
            run_delay_us=self._run_delay_us(below) if stall_us is None else None,
            cpu_stall_us=stall_us,
            memory=self._memory(below),
        )

    def _everything(self, below: str, key: int, at: float) -> GroupReading:
        return GroupReading(
            key=key,
            at=at,
            usage_us=self._usage_us(below),
            memory=self._memory(below),
            memory_stall_us=self._stall_us(below, "memory.pressure"),
            io_stall_us=self._stall_us(below, "io.pressure"),
            io=self._io(below),
        )

    def _usage_us(self, below: str) -> int | None:
        assert self._usage is not None  # nothing is read without it
        return self._usage.parse(content_below(self._usage.folder, below, self._usage.name))

    def _stall_us(self, below: str, name: str) -> int | None:
        return counters.some_us(content_below(self._layout.unified, below, name))

    def _memory(self, below: str) -> MemoryReading | None:
        texts = (content_below(self._layout.memory, below, name) for name in self._memory_names)
        return counters.reading(CgroupFiles(*texts))

    def _io(self, below: str) -> IOReading | None:
        if self._layout.version == 2:
            return counters.io_stat(content_below(self._layout.blkio, below, "io.stat"))
        return counters.blkio(*blkio(self._layout, below))

    def _run_delay_us(self, below: str) -> int | None:
        """Add up the waiting of a cgroup's own threads; one that ends takes its part with it."""
        found = self._tasks(below).values()
        return sum(task.waited_us for task in found) if found else None

    def _tasks(self, below: str) -> Mapping[int, Schedstat]:
        name = "tasks" if self._layout.version == 1 else "cgroup.threads"
        listed = (content_below(self._layout.cpu, below, name) or b"").split()[:MOST_TASKS]
        ids = [task for word in listed if (task := counters.whole(word)) is not None]
        found = ((task, counters.schedstat(content(f"{self._proc}/{task}/schedstat"))) for task in ids)
        return {task: times for task, times in found if times is not None}


def _folders(folder: str) -> list[str]:
    try:
        found = files.entries(folder)
    except KernelInterfaceError:
        return []
    return sorted(name for name, is_folder in found.items() if is_folder)


def blkio(layout: CgroupLayout, below: str) -> tuple[bytes | None, bytes | None]:
    """Return the contents of v1's files with a cgroup's bytes and requests of I/O.

    They include all cgroups below it; on kernels before 4.3 they include the cgroup's own I/O only.
    """
    moved, served = (_blkio(layout.blkio, below, name) for name in _BLKIO)
    return moved, served


def _blkio(root: str | None, below: str, name: str) -> bytes | None:
    recursive = content_below(root, below, f"{name}_recursive")
    return content_below(root, below, name) if recursive is None else recursive


def content_below(root: str | None, below: str, name: str) -> bytes | None:
    """Return a counter file's bytes as `content` does; None too if the hierarchy is not mounted (root is None)."""
    return None if root is None else content(f"{root}/{below}/{name}")


def content(path: str) -> bytes | None:
    """Return a counter file's bytes; None where it is not there, refuses, or is too long to be one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.pread(descriptor, files.READ_SIZE, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return found if len(found) < files.READ_SIZE else None


class NodeReader:
    """Reads /proc and /sys below `host_root`."""

    def __init__(self, layout: CgroupLayout, host_root: str = "/") -> None:
        self._layout = layout
        self._root = host_root.rstrip("/")
        self._page_size = os.sysconf("SC_PAGE_SIZE")
        self._by_root: bool | None = None

    def read(self, at: float, reserved: CPUMask, nodes: Iterable[int]) -> NodeReading:
        """Read the machine; `nodes`: its memory nodes.

        Its memory is read as a whole or not at all (`memory_total` 0): without the watermarks all of it would look
        free to be lent.
        """
        by_tasks = counters.counts_tasks(self._layout)
        busy = counters.busy_us(whole(f"{self._root}/proc/stat"), by_tasks=by_tasks)
        memory = counters.meminfo(content(f"{self._root}/proc/meminfo"))
        watermark = counters.watermark(whole(f"{self._root}/proc/zoneinfo"), self._page_size)
        if memory is None or watermark is None:
            memory, watermark = NodeMemory(0, 0, 0, 0, 0), 0
        return NodeReading(
            at=at,
            usage_us=self._usage_us(busy),
            reserved_usage_us=_of(busy, reserved),
            reserved=reserved,
            memory_total=memory.total,
            memory_free=memory.free,
            inactive_file=memory.inactive_file,
            active_file=memory.active_file,
            slab_reclaimable=memory.slab_reclaimable,
            watermark=watermark,
            nodes=self._nodes(sorted(nodes), memory),
        )

    def _usage_us(self, busy: Mapping[int, int]) -> int | None:
        """Return what the root cgroup counted, which agrees with kubepods' own counter, else /proc/stat's sum.

        The first reading decides which, for good: the difference between the two is no use.
        """
        root = counters.usage(self._layout, "")
        counted = None if root is None else root.parse(content(f"{root.folder}/{root.name}"))
        if self._by_root is None:
            self._by_root = counted is not None
        if self._by_root:
            return counted
        return sum(busy.values()) if busy else None

    def _nodes(self, nodes: list[int], memory: NodeMemory) -> dict[int, NumaMemory]:
        """Read each node; a single one has all memory, of which its own file was seen to leave out a part."""
        if len(nodes) <= 1:
            whole = NumaMemory(memory.total, memory.free, memory.inactive_file + memory.active_file)
            return dict.fromkeys(nodes, whole) if memory.total else {}
        folder = f"{self._root}/sys/devices/system/node"
        read = {node: counters.numa_meminfo(content(f"{folder}/node{node}/meminfo")) for node in nodes}
        return {node: found for node, found in read.items() if found is not None}


def whole(path: str) -> bytes | None:
    """Return one of the machine's own files to its end; None if it is missing, refuses, or does not end.

    One read may bring a part: /proc/zoneinfo is shown node by node, as many as fit into the kernel's buffer of the
    moment (fs/seq_file.c, seq_read_iter). A missing end would look like missing watermarks.
    """
    parts: list[bytes] = []
    try:
        with Path(path).open("rb", buffering=0) as file:
            while sum(map(len, parts)) < files.MACHINE_SIZE:
                part = file.read(files.READ_SIZE)
                if not part:
                    return b"".join(parts)
                parts.append(part)
    except OSError:
        return None
    return None


def _of(busy: Mapping[int, int], cpus: CPUMask) -> int | None:
    """Add up some CPUs' time; 0 for no CPUs, None if one of them is not known."""
    wanted = [busy.get(cpu) for cpu in cpuset.members(cpus)]
    known = [us for us in wanted if us is not None]
    return sum(known) if len(known) == len(wanted) else None
