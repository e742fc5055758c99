"""From counters to rates: what online pods, the system and the box use, milli-CPU.

Each cgroup is compared with its own last sample only, over its own interval, so that the shell may read many of them
by rotation. A doubtful interval (the counter went back or rose faster than the machine can run, the clock jumped)
gives no rate. What is then missing errs to the side of the online pods: what is added keeps its last rate, what is
subtracted loses it.

Pods, system, the box and whoever is apart belong in every tick: on a full machine a burst of online use leaves the
total as it is, and is seen only by what the box loses. What is read by rotation answers as slowly as its round.
"""

from collections.abc import Mapping
from math import inf, sqrt
from typing import NamedTuple

from nri_coloc.core.readings import FastReadings, Role, Sample

SHORTEST_S = 0.005
"""Over less than about one scheduler tick a rate is noise: such a sample waits for the next one."""

LONGEST_S = 10.0
"""A rate over more than this says nothing about now."""

_UNREAD = -1
"""As a meter's counter: unknown, so the next sample is a first one."""

_PLACE = {role: place for place, role in enumerate(Role)}
_PODS, _SYSTEM, _BOX = _PLACE[Role.PODS], _PLACE[Role.SYSTEM], _PLACE[Role.BOX]
_DEDICATED, _RESERVED, _ONLINE = _PLACE[Role.DEDICATED], _PLACE[Role.RESERVED], _PLACE[Role.ONLINE]
_HOST = _PLACE[Role.HOST]
_BOXED = frozenset((_BOX, _HOST))
_SUBTRACTED = frozenset((*_BOXED, _DEDICATED, _RESERVED))
_VITAL = frozenset((_PODS, _SYSTEM))


class Meter(NamedTuple):
    """One cgroup's last sample and last rate. `span_s`: the interval of that rate, which ended at `rated_at`.

    `until`: how long the rate is believed (-inf: there is none); that of pods and system has an age instead. `tier`: of
    members of a tier, which one.
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
    """What is used of lendable CPUs, milli-CPU: that of RESERVED and DEDICATED left out.

    `reserved`: what is left out as used on reserved CPUs; `members`: samples that make up the box. `rated_at`: end of
    the newest interval of the pods, `span_s` its length; `oldest`: the age of the whole is that of its oldest vital
    rate.
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

    Who was not read keeps its rate, who is gone drops out, as does who was not read for `LONGEST_S`.
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
    # by rotation a rate holds for two rounds; that of the box, which makes us bolder, never beyond stale_s
    place = meter.place
    until = at + (stale_s if place in _BOXED else max(stale_s, 2 * span))
    return Meter(meter.role, place, at, usage, round(risen / span / 1000), until, at, span, sample.tier)


def _unread(meter: Meter | None, sample: Sample) -> Meter | None:
    """Return what is left of a meter whose cgroup told nothing: nothing of what is subtracted, or of who is gone.

    Pods and system keep their rate until two readings make another one: how far the counter rose meanwhile may never be
    known. A tier's member that cannot be read has no rate, so that its tier does not count as one that uses less.
    """
    if sample.role is Role.TIER and not sample.gone:
        return Meter(sample.role, _PLACE[sample.role], sample.at, _UNREAD, tier=sample.tier)
    if meter is None or meter.place not in _VITAL or sample.gone:
        return None
    return meter._replace(usage_us=_UNREAD)


def is_plausible(risen_us: int, within_s: float, cpus: int) -> bool:
    """Whether a counter neither went back nor rose faster than all CPUs together can run (0: not known).

    `within_s`: in what it was read over, and what it may have been behind before.
    """
    return 0 <= risen_us <= (cpus * within_s * 1e6 or inf)


def _without_rate(meter: Meter, at: float, usage_us: int) -> Meter:
    if meter.place in _SUBTRACTED:
        return Meter(meter.role, meter.place, at, usage_us)
    return meter._replace(at=at, usage_us=usage_us)


def total(meters: Mapping[int, Meter], at: float) -> Use | None:
    """Add up the rates, or None where the pods or the system have none yet.

    `online = max(pods - box - dedicated - (reserved beyond the system's own use), sum of the online groups)`: on a
    full machine a burst of online use shows first in what the box loses, or in the online group itself.
    `system = system - host - reserved`, both never below 0. Nothing ran on reserved CPUs that is not in one of the two,
    so it is left out only where both are measured.
    """
    sums = [0] * len(_PLACE)
    members, rated_at, span, oldest, has_system = 0, -inf, 0.0, inf, False
    for _, place, _, _, milli, until, rated, interval, _ in meters.values():
        if place in _VITAL:
            oldest = min(oldest, rated)
            if place == _PODS:
                rated_at, span = rated, interval
            else:
                has_system = True
        elif place in _BOXED:
            members += 1
        if until >= at or place in _VITAL:
            sums[place] += milli
    if rated_at == -inf or oldest == -inf:
        return None
    reserved = sums[_RESERVED] if has_system else 0
    left, rest = sums[_PODS] - sums[_BOX] - sums[_DEDICATED], sums[_SYSTEM] - sums[_HOST]
    online, system = claimed(left, rest, reserved)
    box = sums[_BOX] + sums[_HOST]
    return Use(max(online, sums[_ONLINE]), system, box, members, rated_at, span, oldest, reserved)


def knows_box(meters: Mapping[int, Meter], readings: FastReadings) -> bool:
    """Whether all of the box has a rate: what of it has none is taken for online use."""
    rated = sum(meter.place in _BOXED and meter.until >= readings.at for meter in meters.values())
    return rated >= readings.members


def claimed(left: int, system: int, reserved: int) -> tuple[int, int]:
    """Return what of the lendable CPUs is online use and the system's, milli-CPU.

    `left`: what pods use and is neither the box's nor apart; `system`: what all else does, but for the box's host
    groups. What ran on reserved CPUs was the system's first, for which they are; the rest of it was of pods of the
    system class, and is no online use either. The two are bounded one by one: what is taken off the pods too late hides
    none of the system's use.
    """
    rest = max(0, system) - reserved
    return max(0, left + min(0, rest)), max(0, rest)


def behind_s(cpus: int, counters_s: float) -> float:
    """Return how far the counters of so many CPUs are behind together, seconds of CPU time.

    Each one's is up to a scheduler's tick behind, independently of the others': the sum of n is off by about a tick x
    sqrt(n).
    """
    return counters_s * sqrt(cpus)


def judged(newest: int, span_s: float, mean: int, window_s: float, behind_s: float) -> int:
    """Return the use as it counts, milli-CPU, from the newest rate and from what was judged before (`mean`).

    The mean of the last while (exponential, time constant `window_s`); but at once the newest less what the
    scheduler's tick alone can feign (`behind_s`, see there). So a burst counts within the interval that shows it, and
    the coarseness of the counters does not. `span_s` > 0.
    """
    averaged = mean + int((newest - mean) * span_s / (span_s + window_s))
    return max(averaged, newest - int(1000 * behind_s / span_s))
