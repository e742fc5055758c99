"""Find out from readings whether memory is so short that reclaimed pods must end; pure.

A scope is the node, kubepods (below its own limit), or one NUMA node to which an online pod is bound. Page cache is
never a shortage, because it counts as available. A shortage begins below `least`, after `up` readings, and ends at
`enough` (`core.memory_margin`).

Lending leaves `enough` on the node and below the limit of kubepods: it lowers the limits of the reclaim cgroups, which
takes page cache back. Only memory that no limit takes back can make a scope fall to `least`. A reading that rises by a
tenth of the missing amount does not count: the memory comes back.
"""

from typing import Final, NamedTuple

from nri_coloc.core.memory_margin import Bounds
from nri_coloc.core.readings import MemoryLeft

_COMES_BACK: Final = 0.1
"""Part of the missing amount by which a reading must rise to count as a recovery."""


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
