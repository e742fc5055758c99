"""Measure when online pods wait for a CPU, and whether reclaimed pods can be the cause.

PSI counts every wait of a group: a thread that its own quota holds back on an idle machine shows a stall. So a
group's throttled time is subtracted. A wait counts only if reclaimed tasks may run on the group's CPUs. It counts at
most as long as reclaimed tasks ran, because tasks that did not run delayed nothing. The part that the online pods'
own load explains is subtracted, too: their tasks queue behind one another even on a node of their own. The rest is
self-inflicted and only recorded.

Without PSI, the run-queue delay of a group's busiest tasks is judged in the same way. It counts the wait for a quota
as PSI does, and the formula for the load's part counts waiting tasks as well.
"""

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

from nri_coloc.core.readings import FastReadings, Role, Sample, Signal
from nri_coloc.lending.usage import LONGEST_S, SHORTEST_S


class Gauge(NamedTuple):
    """One online group's last counters and its averaged wait; shares of wall time, 0 to 1.

    at: time of the last sample.
    stalled_us, throttled_us: last counters, µs; None is unknown.
    blamed: the part that reclaimed pods may have caused.
    own: the remaining part.
    lasting: `blamed`, averaged over the longer window.
    signal: source of the wait.
    """

    at: float
    stalled_us: int
    throttled_us: int | None
    blamed: float = 0.0
    own: float = 0.0
    lasting: float = 0.0
    signal: Signal = Signal.PSI


class Cause(NamedTuple):
    """The possible causes of a wait.

    box_milli: the reclaimed pods' use, milli-CPU.
    own: the share of the time that the online pods' own load explains, 0 to 1.
    """

    box_milli: int
    own: float = 0.0


class Stall(NamedTuple):
    """The worst of some online groups; shares of wall time, 0 to 1.

    blamed, own, lasting: as in `Gauge`.
    signal: source of the worst blamed stall.
    """

    blamed: float = 0.0
    own: float = 0.0
    lasting: float = 0.0
    signal: Signal = Signal.PSI


def explained(use_milli: int, cpus: int) -> float:
    """Return the share of the time for which tasks with this use of these CPUs wait for one another, 0 to 1.

    The mean number of waiting tasks in a queue with n servers, a part r of them busy on average: r^sqrt(2(n+1)) / (1
    - r) (Sakasegawa, An approximation formula Lq = a r^b / (1 - r), 1977). nginx alone on two CPUs waited 0.008 to
    0.03, 0.09 to 0.12 and 0.12 to 0.19 of the time at 13, 33 and 40 % of use; the formula says 0.008, 0.10 and 0.18.
    """
    busy = use_milli / (1000 * max(1, cpus))
    return min(1.0, busy ** sqrt(2 * (max(1, cpus) + 1)) / (1 - busy)) if busy < 1 else 1.0


def advance(
    gauges: Mapping[int, Gauge], readings: FastReadings, cause: Cause, windows_s: tuple[float, float]
) -> tuple[dict[int, Gauge], Stall]:
    """Return the gauges after these samples, in the order of their reading, and the worst of the groups just read.

    A group that is read round-robin appears at its own reading. `windows_s`: seconds of the average, and of the
    longer average for lasting stalls.
    """
    after = dict(gauges)
    blamed, own, lasting, signal = Stall()
    for sample in readings.samples:
        if sample.role is not Role.ONLINE:
            continue
        gauge = after.pop(sample.key, None)
        if sample.stalled_us is not None:
            gauge = _read(gauge, sample, sample.stalled_us, cause, windows_s)
            after[sample.key] = gauge
            signal = gauge.signal if gauge.blamed > blamed else signal
            blamed, own = max(blamed, gauge.blamed), max(own, gauge.own)
            lasting = max(lasting, gauge.lasting)
    horizon = readings.at - LONGEST_S
    while after and after[oldest := next(iter(after))].at < horizon:
        del after[oldest]
    return after, Stall(blamed, own, lasting, signal)


def _read(
    gauge: Gauge | None, sample: Sample, stalled_us: int, cause: Cause, windows_s: tuple[float, float]
) -> Gauge:
    at, throttled = sample.at, sample.throttled_us
    if gauge is None or gauge.signal is not sample.signal:
        return Gauge(at, stalled_us, throttled, signal=sample.signal)
    span = at - gauge.at
    if 0 <= span < SHORTEST_S:
        return gauge
    waited = stalled_us - gauge.stalled_us
    held = 0 if throttled is None or gauge.throttled_us is None else throttled - gauge.throttled_us
    if not 0 <= span <= LONGEST_S or waited < 0 or held < 0:
        return gauge._replace(at=at, stalled_us=stalled_us, throttled_us=throttled)
    # run-queue delay is a sum over tasks and can exceed the wall time
    share = min(1.0, max(0, waited - held) / span / 1e6)
    blamed = min(max(0.0, share - cause.own), cause.box_milli / 1000) if sample.shares_box else 0.0
    weight, slow = (span / (span + window_s) for window_s in windows_s)
    own = min(1.0, waited / span / 1e6) - blamed
    return Gauge(
        at=at,
        stalled_us=stalled_us,
        throttled_us=throttled,
        blamed=gauge.blamed + (blamed - gauge.blamed) * weight,
        own=gauge.own + (own - gauge.own) * weight,
        lasting=gauge.lasting + (blamed - gauge.lasting) * slow,
        signal=gauge.signal,
    )


def forgiven(gauges: Mapping[int, Gauge]) -> dict[int, Gauge]:
    """Return the gauges after a suppression: earlier waits are no evidence about the smaller pool."""
    return {key: gauge._replace(blamed=0.0, lasting=0.0) for key, gauge in gauges.items()}
