"""Turn counters into rates: the use of online pods, the system and the reclaimed pods, and the stall of online pods.

Each cgroup is compared only with its own last sample, over its own interval, so that many cgroups can be read
round-robin. A doubtful interval gives no rate: the counter went back, it rose faster than the machine can run, or the
clock jumped. A missing rate errs in favour of online pods: added use keeps its last rate, subtracted use loses it.

Pods, system, reclaim cgroups and dedicated containers belong in every tick. On a full machine a burst of online use
leaves the total unchanged, and is seen only by the use that reclaimed pods lose. Round-robin groups respond as slowly
as their round.

PSI counts every wait of a group: a thread that its own quota holds back on an idle machine shows a stall. So a
group's throttled time is subtracted. A wait counts only if reclaimed tasks may run on the group's CPUs. It counts at
most as long as reclaimed tasks ran, because tasks that did not run delayed nothing. The part that the online pods'
own load explains is subtracted, too: their tasks queue behind one another even on a node of their own. The rest is
self-inflicted and only recorded.

Without PSI, the run-queue delay of a group's busiest tasks is judged in the same way. It counts the wait for a quota
as PSI does, and the formula for the load's part counts waiting tasks as well.
"""

from collections.abc import Mapping
from math import inf, sqrt
from typing import NamedTuple

from nri_coloc.core.readings import FastReadings, Role, Sample, Signal

SHORTEST_S = 0.005
"""Seconds. Over less than about one scheduler tick a rate is noise: such a sample waits for the next one."""

LONGEST_S = 10.0
"""Seconds. A rate over more than this is no evidence of the present."""

BUCKETS = 8
"""Buckets of a window. It moves by an eighth of its length and covers at most a quarter more than its length."""

_UNREAD = -1
"""A meter's unknown counter: the next sample starts a new interval."""

_PLACE = {role: place for place, role in enumerate(Role)}
_PODS, _SYSTEM, _BOX = _PLACE[Role.PODS], _PLACE[Role.SYSTEM], _PLACE[Role.BOX]
_DEDICATED, _RESERVED, _ONLINE = _PLACE[Role.DEDICATED], _PLACE[Role.RESERVED], _PLACE[Role.ONLINE]
_HOST = _PLACE[Role.HOST]
_BOXED = frozenset((_BOX, _HOST))
_SUBTRACTED = frozenset((*_BOXED, _DEDICATED, _RESERVED))
_VITAL = frozenset((_PODS, _SYSTEM))


class Meter(NamedTuple):
    """One cgroup's last sample and last rate.

    role, place: role of the samples, and its number.
    at, usage_us: time and counter of the last sample.
    milli: the last rate, milli-CPU.
    until: end of the rate's validity; -inf for no rate. Rates of pods and system have an age instead.
    rated_at: end of the rate's interval.
    span_s: length of the rate's interval.
    tier: for members of a tier, its name.
    """

    role: Role
    place: int
    at: float
    usage_us: int
    milli: int = 0
    until: float = -inf
    rated_at: float = -inf
    span_s: float = 0.0
    tier: str = ""


class Use(NamedTuple):
    """The use of lendable CPUs, milli-CPU, without RESERVED and DEDICATED.

    online, system, box: use of online pods, the system and reclaimed pods.
    members: number of samples of the reclaim cgroups.
    rated_at: end of the newest interval of the pods.
    span_s: length of that interval.
    oldest: end of the oldest interval of pods or system, which is the age of the whole.
    reserved: use on reserved CPUs that is left out.
    """

    online: int
    system: int
    box: int
    members: int
    rated_at: float
    span_s: float
    oldest: float
    reserved: int = 0


def advance(meters: Mapping[int, Meter], readings: FastReadings, stale_s: float) -> dict[int, Meter]:
    """Return the meters after these samples, in the order of their reading.

    A cgroup that was not read keeps its rate. A cgroup that is gone, or was not read for `LONGEST_S`, is dropped.
    """
    after = dict(meters)
    for sample in readings.samples:
        meter = _read(after.pop(sample.key, None), sample, readings, stale_s)
        if meter is not None:
            after[sample.key] = meter
    horizon = readings.at - LONGEST_S
    while after and after[oldest := next(iter(after))].at < horizon:
        del after[oldest]
    return after


