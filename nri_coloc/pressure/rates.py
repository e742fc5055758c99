"""Make strains and rates of two readings of one pod.

An I/O operation counts as much as 16 KiB beside its bytes: a disk that serves small requests is busy with few bytes.
Memory is the growth of the pod's memory and the bytes that it reads and writes, because page cache that replaces page
cache is no growth. A reading that is missing, of another cgroup, or of a counter that was reset makes an unknown rate.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nri_coloc.core.readings import IOReading, StallReading, risen
from nri_coloc.pressure.verdict import RESOLUTION_S, Resource, Strain

OPERATION_BYTES: Final = 16 << 10

SHORTEST_S: Final = 0.2
LONGEST_S: Final = 30.0
"""Seconds between two readings that make a rate."""

_FULL: Final = 0.95
"""Part of a pod's own memory limit from which its memory stall is self-inflicted."""


class Rates(NamedTuple):
    """One pod's use in one interval, None if unknown.

    cpu: milli-CPU.
    memory: bytes a second of growth and of I/O.
    io: bytes a second by device, with the worth of the operations.
    operations: I/O operations a second by device.
    moved: bytes a second by device, read or written, whichever is more.
    """

    cpu: float | None = None
    memory: float | None = None
    io: Mapping[str, float] | None = None
    operations: Mapping[str, float] | None = None
    moved: Mapping[str, float] | None = None

    def use(self, resource: Resource, devices: frozenset[str]) -> float | None:
        """Return the use of one resource; for I/O of these devices."""
        if resource is Resource.CPU:
            return self.cpu
        if resource is Resource.MEMORY:
            return self.memory
        return None if self.io is None else sum(self.io.get(device, 0.0) for device in devices)

    def fastest(self, devices: Iterable[str]) -> float:
        """Return the bytes a second that the busiest of some devices read or wrote, 0 if unknown."""
        return max(((self.moved or {}).get(device, 0.0) for device in devices), default=0.0)


UNUSED: Final = Rates(0.0, 0.0, io={}, operations={}, moved={})
"""The use of a pod before it was there."""


def span_s(before: StallReading | None, after: StallReading) -> float | None:
    """Return the seconds between two readings of one cgroup, None if they make no rate."""
    if before is None or before.key != after.key:
        return None
    span = after.at - before.at
    return span if SHORTEST_S <= span <= LONGEST_S else None


def rates(before: StallReading | None, after: StallReading) -> Rates:
    """Return a pod's use between two readings."""
    span = span_s(before, after)
    if before is None or span is None:
        return Rates()
    used = risen(before.usage_us, after.usage_us)
    cpu = None if used is None else used / span / 1000
    risen_io = _risen_by_device(before.devices, after.devices)
    if risen_io is None:
        return Rates(cpu)
    return Rates(
        cpu,
        _memory(before, after, risen_io.values(), span),
        io={device: _cost(one) / span for device, one in risen_io.items()},
        operations={device: (one.reads + one.writes) / span for device, one in risen_io.items()},
        moved={device: max(one.read_bytes, one.written_bytes) / span for device, one in risen_io.items()},
    )


def _memory(
    before: StallReading, after: StallReading, risen_io: Iterable[IOReading], span: float
) -> float | None:
    if before.memory_bytes is None or after.memory_bytes is None:
        return None
    passed = sum(one.read_bytes + one.written_bytes for one in risen_io)
    return (max(0, after.memory_bytes - before.memory_bytes) + passed) / span


def strains(
    before: StallReading | None, after: StallReading, found: Rates, stolen: float | None
) -> Mapping[Resource, Strain | None]:
    """Return a pod's wait for each resource; None is unknown.

    stolen: share of the time that the hypervisor took.
    """
    span = span_s(before, after)
    if before is None or span is None:
        return dict.fromkeys(Resource)
    strained = {
        Resource.CPU: _of_cpu(before, after, span, found, stolen),
        Resource.MEMORY: _of_memory(before, after, span),
        Resource.IO: _of_io(before, after, span, found),
    }
    resolution, cpu = RESOLUTION_S / span, found.cpu or 0.0
    return {k: one and one._replace(resolution=resolution, cpu=cpu) for k, one in strained.items()}


def _of_cpu(
    before: StallReading, after: StallReading, span: float, found: Rates, stolen: float | None
) -> Strain | None:
    stalled, held = risen(before.cpu_us, after.cpu_us), risen(before.throttled_us, after.throttled_us)
    if stalled is None or held is None or found.cpu is None or stolen is None:
        return None
    waited, own = _share(stalled, span), _share(held, span)
    return Strain(max(0.0, waited - own - stolen), own=min(waited, own), stolen=stolen)


def _of_memory(before: StallReading, after: StallReading, span: float) -> Strain | None:
    """Return the wait for memory. While a limit of the pod's own is reached, all of it counts as the pod's own.

    The kernel counts hits of limits, and not the time that each took.
    """
    stalled, hits = risen(before.memory_us, after.memory_us), risen(before.limit_hits, after.limit_hits)
    limit = after.limit_bytes
    if stalled is None or hits is None or after.memory_bytes is None or limit is None:
        return None
    waited = _share(stalled, span)
    is_full = 0 < limit * _FULL <= after.memory_bytes
    return Strain(0.0, own=waited) if is_full or hits else Strain(waited)


def _of_io(before: StallReading, after: StallReading, span: float, found: Rates) -> Strain | None:
    stalled = risen(before.io_us, after.io_us)
    if stalled is None or found.operations is None:
        return None
    operations, cost = sum(found.operations.values()), sum((found.io or {}).values())
    size = max(0.0, round(cost / operations - OPERATION_BYTES)) if operations else 0.0
    return Strain(_share(stalled, span), operations, size=size)


def _share(us: int, span: float) -> float:
    return min(1.0, us / span / 1e6)


def _cost(moved: IOReading) -> float:
    return moved.read_bytes + moved.written_bytes + OPERATION_BYTES * (moved.reads + moved.writes)


def _risen_by_device(
    before: Mapping[str, IOReading] | None, after: Mapping[str, IOReading] | None
) -> Mapping[str, IOReading] | None:
    """Return the rise of each device's counters; a device without a former line had 0. None if one was reset."""
    if before is None or after is None:
        return None
    found = {}
    for device, now in after.items():
        pairs = zip(before.get(device, IOReading()), now, strict=True)
        rises = [risen(*pair) for pair in pairs]
        known = [rise for rise in rises if rise is not None]
        if len(known) < len(rises):
            return None
        found[device] = IOReading(*known)
    return found
