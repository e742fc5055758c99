"""Find the reclaimed pods that fill a file system which is short of space or inodes, once a minute.

    shortage begins ──▶ a minute: less is left, and reclaimed pods wrote to its disk ──▶ the largest writers
         ▲                                │ hardly less is left: a new minute                   │
         └────────────────────────────────┴─────────────────────────────────────────────────────┘ one of them has ended

The largest writers stay named until one of them has ended, as much is left as before they wrote, or the shortage is
over: a full disk fills no further.
Only written bytes can be proved of a pod: the space that its files use is unknown without a walk over all files. A pod
that wrote before the shortage and writes no more is not named. Without the number of the disk no pod is.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from nri_coloc.core.readings import StallReading
from nri_coloc.pressure.disk_space import DiskShort, Lack
from nri_coloc.pressure.population import Reclaimed

GOES_ON_S: Final = 60.0
"""Seconds in which less must be left before a pod goes, six readings of the file systems."""

LEAST_BYTES: Final = 64 << 20
"""The least that a pod must have written in this time."""

_OF_LARGEST: Final = 0.5
"""Part of the largest writer's bytes from which a pod is named too."""

LOST_OF_LARGEST: Final = 0.25
"""Part of the largest writer's bytes by which less space must be left: pods that fill no disk write too."""

LOST_INODES: Final = 0.001
"""Part of all inodes by which fewer must be left: at this rate a minute, 1 % lasts ten minutes."""


class UseFiles(Protocol):
    """Reads the use of one pod; returns None if its cgroup is gone."""

    def uses(self, path: str, at: float) -> StallReading | None: ...


class Written(NamedTuple):
    """The bytes that a cgroup wrote to the disk since it was made; `key` tells it from one of the same name."""

    key: int
    bytes: int


class Filled(NamedTuple):
    """A short file system that fills further.

    lost: bytes or inodes by which less is left than at the beginning of the time.
    writers: the bytes that the largest writers wrote in this time, by pod id.
    """

    short: DiskShort
    lost: int
    writers: Mapping[str, float]


class _Begun(NamedTuple):
    """The beginning of a minute."""

    at_s: float
    short: DiskShort
    written: Mapping[str, Written]


class DiskWriters:
    """Belongs to one thread."""

    def __init__(self, files: UseFiles) -> None:
        self._files = files
        self._begun: _Begun | None = None
        self._found: Filled | None = None
        self._ordered: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Forget the present minute, and the writers that were named."""
        self._begun = self._found = None

    def ordered(self, pod_id: str) -> None:
        """Note that a pod's eviction was ordered for a disk: no other pod is named until it has left."""
        self._ordered |= {pod_id}

    def follow(
        self,
        shortages: Iterable[DiskShort],
        pods: Mapping[str, Reclaimed],
        leaving: Collection[str],
        now: float,
    ) -> Filled | None:
        """Return the shortage that goes on, and the writers to choose from; None if no pod is to be evicted now.

        leaving: pods that leave already. The space of a writer among them is not free yet, so no other pod is named.
        """
        self._ordered &= pods.keys()
        short = next((one for one in shortages if one.left.disk), None)
        if self._found is not None and (short is None or not _holds(self._found, short, pods)):
            self.forget()
        if short is None or not self._ordered.isdisjoint(leaving):
            self._begun = None
            return None
        if self._is_over(short, now):
            self._measure(short, pods, now)
        found = self._found
        return found if found is not None and found.writers.keys().isdisjoint(leaving) else None

    def _is_over(self, short: DiskShort, now: float) -> bool:
        """Return whether to measure now: the present minute is over, or none has begun for this file system."""
        begun = self._begun
        if begun is None or begun.short.file_system is not short.file_system:
            return True
        return now - begun.at_s >= GOES_ON_S

    def _measure(self, short: DiskShort, pods: Mapping[str, Reclaimed], now: float) -> None:
        """End the present minute, and begin the next one."""
        begun, written = self._begun, self._written(short, pods, now)
        self._begun = _Begun(now, short, written)
        found = None if begun is None else filled(begun.short, short, begun.written, written)
        self._found = found or self._found

    def _written(self, short: DiskShort, pods: Mapping[str, Reclaimed], now: float) -> dict[str, Written]:
        readings = ((pod_id, self._files.uses(one.path, now)) for pod_id, one in pods.items())
        return {
            pod_id: Written(found.key, moved.written_bytes)
            for pod_id, found in readings
            if found is not None and (moved := (found.devices or {}).get(short.left.disk)) is not None
        }


def _holds(found: Filled, short: DiskShort, pods: Mapping[str, Reclaimed]) -> bool:
    """Return whether the same resource is short, less is left than before its writers wrote, and none has ended."""
    if found.short[:2] != short[:2] or short.amount_left >= found.short.amount_left + found.lost:
        return False
    return found.writers.keys() <= pods.keys()


def filled(
    before: DiskShort, now: DiskShort, first: Mapping[str, Written], last: Mapping[str, Written]
) -> Filled | None:
    """Return the writers between two readings of one shortage; None if hardly less is left, or no pod wrote much."""
    lost = before.amount_left - now.amount_left if before[:2] == now[:2] else 0
    risen = {pod_id: _risen(first.get(pod_id), one) for pod_id, one in last.items()}
    largest = max(risen.values(), default=0)
    if largest < LEAST_BYTES or lost < _least_lost(now, largest):
        return None
    return Filled(now, lost, {k: float(one) for k, one in risen.items() if one >= largest * _OF_LARGEST})


def _least_lost(short: DiskShort, largest: int) -> float:
    """Return the bytes or inodes by which less must be left; `largest`: the bytes of the largest writer."""
    if short.lack is Lack.INODES:
        return max(1.0, LOST_INODES * short.left.inodes)
    return LOST_OF_LARGEST * largest


def _risen(first: Written | None, last: Written) -> int:
    """Return the bytes written in between; a pod that was not there before wrote all of its bytes."""
    return last.bytes if first is None or first.key != last.key else max(0, last.bytes - first.bytes)
