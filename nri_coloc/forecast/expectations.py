"""Predict the use of online pods from the histories of their workloads.

Times are seconds of a clock that continues over restarts (since 1970), because histories outlive the daemon. Within
one sampling interval only each pod's peak is kept. At its end the peak enters the history of the pod's workload. So a
workload of ten pods gets ten samples, and its percentile is the percentile of one pod. The number of workloads is
bounded; the ones unseen for longest are dropped first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import histogram, hours
from nri_coloc.forecast.estimators import ESTIMATORS, Evidence, cold, yesterday
from nri_coloc.forecast.histogram import CPU_MILLI, MEMORY_BYTES, Histogram
from nri_coloc.forecast.hours import Hours
from nri_coloc.forecast.use import SYSTEM, Use
from nri_coloc.pods.replicas import OnlinePod

_MISSED_SAMPLES: Final = 2.0
"""Sampling intervals without readings that count as "readings fail"."""


@dataclass(frozen=True, slots=True)
class Series:
    """One resource of one workload."""

    uses: Histogram
    hours: Hours


@dataclass(frozen=True, slots=True)
class History:
    """One workload.

    cpu, memory: its use of each resource.
    seen_s: seconds for which it has been watched, without gaps.
    last_s: time of its last sample.
    """

    cpu: Series
    memory: Series
    seen_s: float
    last_s: float


class Observed(NamedTuple):
    """When each resource was last read, None before the first time."""

    cpu_s: float | None = None
    memory_s: float | None = None


NEVER: Final = Observed()


class Blind(NamedTuple):
    """Seconds for which readings of each resource have failed: 0.0 while they succeed, inf before the first reading."""

    cpu_s: float
    memory_s: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """All histories, and the peaks of the running interval.

    histories: by workload.
    peaks: each pod's peak since `since_s`.
    latest: each pod's last use; each amount is the last one that could be read.
    since_s: start of the interval.
    observed: time of the last reading of each resource.
    """

    histories: Mapping[str, History] = field(default_factory=dict)
    peaks: Mapping[str, Use] = field(default_factory=dict)
    latest: Mapping[str, Use] = field(default_factory=dict)
    since_s: float = 0.0
    observed: Observed = NEVER


class Expectation(NamedTuple):
    """The expected use of each online pod, by pod id, and of SYSTEM.

    cpu_milli: without pods on CPUs of their own.
    memory_bytes: of all pods.
    learning: pods whose workload has not been watched for long enough.
    """

    cpu_milli: Mapping[str, int]
    memory_bytes: Mapping[str, int]
    learning: tuple[str, ...] = ()


def observe(forecast: Forecast, uses: Mapping[str, Use], now_s: float, tuning: ReclaimTuning) -> Forecast:
    """Return the forecast after these uses, by pod id; no use at all means that readings failed."""
    if not uses:
        return forecast
    peaks = dict(forecast.peaks)
    for pod_id, use in uses.items():
        known = peaks.get(pod_id)
        peaks[pod_id] = use if known is None else _higher(known, use)
    since_s = forecast.since_s if forecast.latest else now_s
    latest = {pod_id: _as_it_was(forecast.latest.get(pod_id), use) for pod_id, use in uses.items()}
    observed = _observed(forecast.observed, uses, now_s)
    seen = replace(forecast, peaks=peaks, latest=latest, since_s=since_s, observed=observed)
    if 0.0 <= now_s - since_s < tuning.forecast.sample_s:
        return seen
    histories = _with_samples(forecast.histories, peaks.values(), now_s, tuning)
    return replace(seen, histories=_kept(histories, now_s, tuning), peaks={}, since_s=now_s)


def _as_it_was(before: Use | None, now: Use) -> Use:
    """Return a pod's use; an amount that could not be read keeps its last value."""
    if before is None:
        return now
    return Use(
        now.workload,
        before.cpu_milli if now.cpu_milli is None else now.cpu_milli,
        before.memory_bytes if now.memory_bytes is None else now.memory_bytes,
    )


