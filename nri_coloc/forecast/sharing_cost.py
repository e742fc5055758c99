"""Add up by group the cost of sharing between two snapshots: growth of cgroup counters; pure.

Only cgroups in both snapshots, by identity, count. A counter that is missing or went back counts as 0.
"""

from collections.abc import Mapping
from typing import TypeVar

from nri_coloc.core.readings import GroupReading, IOReading, SharingCost

Readings = Mapping[str, GroupReading]
Group = TypeVar("Group")

_NO_IO = IOReading()


def of_containers(before: Readings, after: Readings, groups: Mapping[str, Group]) -> dict[Group, SharingCost]:
    """Return the costs that only containers' own files show, by group. `groups`: the known groups by container id."""
    found: dict[Group, SharingCost] = {}
    for name, first, last in _pairs(before, after, groups):
        grown = SharingCost(
            throttled_us=_grown(first.throttled_us, last.throttled_us),
            waited_us=_grown(first.cpu_wait_us, last.cpu_wait_us),
            oom_kills=_grown(_oom_kills(first), _oom_kills(last)),
        )
        found[groups[name]] = _sum(found.get(groups[name], SharingCost()), grown)
    return found


def of_pods(before: Readings, after: Readings, groups: Mapping[str, Group]) -> dict[Group, SharingCost]:
    """Return the costs that files of pods and host groups show for all below them, by group."""
    found: dict[Group, SharingCost] = {}
    for name, first, last in _pairs(before, after, groups):
        was, now = first.io or last.io or _NO_IO, last.io or first.io or _NO_IO
        grown = SharingCost(
            read_bytes=_grown(was.read_bytes, now.read_bytes),
            written_bytes=_grown(was.written_bytes, now.written_bytes),
            reads=_grown(was.reads, now.reads),
            writes=_grown(was.writes, now.writes),
            memory_stalled_us=_grown(first.memory_stall_us, last.memory_stall_us),
            io_stalled_us=_grown(first.io_stall_us, last.io_stall_us),
            high_events=_grown(_high_events(first), _high_events(last)),
        )
        found[groups[name]] = _sum(found.get(groups[name], SharingCost()), grown)
    return found


def held(now: Readings, groups: Mapping[str, Group]) -> dict[Group, int]:
    """Return the working sets by group, bytes."""
    found: dict[Group, int] = {}
    for name, reading in now.items():
        if name in groups and reading.memory is not None:
            found[groups[name]] = found.get(groups[name], 0) + reading.memory.working_set
    return found


def _pairs(
    before: Readings, after: Readings, groups: Mapping[str, Group]
) -> list[tuple[str, GroupReading, GroupReading]]:
    return [
        (name, before[name], last)
        for name, last in after.items()
        if name in groups and name in before and before[name].key == last.key
    ]


def _grown(before: int | None, after: int | None) -> int:
    return 0 if before is None or after is None else max(0, after - before)


def _sum(one: SharingCost, other: SharingCost) -> SharingCost:
    return SharingCost._make(a + b for a, b in zip(one, other, strict=True))


def _oom_kills(reading: GroupReading) -> int | None:
    return None if reading.memory is None else reading.memory.oom_kills


def _high_events(reading: GroupReading) -> int | None:
    return None if reading.memory is None else reading.memory.high_events
