"""Find reclaimed pods that were granted CPU and get none for minutes, so that they can run on another node; pure.

A pod starves in an interval if it waits nearly all the time and has less than a tenth of the CPU that it was lent. Time
for which its own quota held it back does not count. A pod that was lent no amount starves below 10 milli-CPU.
"""

from typing import Final, NamedTuple

from nri_coloc.core.readings import StallReading, risen

STARVED_S: Final = 180.0
"""Seconds of starvation after which a pod is moved away."""

LONGEST_GAP_S: Final = 90.0
"""Seconds between two readings beyond which nothing is known of the time between."""

_WAITS: Final = 0.9
_PART: Final = 0.1
_LEAST_MILLI: Final = 10.0


class Hunger(NamedTuple):
    """One reclaimed pod.

    last: its last reading.
    since_s: start of its starvation, None while it does not starve.
    milli: its last use, milli-CPU.
    """

    last: StallReading | None = None
    since_s: float | None = None
    milli: float = 0.0


NO_HUNGER: Final = Hunger()


def followed(before: Hunger, reading: StallReading | None, lent_milli: float) -> Hunger:
    """Return the pod's state after a reading; an unknown or interrupted one forgets the earlier ones.

    lent_milli: CPU that it was lent, milli-CPU; 0 for none.
    """
    last = before.last
    if reading is None or last is None or last.key != reading.key:
        return Hunger(reading)
    span = reading.at - last.at
    used, waited, held = (
        risen(last.usage_us, reading.usage_us),
        risen(last.cpu_us, reading.cpu_us),
        risen(last.throttled_us, reading.throttled_us),
    )
    if not 0.0 < span <= LONGEST_GAP_S or used is None or waited is None or held is None:
        return Hunger(reading)
    milli = used / span / 1000
    starves = (waited - held) / span / 1e6 >= _WAITS and milli < max(_LEAST_MILLI, lent_milli * _PART)
    if not starves:
        return Hunger(reading, milli=milli)
    return Hunger(reading, last.at if before.since_s is None else before.since_s, milli)


def is_starved(hunger: Hunger) -> bool:
    """Return whether the pod has starved for so long that it is moved away."""
    return (
        hunger.since_s is not None
        and hunger.last is not None
        and hunger.last.at - hunger.since_s >= STARVED_S
    )
