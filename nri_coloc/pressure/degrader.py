"""Degrade containers of online pools that are short of CPU: read their use, and let `actions.degrade_cpu` decide.

Containers are read only while an online pod waits for CPU, or a container is degraded. The owner of all quotas writes
and records the change. A lowered quota needs this process to restore it: it is restored when the daemon ends, and after
the runtime's first list of the next process.

In mode `observe` nothing is written: the quotas that would be lowered are recorded. A container then counts as using no
more than its quota would allow.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from nri_coloc.core.changed_quota import ChangedQuota
from nri_coloc.core.knobs import NO_LIMIT, Knobs
from nri_coloc.core.readings import GroupReading, milli_between
from nri_coloc.core.reasons import Reason
from nri_coloc.core.report import Recorder
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing.node import Node
from nri_coloc.pressure import words
from nri_coloc.pressure.actions import degrade_cpu
from nri_coloc.pressure.actions.degrade_cpu import NO_COURSE, Member, Pool, Step
from nri_coloc.pressure.population import LatestPopulation
from nri_coloc.pressure.rates import SHORTEST_S
from nri_coloc.repair import targets

KNOB: Final = "quota"
"""The audit's name of the value."""


class Reader(Protocol):
    """Reads one container's counters; returns None if it is gone."""

    def cpu(self, path: str, at: float) -> GroupReading | None: ...


class Quotas(Protocol):
    """The owner of all quotas."""

    @property
    def changed(self) -> Mapping[str, ChangedQuota]: ...
    def change(self, changed: Mapping[str, ChangedQuota]) -> None: ...
    def is_refused(self, container_id: str) -> bool: ...
    def is_degraded(self, container_id: str) -> bool: ...


class Judge(Protocol):
    """What the degrader needs of the verdicts."""

    @property
    def short_of_cpu(self) -> Mapping[str, int]:
        """Return the hurt readings in a row, by pod that waits for CPU without a reclaimed culprit."""


class _Read(NamedTuple):
    """The containers of one turn: their uses in milli-CPU, None if unknown."""

    readings: Mapping[str, GroupReading]
    uses: Mapping[str, int | None]


