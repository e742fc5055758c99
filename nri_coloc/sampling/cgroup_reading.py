"""Everything that one cgroup's files tell, of either version, as one value.

Files are opened, read and closed again: each descriptor kept would hold a page of kernel memory (fs/seq_file.c),
ten megabytes at 110 pods. What is not there is None in the reading; a cgroup that is not there, or was made anew
while it was read, has none. Who only wants to know what is used asks for that alone: it is a third of the files.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model.readings import GroupReading, IOReading, MemoryReading, Pressure
from nri_coloc.sampling import (
    cgroup_layout,
    counters,
    descriptors,
    io_files,
    kernel_files,
    memory_files,
    sources,
)
from nri_coloc.sampling.cgroup_layout import CgroupLayout
from nri_coloc.sampling.counters import Schedstat
from nri_coloc.sampling.memory_files import CgroupFiles

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
        self._usage = sources.usage(layout, "")
        self._memory_names = _V1_MEMORY if layout.version == 1 else _V2_MEMORY

    def container(self, path: str, at: float) -> GroupReading | None:
        """Read a container's cgroup by its path below the hierarchy's root: CPU and memory.

        Never raises for what its files hold; ValueError for a path that leads out of the hierarchy.
        """
        return self._read(cgroup_layout.below_root(path), at, self._cpu_and_memory)

    def cpu(self, path: str, at: float) -> GroupReading | None:
        """Read how much CPU time any cgroup had and how often its quota held it back; ValueError as above."""
        return self._read(cgroup_layout.below_root(path), at, self._cpu)

    def amounts(self, path: str, at: float) -> GroupReading | None:
        """Read any cgroup's CPU time and memory, and nothing of how they were had; ValueError as above."""
        return self._read(cgroup_layout.below_root(path), at, self._amounts)

    def group(self, path: str, at: float) -> GroupReading | None:
        """Read a pod's or such a one's all: CPU time, memory, I/O and the stalls for these two; ValueError as above."""
        return self._read(cgroup_layout.below_root(path), at, self._everything)

    def tasks(self, path: str) -> Mapping[int, Schedstat]:
        """Read how long the first `MOST_TASKS` threads of a container's own cgroup ran and waited, by their ids.

        A thread that has ended, and any that the kernel tells nothing of, is left out; ValueError as above. Needs
        schedstats, which most kernels have: CONFIG_SCHED_INFO.
        """
        return self._tasks(cgroup_layout.below_root(path))

    def tasks_within(self, path: str) -> Mapping[int, Schedstat]:
        """As `tasks`, of the first cgroups right below: a VM's shim makes one of its own in its pod's."""
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
        key = descriptors.inode(folder)
        if key is None:
            return None
        found = parts(below, key, at)
        return found if descriptors.inode(folder) == key else None

    def _amounts(self, below: str, key: int, at: float) -> GroupReading:
        return GroupReading(key, at, self._usage_us(below), memory=self._memory(below))

    def _cpu(self, below: str, key: int, at: float) -> GroupReading:
        throttling = counters.throttling(_content(self._layout.cpu, below, "cpu.stat"))
        return GroupReading(
            key=key,
            at=at,
            usage_us=self._usage_us(below),
            throttled_us=None if throttling is None else throttling.throttled_us,
            throttled_periods=None if throttling is None else throttling.periods,
        )

    def _cpu_and_memory(self, below: str, key: int, at: float) -> GroupReading:
        pressure = self._pressure(below, "cpu.pressure")
        return replace(
            self._cpu(below, key, at),
            run_delay_us=self._run_delay_us(below) if pressure is None else None,
            cpu=pressure,
            memory=self._memory(below),
        )

    def _everything(self, below: str, key: int, at: float) -> GroupReading:
        return GroupReading(
            key=key,
            at=at,
            usage_us=self._usage_us(below),
            memory=self._memory(below),
            memory_stall=self._pressure(below, "memory.pressure"),
            io_stall=self._pressure(below, "io.pressure"),
            io=self._io(below),
        )

    def _usage_us(self, below: str) -> int | None:
        assert self._usage is not None  # nothing is read without it
        return self._usage.parse(_content(self._usage.folder, below, self._usage.name))

    def _pressure(self, below: str, name: str) -> Pressure | None:
        return counters.pressure(_content(self._layout.unified, below, name))

    def _memory(self, below: str) -> MemoryReading | None:
        texts = (_content(self._layout.memory, below, name) for name in self._memory_names)
        return memory_files.reading(CgroupFiles(*texts))

    def _io(self, below: str) -> IOReading | None:
        if self._layout.version == 2:
            return io_files.io_stat(_content(self._layout.blkio, below, "io.stat"))
        moved, served = (self._blkio(below, name) for name in _BLKIO)
        return io_files.blkio(moved, served)

    def _blkio(self, below: str, name: str) -> bytes | None:
        """Return the figures with everything below; kernels before 4.3 have only the cgroup's own."""
        recursive = _content(self._layout.blkio, below, f"{name}_recursive")
        return _content(self._layout.blkio, below, name) if recursive is None else recursive

    def _run_delay_us(self, below: str) -> int | None:
        """Add up the waiting of a cgroup's own threads; one that ends takes its part with it."""
        found = self._tasks(below).values()
        return sum(task.waited_us for task in found) if found else None

    def _tasks(self, below: str) -> Mapping[int, Schedstat]:
        name = "tasks" if self._layout.version == 1 else "cgroup.threads"
        listed = (_content(self._layout.cpu, below, name) or b"").split()[:MOST_TASKS]
        ids = [task for word in listed if (task := counters.whole(word)) is not None]
        found = ((task, counters.schedstat(content(f"{self._proc}/{task}/schedstat"))) for task in ids)
        return {task: times for task, times in found if times is not None}


def _folders(folder: str) -> list[str]:
    try:
        found = kernel_files.entries(folder)
    except KernelInterfaceError:
        return []
    return sorted(name for name, is_folder in found.items() if is_folder)


def _content(root: str | None, below: str, name: str) -> bytes | None:
    return None if root is None else content(f"{root}/{below}/{name}")


def content(path: str) -> bytes | None:
    """Return a counter file's bytes; None where it is not there, refuses, or is too long to be one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.pread(descriptor, descriptors.READ_SIZE, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return found if len(found) < descriptors.READ_SIZE else None