def _observed(before: Observed, uses: Mapping[str, Use], now_s: float) -> Observed:
    cpu = _is_read({pod_id: use.cpu_milli for pod_id, use in uses.items()})
    memory = _is_read({pod_id: use.memory_bytes for pod_id, use in uses.items()})
    return Observed(now_s if cpu else before.cpu_s, now_s if memory else before.memory_s)


def _is_read(amounts: Mapping[str, int | None]) -> bool:
    """Return whether a resource was read: for any pod, and for the system (the node's use less all pods' use)."""
    return amounts.get(SYSTEM, 0) is not None and any(amount is not None for amount in amounts.values())


def _higher(one: Use, other: Use) -> Use:
    return Use(
        other.workload,
        _most(one.cpu_milli, other.cpu_milli),
        _most(one.memory_bytes, other.memory_bytes),
    )


def _most(one: int | None, other: int | None) -> int | None:
    return max((amount for amount in (one, other) if amount is not None), default=None)


def _with_samples(
    histories: Mapping[str, History], peaks: Iterable[Use], now_s: float, tuning: ReclaimTuning
) -> dict[str, History]:
    found = dict(histories)
    for use in peaks:
        found[use.workload] = _sampled(found.get(use.workload) or _newborn(now_s), use, now_s, tuning)
    return found


def _newborn(now_s: float) -> History:
    series = Series(histogram.empty(CPU_MILLI), hours.unknown())
    return History(series, Series(histogram.empty(MEMORY_BYTES), hours.unknown()), 0.0, now_s)


_STRANGER: Final = _newborn(0.0)


def _sampled(history: History, use: Use, now_s: float, tuning: ReclaimTuning) -> History:
    gap_s = max(0.0, now_s - history.last_s)
    cpu, memory = history.cpu, history.memory
    if use.cpu_milli is not None:
        uses = histogram.added(cpu.uses, CPU_MILLI.bucket(use.cpu_milli), now_s, tuning.half_life_s)
        cpu = Series(uses, hours.noted(cpu.hours, use.cpu_milli, now_s))
    if use.memory_bytes is not None:
        bucket = MEMORY_BYTES.bucket(use.memory_bytes)
        uses = histogram.added(memory.uses, bucket, now_s, tuning.forecast.memory_half_life_s)
        memory = Series(uses, hours.noted(memory.hours, use.memory_bytes, now_s))
    seen_s = history.seen_s + min(gap_s, _MISSED_SAMPLES * tuning.forecast.sample_s)
    return History(cpu, memory, seen_s, now_s)


def _kept(histories: dict[str, History], now_s: float, tuning: ReclaimTuning) -> dict[str, History]:
    limits = tuning.forecast
    alive = {key: each for key, each in histories.items() if now_s - each.last_s <= limits.forget_s}
    if len(alive) <= limits.workloads:
        return alive
    newest_first = sorted(alive, key=lambda key: (-alive[key].last_s, -alive[key].seen_s, key))
    return {key: alive[key] for key in newest_first[: limits.workloads]}


# --- reading ---------------------------------------------------------------------------------------------


def blind_for(forecast: Forecast, now_s: float, tuning: ReclaimTuning) -> Blind:
    """Return for how many seconds the readings of each resource have failed."""
    return Blind(*(_blind_s(observed_s, now_s, tuning) for observed_s in forecast.observed))


def _blind_s(observed_s: float | None, now_s: float, tuning: ReclaimTuning) -> float:
    gap_s = float("inf") if observed_s is None else abs(now_s - observed_s)
    return gap_s if gap_s > _MISSED_SAMPLES * tuning.forecast.sample_s else 0.0


def expect(
    forecast: Forecast, online: Mapping[str, OnlinePod], now_s: float, tuning: ReclaimTuning
) -> Expectation:
    """Return the expected use of every online pod, and of the system.

    The configured estimator gives it. While a workload is being learnt, its request or its peak so far counts. For a
    resource without readings, the same hour yesterday counts. The result is never below the pod's present use. Memory
    is never below the promised amount, and never above the pod's limit, except for memory in use now. A call costs
    some 15 µs a pod, and little changes before the next sample: keep the result until then, or until another pod
    comes.
    """
    blind = blind_for(forecast, now_s, tuning)
    cpu: dict[str, int] = {}
    memory: dict[str, int] = {}
    learning: list[str] = []
    for pod_id, pod in {**online, SYSTEM: OnlinePod(SYSTEM)}.items():
        history = forecast.histories.get(pod.workload)
        if history is None or history.seen_s < tuning.cold_start_s:
            learning.append(pod_id)
        for_cpu, for_memory = _evidence(forecast, pod_id, pod, now_s, tuning)
        if not pod.own_cpus:
            cpu[pod_id] = _estimate(_estimator(history, blind.cpu_s, tuning), for_cpu)
        estimated = _estimate(_estimator(history, blind.memory_s, tuning), for_memory)
        memory[pod_id] = _memory(pod, estimated, _held(forecast, pod_id), tuning)
    return Expectation(cpu, memory, tuple(learning))


