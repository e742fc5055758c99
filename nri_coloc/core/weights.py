"""Numbers as the kernel's files want them. Pure conversions, each with its source.

`io_weight` is the one scale of the annotations, 1–10000 with 100 as the kernel's default; bfq and the old blkio
controller have scales of their own.
"""

from bisect import bisect_left, bisect_right
from functools import lru_cache
from math import ceil, log2
from typing import Final

from nri_coloc.core.knobs import MAX_SHARES, MIN_SHARES

MIN_WEIGHT: Final = 1
MAX_IO_WEIGHT: Final = 10_000
MAX_CPU_WEIGHT: Final = 10_000
MAX_BFQ_WEIGHT: Final = 1000
BLKIO_WEIGHTS: Final = (10, 1000)
"""The range of v1's blkio.weight (Documentation/admin-guide/cgroup-v1/blkio-controller)."""


def bfq_weight(io_weight: int) -> int:
    """Map 1–10000 to bfq's 1–1000: up to 100 unchanged, above it compressed and rounded down."""
    if io_weight <= 100:
        return io_weight
    return 100 + (io_weight - 100) * 900 // 9900


def blkio_weight(io_weight: int) -> int:
    """Map to v1's blkio.weight: bfq's number within its narrower range."""
    low, high = BLKIO_WEIGHTS
    return min(max(bfq_weight(io_weight), low), high)


def cpu_weight(shares: int) -> int:
    """Map cgroup v1 shares (2–262144) to v2's cpu.weight (1–10000), as runc and the kubelet do.

    Source: opencontainers/cgroups ConvertCPUSharesToCgroupV2Value, the linear curve. Newer versions bend
    it; what is read back after a runtime's own write may differ for values between the ends.
    """
    shares = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (shares - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def io_weight(bfq: int) -> int:
    """Map bfq's weight (1–1000) back to the least io_weight of which `bfq_weight` makes it."""
    if bfq <= 100:
        return bfq
    return 100 - (bfq - 100) * 9900 // -900


def shares_of(weight: int) -> int:
    """Map v2's cpu.weight (1–10000) back to the least shares of which `cpu_weight` makes it."""
    above = min(max(weight, MIN_WEIGHT), MAX_CPU_WEIGHT) - MIN_WEIGHT
    return MIN_SHARES + -(-above * (MAX_SHARES - MIN_SHARES) // 9999)


def bent_cpu_weight(shares: int) -> int:
    """Map shares to cpu.weight as opencontainers/cgroups does from 0.0.5 and runc from 1.3.2 on.

    Source: their ConvertCPUSharesToCgroupV2Value, a curve through (2, 1), (1024, 100) and (262144, 10000).
    """
    if shares <= MIN_SHARES:
        return MIN_WEIGHT
    if shares >= MAX_SHARES:
        return MAX_CPU_WEIGHT
    doublings = log2(shares)
    return ceil(10 ** ((doublings * doublings + 125 * doublings) / 612 - 7 / 34))


@lru_cache(maxsize=1024)
def shares_behind(weight: int) -> tuple[int, int]:
    """Return the least and the most shares of one weight, by the mapping that takes more of the two.

    The mappings are `cpu_weight` and `bent_cpu_weight`.
    """
    known = range(MIN_SHARES, MAX_SHARES + 1)
    weight = min(max(weight, MIN_WEIGHT), MAX_CPU_WEIGHT)
    ends = [
        (bisect_right(known, weight, key=mapping) - 1, mapping) for mapping in (cpu_weight, bent_cpu_weight)
    ]
    last, mapping = max(ends, key=lambda end: end[0])
    return known[min(last, bisect_left(known, weight, key=mapping))], known[last]
