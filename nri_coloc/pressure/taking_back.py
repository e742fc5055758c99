"""Decide how much memory is taken back from reclaimed pods in a turn, and in which way; pure.

Available memory of a scope, with the bounds of `shortage`:

    enough ────────────────────────  none
              cold: each pod gives 1 % of its memory, page cache first, less while it waits for memory
    least  ────────────────────────
              urgent: the missing amount at once, the largest pod first, until `enough`

Page cache of reclaimed pods counts as available, and is taken first nevertheless: when an online pod needs memory, the
kernel takes page cache of all pods alike. `memory.reclaim` sets no limit: a pod may use more again at once, so there is
nothing to undo.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.readings import MemoryLeft
from nri_coloc.pressure.shortage import Bounds

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
    """

    held: int
    cache: int = 0
    kept: int = 0
    stall: float | None = None

    @property
    def spare(self) -> int:
        """Return the bytes that may be taken, ≥ 0."""
        return max(0, self.held - max(self.kept, LEAST))


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
    wanted = _urgent(pods, swap) if found.regime is Regime.URGENT else _cold(pods, swap)
    return tuple(_within(found.missing, wanted))


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
    """Yield all that each pod can give: its page cache, and as much other memory as swap can hold."""
    for pod_id, pod in sorted(pods.items(), key=lambda one: -one[1].spare):
        cache = min(pod.spare, max(0, pod.cache))
        swapped = min(pod.spare - cache, max(0, swap))
        swap -= swapped
        yield Take(pod_id, cache + swapped)


def _within(missing: int, wanted: Iterable[Take]) -> Iterator[Take]:
    """Yield the largest takes as far as they are needed, in whole batches."""
    for take in sorted(wanted, key=lambda one: -one.amount):
        amount = min(take.amount, missing) // _BATCH * _BATCH
        if amount > 0:
            missing -= amount
            yield take._replace(amount=amount)
