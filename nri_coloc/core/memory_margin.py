"""How much memory must stay available: on the node, below the limit of kubepods, and on a NUMA node; pure.

Lending leaves it, and evictions begin below it, so that lent memory alone never causes an eviction.

    enough ─────────────────────────  a shortage ends; lending leaves this much
    least  ─── half of it ──────────  a shortage begins

                enough
    node        total · (1 − memoryWatermark), 400 MiB at least
    NUMA node   the same part of its own memory, 128 MiB at least; lending does not know it
    kubepods    2 % of its limit, 400 MiB at least
"""

from typing import Final, NamedTuple

from nri_coloc.core.settings import ReclaimTuning

LEAST_BYTES: Final = 200 << 20
"""Twice the kubelet's own `memory.available<100Mi`, so that reclaimed pods go before the kubelet chooses a pod.

The kubelet compares it with the node's memory, and with the memory below the limit of kubepods
(pkg/kubelet/eviction/helpers.go, addAllocatableThresholds).
"""

_LEAST_OF_NUMA_NODE: Final = 64 << 20


class Bounds(NamedTuple):
    """Available memory, bytes: below `least` a shortage begins, at `enough` it ends."""

    least: int
    enough: int

    def margin(self, step: int) -> int:
        """Return the bytes that lending leaves.

        If the reclaim cgroups use all of their memory.high, `enough` is left. Their hard limits are `step` bytes
        higher: if they use all of these, `least` is left.
        """
        return max(self.enough, self.least + step)


def of_node(total: int, watermark: float) -> Bounds:
    """Return the bounds of a node with `total` bytes. `watermark`: `reclaim.memoryWatermark`, 0 to 1."""
    return _from(max(2 * LEAST_BYTES, total - int(total * watermark)))


def of_numa_node(total: int, watermark: float) -> Bounds:
    """Return the bounds of a NUMA node with `total` bytes."""
    return _from(max(2 * _LEAST_OF_NUMA_NODE, total - int(total * watermark)))


def of_limit(limit: int) -> Bounds:
    """Return the bounds of kubepods with such a limit, bytes."""
    return _from(max(2 * LEAST_BYTES, limit // 50))


def left_on_node(total: int, tuning: ReclaimTuning) -> int:
    """Return the bytes of a node with `total` bytes that lending leaves."""
    return of_node(total, tuning.memory_watermark).margin(tuning.memory_step)


def left_below(limit: int, tuning: ReclaimTuning) -> int:
    """Return the bytes below such a limit of kubepods that lending leaves."""
    return of_limit(limit).margin(tuning.memory_step)


def _from(enough: int) -> Bounds:
    return Bounds(enough // 2, enough)
