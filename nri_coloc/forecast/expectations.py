"""What online pods will use: the histories of their workloads, fed with uses, read as expectations.

Times are seconds of a clock that goes on over restarts (since 1970), because histories outlive the daemon. Within
one sampling interval only each pod's peak is kept; at its end that enters the history of the pod's workload, so a
workload of ten pods gets ten samples and its percentile is one pod's. Bounded: so many workloads, the longest unseen
leave first.
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
"""So many sampling intervals without readings count as "readings fail"."""


@dataclass(frozen=True, slots=True)
class Series:
    """One resource of one workload."""

    uses: Histogram
    hours: Hours


@dataclass(frozen=True, slots=True)
class History:
    """One workload. `seen_s`: for how long it has been watched, gaps left out; `last_s`: its last sample."""

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
    """For how many seconds readings of each resource have failed: 0.0 if they do not, for ever before the first one."""

    cpu_s: float
    memory_s: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """All histories, and the peaks of the interval that runs since `since_s`.

    `latest`: each pod's last use, of which each amount is the last that could be read; `observed`: when that was.
    """

    histories: Mapping[str, History] = field(default_factory=dict)
    peaks: Mapping[str, Use] = field(default_factory=dict)
    latest: Mapping[str, Use] = field(default_factory=dict)
    since_s: float = 0.0
    observed: Observed = NEVER


class Expectation(NamedTuple):
    """What each online pod is expected to use, by pod id, and SYSTEM.

    `cpu_milli` leaves out pods on CPUs of their own. `learning`: pods whose workload has been watched for too short
    a time.
    """

    cpu_milli: Mapping[str, int]
    memory_bytes: Mapping[str, int]
    learning: tuple[str, ...] = ()


def observe(forecast: Forecast, uses: Mapping[str, Use], now_s: float, tuning: ReclaimTuning) -> Forecast:
    """Return the forecast that has seen these uses, by pod id; none at all is "readings failed"."""
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
    """Return a pod's use with what could not be read as it was."""
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
    """Whether a resource was read: of anybody, and of the system, whose use is made of the node's and of all pods'."""
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
    """Return for how long the readings of each resource have failed."""
    return Blind(*(_blind_s(observed_s, now_s, tuning) for observed_s in forecast.observed))


def _blind_s(observed_s: float | None, now_s: float, tuning: ReclaimTuning) -> float:
    gap_s = float("inf") if observed_s is None else abs(now_s - observed_s)
    return gap_s if gap_s > _MISSED_SAMPLES * tuning.forecast.sample_s else 0.0


def expect(
    forecast: Forecast, online: Mapping[str, OnlinePod], now_s: float, tuning: ReclaimTuning
) -> Expectation:
    """Return what every online pod is expected to use, and the system.

    By the tuned estimator; while a workload is being learnt, its request or peak so far; of a resource without
    readings, the same hour yesterday. Never below what the pod uses now; memory never below what is promised to it, and
    never above its limit but for what it holds now. Costs some 15 µs a pod, and little changes before the next sample:
    worth keeping until then, or until another pod comes.
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
    """Return the expectation without its guesses, never above it: who is still being learnt at what it has shown.

    By the tuned estimator, on the little that it has, and never below the highest use so far. The memory that is
    promised is no guess, nor is a request where requests are the tuned estimate.
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
    """A limit bounds what it may come to hold; what it does hold it holds, whatever the limit is by our arithmetic."""
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
    # a pod that has just come is measured before its first sample is in: its peak so far is evidence already
    unknown = Use(pod.workload)
    peak = _higher(forecast.latest.get(pod_id, unknown), forecast.peaks.get(pod_id, unknown))
    cpu, memory, margin = history.cpu, history.memory, tuning.margin
    part = tuning.forecast.memory_percentile
    return (
        Evidence(
            cpu.uses, CPU_MILLI, cpu.hours, tuning.percentile, margin, now_s, pod.cpu_milli, peak.cpu_milli
        ),
        Evidence(
            memory.uses, MEMORY_BYTES, memory.hours, part, margin, now_s, pod.memory_bytes, peak.memory_bytes
        ),
    )


def _estimate(name: str, evidence: Evidence) -> int:
    found = ESTIMATORS[name](evidence)
    return max(cold(evidence) if found is None else found, evidence.latest or 0)


def _capped(amount: int, limit: int | None) -> int:
    return amount if limit is None else min(amount, limit)
