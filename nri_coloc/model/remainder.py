"""What is left of counters when others are taken off: of the node's CPU time its pods', of a class's that of some.

Counters of the kernel only rise, until one begins anew: on cgroup v1 whoever writes 0 into a cgroup's cpuacct.usage
sets it back (kernel/sched/cpuacct.c, cpuusage_write), and a CPU that leaves takes its part of /proc/stat along. Nobody
can tell what was used in that interval: it is not known, and never nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Remainder(NamedTuple):
    """`counters`: as they were last read. `left`: the most that was left of them so far, which is told; `shift`: what
    has to be added to the present difference so that it goes on from there."""

    counters: tuple[int, ...]
    left: int
    shift: int = 0


def risen(before: int | None, after: int | None) -> int | None:
    """Return how far a counter rose; None where it could not be read, or began anew."""
    return None if before is None or after is None or after < before else after - before


def read(
    known: Remainder | None, added: Sequence[int | None], taken: Sequence[int | None]
) -> tuple[Remainder | None, int | None]:
    """Return what is left as a counter that never falls; None where it is not known, or not how far it rose.

    The difference itself falls for a moment: time passes between two reads, and the root's counter on v2 is made of
    clock ticks. It may be negative too, where one of those added began anew before anybody looked.
    """
    plus = [counter for counter in added if counter is not None]
    minus = [counter for counter in taken if counter is not None]
    if len(plus) + len(minus) < len(added) + len(taken):
        return known, None
    counters, difference = (*plus, *minus), sum(plus) - sum(minus)
    if known is None:
        first = max(0, difference)
        return Remainder(counters, first, first - difference), first
    if any(risen(*pair) is None for pair in zip(known.counters, counters, strict=True)):
        return Remainder(counters, known.left, known.left - difference), None
    now = known._replace(counters=counters, left=max(known.left, difference + known.shift))
    return now, now.left
