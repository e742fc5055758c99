"""Snapshots and online pods in a few words."""

from typing import Any

from nri_coloc.core.readings import GroupReading, MemoryReading, NodeReading, Picture

GIB, MIB = 1 << 30, 1 << 20


def group(
    key: int, at: float, milli: int | None = 0, memory: int | None = None, **parts: Any
) -> GroupReading:
    """Return the reading of a cgroup: milli-CPU since the time 0, and bytes of anonymous working set."""
    usage = None if milli is None else round(milli * at * 1000)
    held = None if memory is None else MemoryReading(memory, anon=memory, working_set=memory)
    return GroupReading(key, at, usage, **{"memory": held, **parts})


def picture(
    at: float, pods: dict[str, GroupReading], kubepods: GroupReading | None = None, **node: Any
) -> Picture:
    """Return a snapshot of one moment; `node` holds fields of the NodeReading."""
    return Picture(at, NodeReading(at, **node), kubepods, pods)
