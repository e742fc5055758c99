"""Read a pod's stalls, and its use of the resources that pods wait for, as one value.

Files are opened, read and closed again, as in `host.readings`; `OpenStalls` keeps its files open. A missing file is
None in the reading; a cgroup that is gone has no reading. Paths are below the hierarchy's root; ValueError for one
that leads out of it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.core.readings import IOReading, StallReading
from nri_coloc.host import cgroup_layout, counters, files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.files import Descriptors, OpenFile, Vanished
from nri_coloc.host.readings import blkio, content_below, whole

_MEMORY: Final = {
    1: ("memory.usage_in_bytes", "memory.limit_in_bytes"),
    2: ("memory.current", "memory.max"),
}


class StallReader:
    """Reads pods of one layout. `host_root` is where /proc is found."""

    def __init__(self, layout: CgroupLayout, host_root: str = "/") -> None:
        self._layout = layout
        self._proc = f"{host_root.rstrip('/')}/proc"
        self._usage = counters.usage(layout, "")
        self._memory, self._limit = _MEMORY[layout.version]

    def stalls(
        self, path: str, at: float, held_back: Iterable[str], limited: Iterable[str]
    ) -> StallReading | None:
        """Read one online pod's stalls and use; None if its cgroup is gone.

        held_back: its own cgroup, and the cgroups of its containers that have a quota.
        limited: its own cgroup, and the cgroups of its containers that have a memory limit.
        """
        found = self.uses(path, at)
        if found is None:
            return None
        below = cgroup_layout.below_root(path)
        cpu, memory, io = (
            counters.some_us(content_below(self._layout.unified, below, f"{name}.pressure"))
            for name in ("cpu", "memory", "io")
        )
        return found._replace(
            cpu_us=cpu,
            throttled_us=self._held_back_us(held_back),
            memory_us=memory,
            io_us=io,
            limit_bytes=counters.limit(content_below(self._layout.memory, below, self._limit)) or 0,
            limit_hits=self._limit_hits(below, limited),
        )

    def uses(self, path: str, at: float) -> StallReading | None:
        """Read one pod's use of CPU, memory and disks, without its stalls; None if its cgroup is gone."""
        below = cgroup_layout.below_root(path)
        if self._usage is None:
            return None
        key = files.inode(f"{self._usage.folder}/{below}")
        if key is None:
            return None
        return StallReading(
            key=key,
            at=at,
            usage_us=self._usage.parse(content_below(self._usage.folder, below, self._usage.name)),
            memory_bytes=counters.whole(content_below(self._layout.memory, below, self._memory)),
            devices=self._devices(below),
        )

    def stolen_us(self) -> int | None:
        """Read the time that the hypervisor took from all CPUs, µs."""
        return counters.stolen_us(whole(f"{self._proc}/stat"))

    def _held_back_us(self, paths: Iterable[str]) -> int | None:
        """Return the time for which quotas held cgroups back, µs; None if one of them cannot be read."""
        texts = [
            content_below(self._layout.cpu, cgroup_layout.below_root(path), "cpu.stat") for path in paths
        ]
        times = [counters.throttled_us(text) for text in texts]
        known = [us for us in times if us is not None]
        return sum(known) if len(known) == len(times) else None

    def _limit_hits(self, below: str, limited: Iterable[str]) -> int | None:
        """Return how often the pod or a cgroup below it reached its own memory limit; None if it cannot be read.

        On v2 the pod's file counts all cgroups below it, and no cgroup above it. On v1 each cgroup counts its own hits.
        """
        if self._layout.version == 2:
            events = counters.flat(content_below(self._layout.memory, below, "memory.events"))
            return events[b"max"] + events.get(b"high", 0) if b"max" in events else None
        places = [cgroup_layout.below_root(path) for path in limited]
        counts = [
            counters.whole(content_below(self._layout.memory, place, "memory.failcnt")) for place in places
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _devices(self, below: str) -> Mapping[str, IOReading] | None:
        """Return the I/O with everything below; v1 before Linux 4.3 has only the cgroup's own."""
        if self._layout.version == 2:
            return counters.io_by_device(content_below(self._layout.blkio, below, "io.stat"))
        return counters.blkio_by_device(*blkio(self._layout, below))


MOST_OPEN: Final = 512
"""Files of `OpenStalls`, one for each online pod."""


class OpenStalls:
    """Reads the I/O stall of cgroups from files that stay open, in a third of the time."""

    def __init__(self, layout: CgroupLayout) -> None:
        self._root = layout.unified
        self._bank = Descriptors(MOST_OPEN)
        self._files: dict[str, OpenFile] = {}

    def keep(self, paths: Iterable[str]) -> None:
        """Close the files of all other cgroups."""
        for path in self._files.keys() - set(paths):
            self._files.pop(path).close()

    def io_us(self, path: str) -> int | None:
        """Read the time in which a task of a cgroup waited for I/O, µs; None if it cannot be read."""
        file = self._files.get(path) or self._opened(path)
        if file is None:
            return None
        try:
            return counters.some_us(file.read())
        except Vanished:
            self._files.pop(path).close()
            return None

    def _opened(self, path: str) -> OpenFile | None:
        if self._root is None:
            return None
        folder = f"{self._root}/{cgroup_layout.below_root(path)}"
        file = self._bank.open_readable(folder, "io.pressure")
        if file is not None:
            self._files[path] = file
        return file
