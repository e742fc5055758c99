"""What the machine as a whole tells: CPU time, memory by node, watermarks."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.readings import NodeReading, NumaMemory
from nri_coloc.sampling import counters, descriptors, memory_files, sources
from nri_coloc.sampling.cgroup_layout import CgroupLayout
from nri_coloc.sampling.cgroup_reading import content
from nri_coloc.sampling.memory_files import NodeMemory


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
        by_tasks = sources.counts_tasks(self._layout)
        busy = counters.busy_us(whole(f"{self._root}/proc/stat"), by_tasks=by_tasks)
        memory = memory_files.meminfo(content(f"{self._root}/proc/meminfo"))
        watermark = memory_files.watermark(whole(f"{self._root}/proc/zoneinfo"), self._page_size)
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

        The first reading tells which, for good: how far one lies above the other is nobody's use.
        """
        root = sources.usage(self._layout, "")
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
        read = {node: memory_files.numa_meminfo(content(f"{folder}/node{node}/meminfo")) for node in nodes}
        return {node: found for node, found in read.items() if found is not None}


def whole(path: str) -> bytes | None:
    """Return one of the machine's own files to its end; None where it is not there, refuses, or does not end.

    One read may bring a part: /proc/zoneinfo is shown node by node, as many as fit into the kernel's buffer of the
    moment (fs/seq_file.c, seq_read_iter). What is missing at its end would look like watermarks that are not there.
    """
    parts: list[bytes] = []
    try:
        with Path(path).open("rb", buffering=0) as file:
            while sum(map(len, parts)) < descriptors.MACHINE_SIZE:
                part = file.read(descriptors.READ_SIZE)
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
