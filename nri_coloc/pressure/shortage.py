"""Find out from readings whether memory is so short that reclaimed pods must end; pure.

A scope is the node, kubepods (below its own limit), or one NUMA node to which an online pod is bound. Page cache is
never a shortage, because it counts as available.

    enough ─────────────────────────  a shortage ends
    least  ─── half of it ──────────  a shortage begins, after `up` readings

                enough
    node        total · (1 − memoryWatermark), 400 MiB at least
    NUMA node   the same part of its own memory, 128 MiB at least
    kubepods    2 % of its limit, 400 MiB at least

Lending keeps `enough` of the node available: it lowers the limits of the reclaim cgroups, which takes page cache back.
Only memory that no limit takes back can make the node fall to `least`. It keeps no margin below the limit of kubepods,
so the bounds there are near the point at which the kernel kills. A reading that rises by a tenth of the missing
amount does not count: the memory comes back.
"""

from typing import Final, NamedTuple

from nri_coloc.core.readings import MemoryLeft

LEAST_BYTES: Final = 200 << 20
"""Twice the kubelet's own `memory.available<100Mi`, so that reclaimed pods go before the kubelet chooses a pod.

The kubelet compares it with the node's memory, and with the memory below the limit of kubepods
(pkg/kubelet/eviction/helpers.go, addAllocatableThresholds).
"""

_LEAST_OF_NUMA_NODE: Final = 64 << 20

_COMES_BACK: Final = 0.1
"""Part of the missing amount by which a reading must rise to count as a recovery."""


class Bounds(NamedTuple):
    """Available memory, bytes: below `least` a shortage begins, at `enough` it ends."""

    least: int
    enough: int


class Course(NamedTuple):
    """One scope over time.

    readings: readings in a row in which memory was short and did not come back.
    is_short: whether there is a shortage.
    comes_back: whether the last reading was a recovery.
    available: last reading, bytes; None before the first one.
    """

    readings: int = 0
    is_short: bool = False
    comes_back: bool = False
    available: int | None = None


NO_COURSE: Final = Course()


def of_node(total: int, watermark: float) -> Bounds:
    """Return the bounds of a node with so much memory. `watermark`: `reclaim.memoryWatermark`, 0 to 1."""
    return _from(max(2 * LEAST_BYTES, total - int(total * watermark)))


def of_numa_node(total: int, watermark: float) -> Bounds:
    """Return the bounds of a NUMA node with so much memory."""
    return _from(max(2 * _LEAST_OF_NUMA_NODE, total - int(total * watermark)))


def of_limit(limit: int) -> Bounds:
    """Return the bounds of kubepods with such a limit, bytes."""
    return _from(max(2 * LEAST_BYTES, limit // 50))


def _from(enough: int) -> Bounds:
    return Bounds(enough // 2, enough)


def followed(course: Course, left: MemoryLeft | None, known: Bounds, up: int) -> Course:
    """Return the course after one more reading; an unknown reading neither begins nor ends a shortage.

    up: readings after which a shortage begins.
    """
    if left is None:
        return course._replace(readings=0, comes_back=False)
    if left.available >= known.enough:
        return Course(available=left.available)
    if not course.is_short and left.available >= known.least:
        return Course(available=left.available)
    lack = known.enough - left.available
    comes_back = course.available is not None and left.available - course.available >= lack * _COMES_BACK
    readings = course.readings + (0 if comes_back else 1)
    return Course(readings, course.is_short or readings >= up, comes_back, left.available)


def missing(course: Course, known: Bounds) -> int:
    """Return the bytes that are missing; 0 without a shortage, and while it comes back."""
    if not course.is_short or course.comes_back or course.available is None:
        return 0
    return max(0, known.enough - course.available)