def _read(meter: Meter | None, sample: Sample, readings: FastReadings, stale_s: float) -> Meter | None:
    at, usage = sample.at, sample.usage_us
    if usage is None:
        return _unread(meter, sample)
    if meter is None or meter.role is not sample.role:
        return Meter(sample.role, _PLACE[sample.role], at, usage, tier=sample.tier)
    span = at - meter.at
    if 0 <= span < SHORTEST_S:
        return meter
    risen = usage - meter.usage_us
    is_known = meter.usage_us != _UNREAD and is_plausible(risen, span + readings.counters_s, readings.cpus)
    if not is_known or not 0 <= span <= LONGEST_S:
        return _without_rate(meter, at, usage)
    # a round-robin rate holds for two rounds; the rate of reclaim cgroups allows growth, so it never outlasts stale_s
    place = meter.place
    until = at + (stale_s if place in _BOXED else max(stale_s, 2 * span))
    return Meter(
        role=meter.role,
        place=place,
        at=at,
        usage_us=usage,
        milli=round(risen / span / 1000),
        until=until,
        rated_at=at,
        span_s=span,
        tier=sample.tier,
    )


def _unread(meter: Meter | None, sample: Sample) -> Meter | None:
    """Return the meter of a cgroup that could not be read; None if it is dropped.

    Subtracted cgroups and cgroups that are gone are dropped. Pods and system keep their rate until two readings make
    another one, because the rise in between may never be known. A tier's member that cannot be read has no rate, so
    that its tier does not count as one with less use.
    """
    if sample.role is Role.TIER and not sample.gone:
        return Meter(sample.role, _PLACE[sample.role], sample.at, _UNREAD, tier=sample.tier)
    if meter is None or meter.place not in _VITAL or sample.gone:
        return None
    return meter._replace(usage_us=_UNREAD)


def is_plausible(risen_us: int, within_s: float, cpus: int) -> bool:
    """Return whether a counter neither went back nor rose faster than all CPUs can run. `cpus`: 0 for unknown.

    `within_s`: length of the interval, and the time by which the earlier counter may have lagged.
    """
    return 0 <= risen_us <= (cpus * within_s * 1e6 or inf)


def _without_rate(meter: Meter, at: float, usage_us: int) -> Meter:
    if meter.place in _SUBTRACTED:
        return Meter(meter.role, meter.place, at, usage_us)
    return meter._replace(at=at, usage_us=usage_us)


def total(meters: Mapping[int, Meter], at: float) -> Use | None:
    """Return the sum of the rates, or None if the pods or the system have none yet.

    `online = max(pods - box - dedicated - (reserved beyond the system's own use), sum of the online groups)`: on a
    full machine a burst of online use shows first in the use that reclaimed pods lose, or in the online group itself.
    `system = system - host - reserved`, both never below 0. All use on reserved CPUs is part of one of the two, so it
    is left out only if both are measured.
    """
    sums = [0] * len(_PLACE)
    members, rated_at, span, oldest, has_system = 0, -inf, 0.0, inf, False
    for meter in meters.values():
        place = meter.place
        if place in _VITAL:
            oldest = min(oldest, meter.rated_at)
            if place == _PODS:
                rated_at, span = meter.rated_at, meter.span_s
            else:
                has_system = True
        elif place in _BOXED:
            members += 1
        if meter.until >= at or place in _VITAL:
            sums[place] += meter.milli
    if rated_at == -inf or oldest == -inf:
        return None
    reserved = sums[_RESERVED] if has_system else 0
    left, rest = sums[_PODS] - sums[_BOX] - sums[_DEDICATED], sums[_SYSTEM] - sums[_HOST]
    online, system = claimed(left, rest, reserved)
    box = sums[_BOX] + sums[_HOST]
    return Use(
        online=max(online, sums[_ONLINE]),
        system=system,
        box=box,
        members=members,
        rated_at=rated_at,
        span_s=span,
        oldest=oldest,
        reserved=reserved,
    )


def knows_box(meters: Mapping[int, Meter], readings: FastReadings) -> bool:
    """Return whether all reclaim cgroups have a rate: the use of one without a rate counts as online use."""
    rated = sum(meter.place in _BOXED and meter.until >= readings.at for meter in meters.values())
    return rated >= readings.members


