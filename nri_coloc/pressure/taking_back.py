"""Decide how much memory is taken back from reclaimed pods in a turn, and in which way; pure.

Available memory of a scope, with the bounds of `core.memory_margin`:

    enough ────────────────────────  none
              cold: each pod gives 1 % of its memory, page cache first, less while it waits for memory;
              nothing while an online pod waits for I/O, because pages are read and written on its disks
    least  ────────────────────────
              urgent: the missing amount at once, until `enough`: first the memory that pods hold beyond
              their loans, the largest excess first; then other memory, the largest pod first

Page cache of reclaimed pods counts as available, and is taken first nevertheless: when an online pod needs memory, the
kernel takes page cache of all pods alike. `memory.reclaim` sets no limit: a pod may use more again at once, so there is
nothing to undo.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.memory_margin import Bounds
from nri_coloc.core.readings import MemoryLeft
from nri_coloc.pressure.verdict import Resource

STEP: Final = 0.01
"""Part of a pod's memory that a cold step takes from a pod that does not wait."""

MOST_STALL: Final = 0.1
"""Part of the last ten seconds, 0 to 1, in which a pod may wait for memory; a cold step falls to 0 there."""

LEAST: Final = 16 << 20
"""Bytes that every pod keeps: with less not even a runtime's own processes live."""

_BATCH: Final = 32 * 4096
"""Bytes; the kernel reclaims no fewer pages at once (SWAP_CLUSTER_MAX)."""


class Regime(StrEnum):
    """The way in which memory is taken back."""

    NONE = "none"
    COLD = "cold"
    URGENT = "urgent"


class Source(NamedTuple):
    """One reclaimed pod, bytes.

    held: all of its memory.
    cache: page cache that can go back to a file.
    kept: its memory.min or memory.low, whichever is more.
    stall: part of the last ten seconds in which it waited for memory, 0 to 1; None if unknown.
    lent: the memory that it was lent; 0 for none.
    """

    held: int
    cache: int = 0
    kept: int = 0
    stall: float | None = None
    lent: int = 0

    @property
    def spare(self) -> int:
        """Return the bytes that may be taken, ≥ 0."""
        return max(0, self.held - max(self.kept, LEAST))

    @property
    def excess(self) -> int:
        """Return the spare bytes beyond its loan, ≥ 0."""
        return min(self.spare, max(0, self.held - self.lent))


class Take(NamedTuple):
    """The bytes to take from one pod; `only_cache`: none of them may go to swap."""

    pod_id: str
    amount: int
    only_cache: bool = False


class Need(NamedTuple):
    """A scope's need of memory, bytes; `missing` until enough is available, 0 for none."""

    scope: str
    regime: Regime = Regime.NONE
    missing: int = 0
    left: MemoryLeft | None = None
    known: Bounds = Bounds(0, 0)


NO_NEED: Final = Need("node")


def need(before: Regime, scope: str, left: MemoryLeft | None, known: Bounds) -> Need:
    """Return the need of a scope after one more reading; none for an unknown reading.

    before: its last regime.
    """
    if left is None or left.available >= known.enough:
        return Need(scope, left=left, known=known)
    is_urgent = before is Regime.URGENT or left.available < known.least
    regime = Regime.URGENT if is_urgent else Regime.COLD
    return Need(scope, regime, known.enough - left.available, left, known)


def takes(found: Need, pods: Mapping[str, Source], swap: int) -> tuple[Take, ...]:
    """Return the takes of one turn, the largest first; together at most the missing amount.

    swap: free bytes.
    """
    if found.regime is Regime.NONE:
        return ()
    if found.regime is Regime.URGENT:
        return _within(found.missing, _urgent(pods, swap))
    return _within(found.missing, sorted(_cold(pods, swap), key=lambda one: -one.amount))


def pauses(regime: Regime, hurt: Collection[Resource]) -> bool:
    """Return whether a step waits for a better time. `hurt`: the resources for which online pods wait."""
    return regime is Regime.COLD and Resource.IO in hurt


def _cold(pods: Mapping[str, Source], swap: int) -> Iterator[Take]:
    """Yield a step of each pod: of its page cache, else of its other memory if there is swap."""
    for pod_id, pod in pods.items():
        if pod.stall is None:
            continue
        calm = max(0.0, 1.0 - pod.stall / MOST_STALL)
        step = min(int(pod.held * STEP * calm), pod.spare)
        if pod.cache >= step:
            yield Take(pod_id, step, only_cache=True)
        elif swap >= step:
            swap -= step
            yield Take(pod_id, step)


def _urgent(pods: Mapping[str, Source], swap: int) -> Iterator[Take]:
    """Yield the excess of each pod, then the rest: page cache, and as much other memory as swap can hold."""
    taken = dict.fromkeys(pods, 0)
    for part in (_excess, _spare):
        for pod_id, pod in sorted(pods.items(), key=lambda one: -part(one[1])):
            wanted = part(pod) - taken[pod_id]
            cache = min(wanted, max(0, pod.cache - taken[pod_id]))
            swapped = min(wanted - cache, max(0, swap))
            swap -= swapped
            taken[pod_id] += cache + swapped
            yield Take(pod_id, cache + swapped)


def _excess(pod: Source) -> int:
    return pod.excess


def _spare(pod: Source) -> int:
    return pod.spare


def _within(missing: int, wanted: Iterable[Take]) -> tuple[Take, ...]:
    """Return the first takes as far as they are needed, in whole batches: one for each pod, the largest first."""
    found: dict[str, Take] = {}
    for take in wanted:
        amount = min(take.amount, missing)
        missing -= amount
        before = found.get(take.pod_id, take._replace(amount=0))
        found[take.pod_id] = take._replace(amount=before.amount + amount)
    whole = (one._replace(amount=one.amount // _BATCH * _BATCH) for one in found.values())
    return tuple(sorted((one for one in whole if one.amount), key=lambda one: -one.amount))
