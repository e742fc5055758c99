"""Collect metrics for Prometheus, in a registry of our own, so that two daemons in one process (tests) stay apart.

Every label has a closed or small set of values. A pod's author writes an annotation's key, so the function that is
passed in reduces it to a known key. Values of the state (sizes of pools, number of containers) are computed at
a scrape, and cost the hooks nothing. `docs/metrics.md` explains each metric; a test compares.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import PurePath
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from nri_coloc.core.decisions import Decision
from nri_coloc.core.readings import DiskLeft, SharingCost
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import POOLS, NodeState, Pools
from nri_coloc.core.workload import QoSClass

NAMESPACE: Final = "nri_coloc"

HOOK_BUCKETS: Final = (
    *(20e-6, 50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1.0, 2.0),
)
"""Seconds: from half of the fastest round trip to the request timeout, at which the runtime drops us."""

LATE_BUCKETS: Final = (1e-3, 5e-3, 10e-3, 20e-3, 40e-3, 100e-3, 500e-3)
"""Seconds: two periods late makes the loop lend no more, `reclaim.stale_s` late makes it lend the floor."""

PICTURE_BUCKETS: Final = (2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 500e-3)
"""Seconds: some 15 ms at 110 pods; from a tenth of a second on the slow loop stretches its period."""

Snapshot = Callable[[], NodeState | None]


class Metrics:
    """The daemon's metrics; each method may be called from any thread, unless it says otherwise.

    Size: one attribute and one method for each metric.
    """

    def __init__(self, version: str, snapshot: Snapshot, key_label: Callable[[str], str]) -> None:
        self._registry = CollectorRegistry()
        self._key_label = key_label
        self._make_gauges(version, snapshot)
        self._make_counters()

    def _make_gauges(self, version: str, snapshot: Snapshot) -> None:
        Info("build", "The program.", namespace=NAMESPACE, registry=self._registry).info({"version": version})
        self._connected = self._gauge("connected", "1 while the runtime has the plugin registered.")
        self._state_writable = self._gauge("state_writable", "1 while the state folder can be written.")
        self._waiting = self._gauge(
            "waiting_containers", "Dedicated containers that wait for CPUs of their own."
        )
        self._make_gauges_of_lending()
        self._make_gauges_of_pressure()
        threads = self._gauge("process_threads", "Threads of the daemon that Python knows.")
        threads.set_function(threading.active_count)
        ProcessCollector(namespace=NAMESPACE, registry=self._registry)
        self._loads: Mapping[str, float] = {}
        self._registry.register(_StateCollector(snapshot, lambda: self._loads))

    def _make_gauges_of_lending(self) -> None:
        self._ticks = _TickCollector()
        self._registry.register(self._ticks)
        self._memory = self._gauge("headroom_memory_bytes", "Bytes that reclaimed pods may hold now.")
        self._memory_of_node = self._gauge(
            "headroom_memory_node_bytes", "The part of it that is free on each memory node.", "node"
        )
        self._held: dict[tuple[str, str], int] = {}
        self._working_sets = self._gauge(
            "working_set_bytes", "Working sets of containers, without inactive page cache.", "class", "pool"
        )
        self._offered_milli = self._gauge("capacity_cpu_milli", "Thousandths of a CPU that are advertised.")
        self._offered_bytes = self._gauge("capacity_memory_bytes", "Bytes of memory that are advertised.")
        self._paused = self._gauge("lending_paused", "1 while an operator has paused lending.")
        self._lent_part = self._gauge(
            "lending_factor", "Part of the headroom that schedule and switch lend, 0 to 1."
        )
        self._off = self._gauge("lending_off", "1 while an operator has switched lending off.")

    def _make_gauges_of_pressure(self) -> None:
        self._limited = self._gauge(
            "throttled_pods", "Reclaimed pods that are throttled for an online pod's stall."
        )
        self._degraded = self._gauge(
            "degraded_containers",
            "Online containers whose quota is lowered while their pool is short of CPU.",
        )
        self._cooling = self._gauge(
            "cooling_seconds", "Seconds until the cool-down after an eviction ends, 0 without one."
        )
        self._disks_left = self._gauge(
            "disk_left_ratio", "Part of a file system that is left, 0 to 1.", "file_system", "resource"
        )
        self._disk_short = self._gauge(
            "disk_short", "1 while a file system is short, and the node takes no new reclaimed pods."
        )

    def _make_counters(self) -> None:
        self._hooks = _HookCollector()
        self._registry.register(self._hooks)
        self._picture = self._histogram(
            "picture_seconds",
            "Time of a snapshot of the whole node, without pauses for hooks.",
            PICTURE_BUCKETS,
        )
        self._decisions = _DecisionCollector()
        self._registry.register(self._decisions)
        self._of_annotations: Mapping[AuditEvent, Counter] = {
            AuditEvent.ANNOTATION_INVALID: self._counter(
                "annotation_invalid", "Annotations that could not be read.", "key"
            ),
            AuditEvent.ANNOTATION_DENIED: self._counter(
                "annotation_denied", "Annotations that asked for more than their pod may have.", "key"
            ),
        }
        self._reloads = self._counter("config_reload", "Configurations read.", "result")
        self._neutral = self._counter("neutral_replies", "Hooks answered without a decision.", "hook")
        self._reconnects = self._counter("reconnects", "Connections after the first one.")
        self._failures = self._counter("write_failures", "Writes that the kernel refused.", "file")
        self._absent = self._counter(
            "values_without_file", "Wanted values without a file on this machine.", "knob"
        )
        self._drift = self._counter(
            "drift_repairs", "Values that another writer had changed and that were repaired."
        )
        self._unmet = self._counter(
            "unmet_requests", "Dedicated requests that were not met: the container runs in share."
        )
        self._late = self._counter("late_exclusivity", "Starts before other containers had left the CPUs.")
        self._make_sharing_counters()
        self._audit_lost = self._counter("audit_lost", "Audit records or lines that were lost.", "why")

    def _make_sharing_counters(self) -> None:
        """Create the counters of throttling, stalls, kills and I/O by class and pool, never by pod."""
        whose = ("class", "pool")
        self._throttled = self._counter(
            "cpu_throttled_seconds", "Time that quotas throttled containers, summed over CPUs.", *whose
        )
        self._waited = self._counter("cpu_wait_seconds", "Time that containers waited for a CPU.", *whose)
        self._oom_kills = self._counter("oom_kills", "Processes killed for memory.", *whose)
        self._io_bytes = self._counter("io_bytes", "Bytes read and written.", "class", "direction")
        self._io_operations = self._counter("io_operations", "Reads and writes.", "class", "direction")
        self._stalled = self._counter("stalled_seconds", "Time that pods stalled.", "class", "resource")
        self._high_events = self._counter("memory_high_events", "Reclaims at memory.high.", "class")
        self._taken = self._counter(
            "memory_reclaimed_bytes", "Bytes taken back from reclaimed pods by memory.reclaim.", "regime"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace=NAMESPACE, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, namespace=NAMESPACE, buckets=buckets, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace=NAMESPACE, registry=self._registry)

    def connected(self, *, now: bool) -> None:
        """Set whether the plugin is registered with the runtime."""
        self._connected.set(now)

    def reconnected(self) -> None:
        """Count a reconnection."""
        self._reconnects.inc()

    def hook(self, name: str, seconds: float) -> None:
        """Observe one answered hook; `name` is the hook's name in the protocol. For the trunk's thread only."""
        self._hooks.observe(name, seconds)

    def ticks(self, late: Iterable[float], headroom_milli: int) -> None:
        """Observe the lateness of the lending loop's ticks in seconds; for the loop's thread only."""
        self._ticks.observe(late, headroom_milli)

    def loaded(self, loads: Mapping[str, float]) -> None:
        """Set the CPUs in use by the containers of each pool that is sized by load."""
        self._loads = loads

    def surveyed(self, picture_s: float, headroom_bytes: int, by_node: Mapping[int, int]) -> None:
        """Observe one pass of the slow loop.

        picture_s: how long its snapshot took, seconds. by_node: the headroom in bytes by NUMA node.
        """
        self._picture.observe(picture_s)
        self._memory.set(headroom_bytes)
        for node, amount in by_node.items():
            self._memory_of_node.labels(str(node)).set(amount)

    def working_sets(self, held: Mapping[tuple[str, str], int]) -> None:
        """Set the working sets in bytes by class and pool; a missing class and pool becomes 0."""
        self._held = dict.fromkeys(self._held, 0) | dict(held)
        for labels, amount in self._held.items():
            self._working_sets.labels(*labels).set(amount)

    def containers_felt(self, qos: str, pool: str, cost: SharingCost) -> None:
        """Count throttling, waits and kills of a class and pool's containers since the last call."""
        self._throttled.labels(qos, pool).inc(cost.throttled_us / 1e6)
        self._waited.labels(qos, pool).inc(cost.waited_us / 1e6)
        self._oom_kills.labels(qos, pool).inc(cost.oom_kills)

    def pods_felt(self, qos: str, cost: SharingCost) -> None:
        """Count I/O, stalls and reclaims of a class's pods since the last call."""
        for direction, moved, served in (
            ("read", cost.read_bytes, cost.reads),
            ("write", cost.written_bytes, cost.writes),
        ):
            self._io_bytes.labels(qos, direction).inc(moved)
            self._io_operations.labels(qos, direction).inc(served)
        self._stalled.labels(qos, "memory").inc(cost.memory_stalled_us / 1e6)
        self._stalled.labels(qos, "io").inc(cost.io_stalled_us / 1e6)
        self._high_events.labels(qos).inc(cost.high_events)

    def advertised(self, cpu_milli: int, memory_bytes: int) -> None:
        """Set the advertised capacity."""
        self._offered_milli.set(cpu_milli)
        self._offered_bytes.set(memory_bytes)

    def waiting(self, containers: int) -> None:
        """Set the number of dedicated containers that wait for owned CPUs."""
        self._waiting.set(containers)

    def throttled(self, pods: int) -> None:
        """Set the number of reclaimed pods that are throttled."""
        self._limited.set(pods)

    def degraded(self, containers: int) -> None:
        """Set the number of online containers whose quota is lowered."""
        self._degraded.set(containers)

    def memory_taken(self, regime: str, amount: int) -> None:
        """Count bytes that were taken back from reclaimed pods."""
        self._taken.labels(regime).inc(amount)

    def cooling(self, seconds: float) -> None:
        """Set the rest of the cool-down after an eviction."""
        self._cooling.set(seconds)

    def disks_left(self, left: Mapping[str, DiskLeft], *, is_short: bool) -> None:
        """Set the parts of the file systems that are left; a file system that is not in `left` has none."""
        self._disks_left.clear()
        for name, one in left.items():
            self._disks_left.labels(name, "space").set(one.space)
            self._disks_left.labels(name, "inodes").set(one.inodes_left)
        self._disk_short.set(is_short)

    def paused(self, *, now: bool) -> None:
        """Set whether an operator has paused lending."""
        self._paused.set(now)

    def lending(self, factor: float, *, is_off: bool) -> None:
        """Set the part of the headroom that schedule and switch lend, and whether an operator switched lending off."""
        self._lent_part.set(factor)
        self._off.set(is_off)

    def state_writable(self, *, now: bool) -> None:
        """Set whether the state folder and all files in it can be written."""
        self._state_writable.set(now)

    def neutral_reply(self, hook: str) -> None:
        """Count a hook that was answered without a decision."""
        self._neutral.labels(hook).inc()

    def decided(self, decision: Decision) -> None:
        """Count a decision, also in the counters of its kind."""
        self._decisions.count(decision.event, decision.reason)
        of_annotations = self._of_annotations.get(decision.event)
        if of_annotations is not None:
            of_annotations.labels(self._key_label(decision.key)).inc()
        elif decision.reason is Reason.NO_FREE_CPUS:
            self._unmet.inc()

    def decision(self, event: AuditEvent, reason: Reason) -> None:
        """Count one event by reason, such as a configuration that was read."""
        self._decisions.count(event, reason)

    def config_reload(self, result: str) -> None:
        """Count a configuration that was read: "valid" or "invalid"."""
        self._reloads.labels(result).inc()

    def write_failed(self, path: str) -> None:
        """Count a refused write by the file's name only, because its folder names a container."""
        self._failures.labels(PurePath(path).name).inc()

    def without_file(self, knobs: Iterable[str]) -> None:
        """Count values without a file on this machine, by their names in the audit."""
        for name in knobs:
            self._absent.labels(name).inc()

    def drift_repaired(self) -> None:
        """Count one repaired value."""
        self._drift.inc()

    def late_exclusivity(self) -> None:
        """Count a container that started before its owned CPUs were read back."""
        self._late.inc()

    def audit_lost(self, why: str, count: int) -> None:
        """Count lost audit records; it is the audit's `lost` callback."""
        self._audit_lost.labels(why).inc(count)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(_WithoutCreated(self._registry))


