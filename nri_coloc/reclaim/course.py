"""What a figure has been for long: the value that is reckoned with, until another has lasted.

A figure lasts on one side: what it was above, or below, the settled value all the time. So what is taken over after the
dwell is the value of it nearest to the settled one: no more than the whole dwell has shown, and nothing that a moment
at its end shows. (Koordinator compares the node's resources with those it told last, at the end of such a time:
slo-controller, updateTimeThresholdSeconds and resourceDiffThreshold.)
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Course:
    """`settled`: None before any value has lasted. `since_s`: how long another one lasts, `nearest` of those since."""

    settled: int | None = None
    since_s: float | None = None
    nearest: int = 0


UNKNOWN: Final = Course()


def follow(course: Course, now: int, now_s: float, dead_band: float, dwell_s: float) -> Course:
    """Return the course with one more value; differences within the part `dead_band` of the settled value are none.

    The first value that is settled is the highest of its dwell. A clock that was set back begins the dwell anew.
    """
    settled, since_s = course.settled, course.since_s
    if settled is not None and abs(now - settled) <= dead_band * settled:
        return Course(settled)
    is_above = settled is not None and now > settled
    was_above = settled is not None and course.nearest > settled
    if since_s is None or now_s < since_s or is_above is not was_above:
        return Course(settled, now_s, now)
    nearest = min(course.nearest, now) if is_above else max(course.nearest, now)
    return Course(nearest) if now_s - since_s >= dwell_s else Course(settled, since_s, nearest)