def shown(
    forecast: Forecast,
    online: Mapping[str, OnlinePod],
    expected: Expectation,
    now_s: float,
    tuning: ReclaimTuning,
) -> Expectation:
    """Return the expectation without guesses, never above it.

    Workloads that are being learnt count with their measured use. The configured estimator gives it from the few
    samples, and it is never below the highest use so far. Promised memory is no guess. Nor is a request, if requests
    are the configured estimate.
    """
    cpu, memory = dict(expected.cpu_milli), dict(expected.memory_bytes)
    for pod_id in expected.learning:
        pod = online.get(pod_id) or OnlinePod(SYSTEM)
        for_cpu, for_memory = _evidence(forecast, pod_id, pod, now_s, tuning)
        if pod_id in cpu:
            cpu[pod_id] = min(cpu[pod_id], _shown(for_cpu, tuning))
        held = _held(forecast, pod_id)
        memory[pod_id] = min(memory[pod_id], _memory(pod, _shown(for_memory, tuning), held, tuning))
    return Expectation(cpu, memory)


def _shown(evidence: Evidence, tuning: ReclaimTuning) -> int:
    by_tuning = ESTIMATORS[tuning.forecast.estimator](evidence) or 0
    return max(by_tuning, cold(evidence._replace(request=0)))


def _memory(pod: OnlinePod, estimated: int, held: int, tuning: ReclaimTuning) -> int:
    """Return the expected memory, bytes. The limit bounds future use; memory in use counts even above the limit."""
    promised = int(pod.memory_bytes * tuning.memory_request_claim)
    return max(held, _capped(max(promised, estimated), pod.memory_limit))


def _held(forecast: Forecast, pod_id: str) -> int:
    latest = forecast.latest.get(pod_id)
    return 0 if latest is None else latest.memory_bytes or 0


def _estimator(history: History | None, blind_s: float, tuning: ReclaimTuning) -> str:
    if history is None or history.seen_s < tuning.cold_start_s:
        return cold.__name__
    return yesterday.__name__ if blind_s else tuning.forecast.estimator


def _evidence(
    forecast: Forecast, pod_id: str, pod: OnlinePod, now_s: float, tuning: ReclaimTuning
) -> tuple[Evidence, Evidence]:
    history = forecast.histories.get(pod.workload) or _STRANGER
    # a new pod is measured before its first sample is stored: its peak so far is evidence already
    unknown = Use(pod.workload)
    peak = _higher(forecast.latest.get(pod_id, unknown), forecast.peaks.get(pod_id, unknown))
    cpu, memory, margin = history.cpu, history.memory, tuning.margin
    part = tuning.forecast.memory_percentile
    return (
        Evidence(
            uses=cpu.uses,
            scale=CPU_MILLI,
            hours=cpu.hours,
            part=tuning.percentile,
            margin=margin,
            now_s=now_s,
            request=pod.cpu_milli,
            latest=peak.cpu_milli,
        ),
        Evidence(
            uses=memory.uses,
            scale=MEMORY_BYTES,
            hours=memory.hours,
            part=part,
            margin=margin,
            now_s=now_s,
            request=pod.memory_bytes,
            latest=peak.memory_bytes,
        ),
    )


def _estimate(name: str, evidence: Evidence) -> int:
    found = ESTIMATORS[name](evidence)
    return max(cold(evidence) if found is None else found, evidence.latest or 0)


def _capped(amount: int, limit: int | None) -> int:
    return amount if limit is None else min(amount, limit)