class _Seconds:
    """A histogram for one writer. It needs no lock and costs a fifth of the library's."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket, and the number of values up to it."""
        return list(zip((*map(str, self._bounds), "+Inf"), accumulate(self._counts.copy()), strict=True))


class _HookCollector(Collector):
    """The durations of hooks by kind, for the one thread that serves them."""

    def __init__(self) -> None:
        self._by_hook: dict[str, _Seconds] = {}

    def observe(self, hook: str, seconds: float) -> None:
        found = self._by_hook.get(hook)
        if found is None:
            found = self._by_hook[hook] = _Seconds(HOOK_BUCKETS)
        found.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        text = "Time from reading a hook's bytes to writing its reply."
        family = HistogramMetricFamily(f"{NAMESPACE}_hook_seconds", text, labels=("hook",))
        for hook, found in self._by_hook.copy().items():
            family.add_metric((hook,), found.buckets(), found.sum_s)
        yield family


class _DecisionCollector(Collector):
    """The number of decisions by event and reason, for any thread. It costs a third of the library's counter."""

    def __init__(self) -> None:
        self._counts: dict[tuple[AuditEvent, Reason], int] = {}
        self._counting = Lock()

    def count(self, event: AuditEvent, reason: Reason) -> None:
        with self._counting:
            self._counts[event, reason] = self._counts.get((event, reason), 0) + 1

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            f"{NAMESPACE}_decisions", "Decisions, by event and reason.", labels=("event", "reason")
        )
        for (event, reason), counted in self._counts.copy().items():
            family.add_metric((event.value, reason.value), counted)
        yield family


