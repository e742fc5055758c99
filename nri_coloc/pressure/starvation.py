"""Find reclaimed pods that wait for CPU for minutes, from snapshots about a minute apart; pure.

A pod is without CPU between two snapshots if a task waited for at least half of the time, and the pod used less than a
twentieth of its lent CPU (10 milli-CPU if it was lent none). A pod that does not wait lacks nothing.

    starved     without CPU for 180 s; again after each further 180 s
    moved away  without CPU for 300 s, so that the pod can run on another node
    suppressed  a task waited for at least half of the time, and less than one CPU could be lent, for 600 s
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

WAITING: Final = 0.5
LEAST_PART: Final = 0.05
LEAST_MILLI: Final = 10
LEAST_HEADROOM_MILLI: Final = 1000
STARVED_S: Final = 180.0
MOVED_S: Final = 300.0
SUPPRESSED_S: Final = 600.0

JITTER_S: Final = 5.0
"""Seconds that a time may lack: three snapshots a minute apart are 180 s, though each may be a little early."""


class Want(NamedTuple):
    """One reclaimed pod between two snapshots.

    waited: part of the time in which a task of a container waited for a CPU, of the container that waited most.
    used_milli, granted_milli: milli-CPU; no grant is 0.
    seconds: time between the snapshots.
    """

    waited: float
    used_milli: int
    granted_milli: int
    seconds: float

    @property
    def is_without_cpu(self) -> bool:
        """Return whether the pod waited and got nearly nothing."""
        least = max(LEAST_MILLI, LEAST_PART * self.granted_milli)
        return self.waited >= WAITING and self.used_milli < least


class Streak(NamedTuple):
    """Seconds for which a pod has been without CPU, or has waited on a node with little to lend.

    is_starved, is_suppressed: whether the pod counts as that with this snapshot, once in `STARVED_S` or `SUPPRESSED_S`.
    """

    starved_s: float = 0.0
    suppressed_s: float = 0.0
    is_starved: bool = False
    is_suppressed: bool = False

    @property
    def is_moved(self) -> bool:
        """Return whether the pod has been without CPU for so long that it is moved away."""
        return _times(self.starved_s, MOVED_S) > 0


def turn(
    known: Mapping[str, Streak], wants: Mapping[str, Want], headroom_milli: int | None
) -> dict[str, Streak]:
    """Return the streaks of all pods after one more snapshot.

    headroom_milli: milli-CPU that may be lent now; None while lending is off, because pods are meant to wait then.
    """
    is_low = headroom_milli is not None and headroom_milli < LEAST_HEADROOM_MILLI
    return {pod_id: _next(known.get(pod_id, Streak()), want, is_low=is_low) for pod_id, want in wants.items()}


def _next(known: Streak, want: Want, *, is_low: bool) -> Streak:
    is_suppressed = is_low and want.waited >= WAITING
    starved_s = known.starved_s + want.seconds if want.is_without_cpu else 0.0
    suppressed_s = known.suppressed_s + want.seconds if is_suppressed else 0.0
    return Streak(
        starved_s,
        suppressed_s,
        is_starved=_times(starved_s, STARVED_S) > _times(known.starved_s, STARVED_S),
        is_suppressed=_times(suppressed_s, SUPPRESSED_S) > _times(known.suppressed_s, SUPPRESSED_S),
    )


def _times(seconds: float, period_s: float) -> int:
    """Return how many whole periods have passed."""
    return int((seconds + JITTER_S) // period_s)
