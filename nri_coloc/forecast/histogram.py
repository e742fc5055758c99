"""Count how often a workload used each amount: buckets that widen with the amount, in which old samples fade.

The shape is the Vertical Pod Autoscaler's and Koordinator's: bucket k of a scale begins at first · (ratio^k − 1) /
(ratio − 1), so that every answer is at most one bucket, here 5 %, above the truth and never below it. A sample weighs
half of a sample that is one half-life younger.

There is no reference time: a histogram knows how many half-lives it has aged, and one gap ages it by at most two. So
neither a clock that jumps nor days of being switched off erase a histogram, and a clock set back ages nothing. (A
workload unseen for `forecast.forget_s` by that clock is dropped as a whole, in `expectations`.) Values are never
changed in place, although arrays could be: `added` returns a new one.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

_MOST_AGEING: Final = 2.0
"""Half-lives that one gap counts for at most."""

_RESCALED_AT: Final = 24.0
"""Half-lives after which all weights are scaled back: a 32-bit float still holds 2^24 beside 1."""

_NOTHING: Final = 1e-6
"""A weight after 20 half-lives: a smaller one is dropped (the autoscaler's epsilon is of this order too)."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The lower edges of the buckets, rising from 0; the last bucket has no upper end."""

    edges: tuple[int, ...]

    def bucket(self, amount: int) -> int:
        """Return the bucket of an amount (≥ 0)."""
        return bisect_right(self.edges, max(amount, 0)) - 1

    def most_of(self, bucket: int) -> int:
        """Return the most that an amount in this bucket can be; of the last one, its lower edge."""
        return self.edges[bucket + 1] if bucket + 1 < len(self.edges) else self.edges[-1]


def exponential(first: int, ratio: float, most: int) -> Scale:
    """Return the scale whose first bucket is `first` wide, each next one `ratio` (> 1) times wider, up to `most`."""
    edges, width = [0], float(first)
    while edges[-1] < most:
        edges.append(edges[-1] + round(width))
        width *= ratio
    return Scale(tuple(edges))


CPU_MILLI: Final = exponential(25, 1.05, 1_024_000)
"""0.025 cores first, up to 1024 (Koordinator's koordlet, peak prediction)."""

MEMORY_BYTES: Final = exponential(5 << 20, 1.05, 2 << 40)
"""5 MiB first, up to 2 TiB (ditto)."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Weights by bucket.

    weights: one for each bucket of the scale.
    age: half-lives; the next sample weighs 2 to this power.
    last_s: time of the last sample, seconds of any clock that continues over restarts.
    """

    weights: "array[float]"
    age: float = 0.0
    last_s: float | None = None

    @property
    def total(self) -> float:
        """Return the sum of the weights; 0.0 for an empty histogram."""
        return sum(self.weights)


def empty(scale: Scale) -> Histogram:
    """Return a histogram without samples."""
    return Histogram(array("f", bytes(4 * len(scale.edges))))


def of(scale: Scale, weights: Iterable[tuple[int, float]], last_s: float) -> Histogram:
    """Return a histogram of known weights by bucket, as a checkpoint holds them."""
    made = array("f", bytes(4 * len(scale.edges)))
    for bucket, weight in weights:
        made[bucket] = weight
    return Histogram(made, 0.0, last_s)


def added(histogram: Histogram, bucket: int, now_s: float, half_life_s: float) -> Histogram:
    """Return the histogram with one more sample."""
    gap_s = 0.0 if histogram.last_s is None else max(0.0, now_s - histogram.last_s)
    age = histogram.age + min(gap_s / half_life_s, _MOST_AGEING)
    weights = array("f", histogram.weights)
    if age > _RESCALED_AT:
        weights, age = faded(histogram, age), 0.0
    weights[bucket] += 2.0**age
    return Histogram(weights, age, now_s)


def faded(histogram: Histogram, age: float) -> "array[float]":
    """Return the weights as seen from an age, in half-lives: a sample of that moment weighs 1."""
    factor = 2.0**-age
    return array("f", (w * factor if w * factor >= _NOTHING else 0.0 for w in histogram.weights))


def percentile(histogram: Histogram, scale: Scale, part: float) -> int | None:
    """Return the amount that covers `part` (0 to 1) of the weight, rounded up to its bucket's end.

    None for an empty histogram. 1.0 is the highest amount that has not faded away.
    """
    sums = list(accumulate(histogram.weights))
    if not sums[-1]:
        return None
    lowest_used = bisect_right(sums, 0.0)
    return scale.most_of(max(lowest_used, bisect_left(sums, min(part, 1.0) * sums[-1])))