class _TickCollector(Collector):
    """A histogram and a gauge for one writer that reports several ticks together."""

    def __init__(self) -> None:
        self._late = _Seconds(LATE_BUCKETS)
        self._milli = 0

    def observe(self, late: Iterable[float], headroom_milli: int) -> None:
        for late_s in late:
            self._late.observe(late_s)
        self._milli = headroom_milli

    def collect(self) -> Iterator[Metric]:
        late = "Lateness of the fast loop's ticks."
        yield HistogramMetricFamily(
            f"{NAMESPACE}_tick_late_seconds", late, self._late.buckets(), self._late.sum_s
        )
        lent = "Thousandths of a CPU that may be lent now."
        yield GaugeMetricFamily(f"{NAMESPACE}_headroom_cpu_milli", lent, self._milli)


class _StateCollector(Collector):
    """Reads the state at each scrape; before the first state it has no metrics."""

    def __init__(self, snapshot: Snapshot, loads: Callable[[], Mapping[str, float]]) -> None:
        self._snapshot = snapshot
        self._loads = loads

    def collect(self) -> Iterator[Metric]:
        state = self._snapshot()
        if state is None:
            return
        yield _family("pool_cpus", "CPUs in a pool.", "pool", _pool_sizes(state.pools))
        used = _by_pool(self._loads())
        yield _family("pool_load_cpus", "CPUs that the members of a pool sized by load use.", "pool", used)
        count = dict.fromkeys((qos.value for qos in QoSClass), 0)
        for assignment in state.containers.values():
            count[assignment.qos.value] += 1
        yield _family("containers", "Live containers.", "class", count)


def _pool_sizes(pools: Pools) -> dict[str, float]:
    """Return the CPUs of each pool by the operator's name. Groups are summed: their names may be a pod's label."""
    of_tiers = _by_pool({name: cpus.bit_count() for name, cpus in pools.tiers.items()})
    return {name: pools.cpus(name).bit_count() for name in POOLS} | of_tiers


def _by_pool(values: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in values.items():
        pool = name.partition("/")[0]
        found[pool] = found.get(pool, 0) + value
    return found


def _family(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"{NAMESPACE}_{name}", text, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family


class _WithoutCreated(Collector):
    """Leaves out the `_created` series, which double the page; the library's own switch is process-wide."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
