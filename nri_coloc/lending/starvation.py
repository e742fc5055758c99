"""Find reclaimed pods that wait for CPU for long, from snapshots about a minute apart. Pure.

    starved     3 snapshots in a row: a task waited for at least half of the time, and the pod used less than a
                twentieth of its granted CPU (10 milli-CPU without a grant)
    suppressed  10 snapshots in a row: a task waited for at least half of the time, and less than one CPU could be lent

A pod that does not wait lacks nothing, however little it uses.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

WAITING: Final = 0.5
LEAST_PART: Final = 0.05
LEAST_MILLI: Final = 10
LEAST_HEADROOM_MILLI: Final = 1000
STARVED_AFTER: Final = 3
SUPPRESSED_AFTER: Final = 10


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
    """Snapshots in a row in which a pod was without CPU, or waited on a node with little to lend."""

    starved: int = 0
    starved_s: float = 0.0
    suppressed: int = 0
    suppressed_s: float = 0.0

    @property
    def is_starved(self) -> bool:
        """Return whether the pod counts as starved now; once for each `STARVED_AFTER` snapshots."""
        return self.starved > 0 and self.starved % STARVED_AFTER == 0

    @property
    def is_suppressed(self) -> bool:
        """Return whether the pod counts as suppressed now; once for each `SUPPRESSED_AFTER` snapshots."""
        return self.suppressed > 0 and self.suppressed % SUPPRESSED_AFTER == 0 and not self.is_starved


def turn(
    known: Mapping[str, Streak], wants: Mapping[str, Want], headroom_milli: int | None
) -> dict[str, Streak]:
    """Return the streaks of all pods after one more snapshot.

    headroom_milli: milli-CPU that may be lent now; None while lending is off, because pods are meant to wait then.
    """
    is_low = headroom_milli is not None and headroom_milli < LEAST_HEADROOM_MILLI
    return {pod_id: _next(known.get(pod_id, Streak()), want, is_low=is_low) for pod_id, want in wants.items()}


def _next(known: Streak, want: Want, *, is_low: bool) -> Streak:
    starved, suppressed = want.is_without_cpu, is_low and want.waited >= WAITING
    return Streak(
        starved=known.starved + 1 if starved else 0,
        starved_s=known.starved_s + want.seconds if starved else 0.0,
        suppressed=known.suppressed + 1 if suppressed else 0,
        suppressed_s=known.suppressed_s + want.seconds if suppressed else 0.0,
    )