class Degrader:
    """Degrades and restores; one thread calls `look`."""

    def __init__(self, node: Node, reader: Reader, *, judge: Judge, quotas: Quotas, report: Recorder) -> None:
        self._node = node
        self._reader = reader
        self._judge = judge
        self._quotas = quotas
        self._report = report
        self._course = NO_COURSE
        self._observes = False
        self._before: Mapping[str, GroupReading] = {}
        self._looked_at = float("-inf")
        self._pods = LatestPopulation()

    @property
    def degraded(self) -> dict[str, dict[str, str]]:
        """Return the lowered quotas that are in force in words, by container id and knob; for any thread."""
        return {
            k: {KNOB: words.cores(one.limit)}
            for k, one in self._course.degraded.items()
            if self._quotas.is_degraded(k)
        }

    def look(self, now: float) -> None:
        """Take one turn; nothing before the runtime's first list."""
        if not self._node.told or now - self._looked_at < SHORTEST_S:
            return
        self._looked_at = now
        state, tuning = self._node.state, self._node.tuning
        is_on = tuning.pressure.degrade and tuning.pressure.cpu.judges
        if tuning.observe or not is_on:
            self._restore(Reason.RECONFIGURED, "the settings no longer allow it")
        if tuning.observe != self._observes or not is_on:
            self._course, self._before, self._observes = NO_COURSE, {}, tuning.observe
        if is_on:
            self._turn(state, self._hurt(tuning.pressure.cpu.up), now)

    def _turn(self, state: NodeState, hurt: frozenset[str], now: float) -> None:
        if not (self._judge.short_of_cpu or self._course.degraded):
            self._before = {}
            return
        found = self._read(state, now)
        self._before = found.readings
        self._course, steps = degrade_cpu.turn(self._course, self._pools(state, found, hurt), now)
        if self._observes:
            self._record(steps, state)
        else:
            self._carry_out(steps, state, now)

    def end(self) -> None:
        """Restore all quotas after the last `look`: no process watches them after the daemon's end."""
        self._course = NO_COURSE
        self._restore(Reason.UNWATCHED, "the daemon ends")

    def _hurt(self, up: int) -> frozenset[str]:
        return frozenset(k for k, readings in self._judge.short_of_cpu.items() if readings >= up)

    # ---- what is read ----

    def _read(self, state: NodeState, now: float) -> _Read:
        readings: dict[str, GroupReading] = {}
        for one in _shared(state):
            path = targets.container_path(one)
            reading = self._reader.cpu(path, now) if path is not None else None
            if reading is not None:
                readings[one.id] = reading
        uses = {k: milli_between(self._before.get(k), reading) for k, reading in readings.items()}
        return _Read(readings, uses)

    def _pools(self, state: NodeState, found: _Read, hurt: frozenset[str]) -> dict[str, Pool]:
        """Return the online pools with the containers that run."""
        members: dict[str, dict[str, Member]] = {}
        cpus: dict[str, float] = {}
        for one in _shared(state):
            if one.id in found.readings:
                cpus[one.pool] = 1000.0 * state.cpus_of(one).bit_count()
                members.setdefault(one.pool, {})[one.id] = self._member(state, one, found.uses[one.id])
        return {
            name: Pool(
                cpus[name], some, _all_within(state, hurt & {one.pod_id for one in some.values()}, name)
            )
            for name, some in members.items()
        }

    def _member(self, state: NodeState, one: Assignment, use: int | None) -> Member:
        place = state.pods[one.container.pod_id]
        online = self._pods.of(state).online.get(place.pod.id)
        facts, own = state.facts.of(place.pod), one.container.resources.cpu_quota
        return Member(
            pod_id=place.pod.id,
            use=self._use(one.id, use),
            request=state.cpu_request_of(place.pod.id),
            most=own * 1000 / one.container.resources.cpu_period if own > 0 else float("inf"),
            may=one.is_managed and online is not None and online.may_be_degraded,
            namespace=place.pod.namespace,
            kube_priority=0 if facts is None else facts.priority,
            priority=one.wish.priority,
        )

    def _use(self, container_id: str, use: int | None) -> float | None:
        """Return the use of a container, milli-CPU; in mode observe at most the quota that it would have."""
        degraded = self._course.degraded.get(container_id) if self._observes else None
        return use if use is None or degraded is None else min(use, degraded.limit)

    # ---- what is written ----

    def _carry_out(self, steps: Iterable[Step], state: NodeState, now: float) -> None:
        changed = {step.container_id: _changed(step, state) for step in steps}
        left_out = self._lowered.keys() - self._course.degraded.keys() - changed.keys()
        gone = {k: self._lowered[k].ended("its container or pool is gone") for k in left_out}
        self._quotas.change(gone | changed)
        refused = [s for s in steps if s.limit is not None and self._quotas.is_refused(s.container_id)]
        for step in refused:
            self._course = degrade_cpu.refused(self._course, step, now)
        self._quotas.change(
            {s.container_id: changed[s.container_id].ended("the kernel refused it") for s in refused}
        )

    def _record(self, steps: Iterable[Step], state: NodeState) -> None:
        """Record the quotas that would be lowered."""
        decisions = []
        for step in steps:
            if step.limit is not None:
                one = state.containers[step.container_id]
                record = words.of_degrading(step, _names(step, state), observes=True)
                before = Knobs(
                    quota=_quota(one, step.before) or one.container.resources.cpu_quota or NO_LIMIT
                )
                after = Knobs(quota=_quota(one, step.limit))
                decisions.append(record._replace(subject=one, before=before, after=after))
        self._report.decided(decisions, state, state)

    @property
    def _lowered(self) -> dict[str, ChangedQuota]:
        """The lowered quotas, also those to be restored."""
        return {k: one for k, one in self._quotas.changed.items() if not one.is_raise}

    def _restore(self, reason: Reason, why: str) -> None:
        """Restore all containers; nothing without any."""
        lowered = self._lowered
        ends = {
            k: one.ended(why)._replace(reason=reason) for k, one in lowered.items() if one.quota is not None
        }
        if lowered:
            self._quotas.change(lowered | ends)


def _shared(state: NodeState) -> Iterable[Assignment]:
    """Return the containers of online pools."""
    return filter(_is_shared, state.containers.values())


def _is_shared(one: Assignment) -> bool:
    """Return whether a container is in an online pool: it has no CPUs of its own."""
    return one.qos is QoSClass.SHARED and not one.exclusive and not one.follows


def _all_within(state: NodeState, pods: frozenset[str], pool: str) -> frozenset[str]:
    """Return the pods that have all their containers in a pool: stall and request are of the whole pod."""
    return frozenset(k for k in pods if all(_is_shared(one) and one.pool == pool for one in state.of_pod(k)))


def _quota(one: Assignment, limit: float | None) -> int | None:
    """Return a limit in milli-CPU as a quota, µs, rounded up; None for none."""
    return None if limit is None else -int(-limit * one.container.resources.cpu_period // 1000)


def _changed(step: Step, state: NodeState) -> ChangedQuota:
    """Return the quota of a step with its record."""
    one = state.containers[step.container_id]
    record = words.of_degrading(step, _names(step, state))
    return ChangedQuota(
        quota=_quota(one, step.limit),
        own=one.container.resources.cpu_quota,
        event=record.event,
        reason=record.reason,
        because=record.because,
        inputs=record.inputs or {},
    )


def _names(step: Step, state: NodeState) -> list[str]:
    places = (state.pods.get(k) for k in sorted(step.victims))
    return [place.pod.full_name for place in places if place is not None]