def claimed(left: int, system: int, reserved: int) -> tuple[int, int]:
    """Return the use of online pods and of the system on lendable CPUs, milli-CPU.

    left: use of pods that are neither reclaimed nor on owned CPUs.
    system: all other use, without the host groups of the reclaim cgroups.

    Use on reserved CPUs is subtracted from the system first, because these CPUs are meant for it. Its rest was use of
    pods of class `system`, which is no online use either. Both results are bounded one by one: an amount that is
    subtracted from pods too late hides none of the system's use.
    """
    rest = max(0, system) - reserved
    return max(0, left + min(0, rest)), max(0, rest)


def late_s(readings: FastReadings, now: float, last_at: float, period_s: float) -> float:
    """Return how late a tick is, seconds: delay by plan, age of readings, or time since it was due, whichever is most.

    last_at: time of the last tick, -inf before the first, which is not due at any time.
    period_s: planned seconds between the two ticks.
    """
    overdue = now - last_at - period_s if last_at != -inf else 0.0
    return max(readings.late_s, now - readings.at, overdue)


def behind_s(cpus: int, counters_s: float) -> float:
    """Return how far the counters of so many CPUs lag together, seconds of CPU time.

    Each counter lags by up to a scheduler's tick, independently of the others. The sum of n is off by about a tick x
    sqrt(n).
    """
    return counters_s * sqrt(cpus)


def judged(newest: int, span_s: float, mean: int, window_s: float, behind_s: float) -> int:
    """Return the use that counts, milli-CPU, from the newest rate and the last judged use (`mean`).

    It is the exponential mean (time constant `window_s`). It is never less than the newest rate without the error
    that the scheduler's tick alone can cause (`behind_s`, see there). So a burst counts within the interval that
    shows it, and the coarseness of the counters does not. `span_s` > 0.
    """
    averaged = mean + int((newest - mean) * span_s / (span_s + window_s))
    return max(averaged, newest - int(1000 * behind_s / span_s))


class Peaks(NamedTuple):
    """The highest use within a moving window; milli-CPU, seconds.

    closed: buckets that have ended, as (end, peak).
    highest: the highest peak of the closed buckets.
    opened_at: start of the open bucket.
    open: peak of the open bucket.
    """

    closed: tuple[tuple[float, int], ...] = ()
    highest: int = 0
    opened_at: float = 0.0
    open: int = 0

    @property
    def peak(self) -> int:
        """Return the highest value of the window, milli-CPU."""
        return max(self.highest, self.open)


def first_peak(value: int, now: float) -> Peaks:
    """Return a window with this single value."""
    return Peaks(opened_at=now, open=value)


def with_peak(peaks: Peaks, value: int, now: float, window_s: float) -> Peaks:
    """Return the window with one more value, without the buckets that ended before the window begins."""
    if now - peaks.opened_at < window_s / BUCKETS:
        return peaks if value <= peaks.open else peaks._replace(open=value)
    horizon = now - window_s
    closed = tuple(bucket for bucket in (*peaks.closed, (now, peaks.open)) if bucket[0] > horizon)
    return Peaks(closed, max((peak for _, peak in closed), default=0), now, value)


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


def is_calm(before: Sample | Gauge | None, sample: Sample, stall: float) -> bool:
    """Return whether a group waited less than a share of the time, `stall`, since its last sample."""
    known = None if before is None else before.stalled_us
    if before is None or known is None or sample.stalled_us is None:
        return sample.stalled_us is known  # without pressure files no group has any
    return 0 <= sample.stalled_us - known <= stall * (sample.at - before.at) * 1e6


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


def advance_gauges(
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
            gauge = _read_gauge(gauge, sample, sample.stalled_us, cause, windows_s)
            after[sample.key] = gauge
            signal = gauge.signal if gauge.blamed > blamed else signal
            blamed, own = max(blamed, gauge.blamed), max(own, gauge.own)
            lasting = max(lasting, gauge.lasting)
    horizon = readings.at - LONGEST_S
    while after and after[oldest := next(iter(after))].at < horizon:
        del after[oldest]
    return after, Stall(blamed, own, lasting, signal)


def _read_gauge(
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
