"""The fast loop: reads a few counters, decides the size of the reclaim pool, and applies it at once.

Most readings of an idle pool need no decision (`fast_loop.passed_over`). Changes in one direction are
recorded once a second at most, and once a minute while the pool swings (`lending.records`). In `observe` the loop
records the changes that it would make, and makes none. Where pools are sized by load, `Partition` takes the tick's
readings instead.

The size that the previous process left is kept until all running pods have been measured: a restart takes nothing from
any container.

While no pod is reclaimed the loop measures, slowly, and the pool `reclaim` equals `share`: a size would serve no pod.
The first reclaimed pod gets the size that is known by then, before its sandbox is placed. A tick that saw no reclaimed
pod must not end this size in between.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from threading import Lock, Thread
from typing import Final

from nri_coloc.core import cpuset, report
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import (
    ContainerCreating,
    ContainerStarting,
    Decision,
    Event,
    Inputs,
    PodStarted,
    PoolsSized,
    Synchronized,
)
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Change, Headroom
from nri_coloc.core.readings import FastReadings, Look
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.seams import UNPREPARED
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.host.alarm import Alarm
from nri_coloc.lending import fast_loop, records
from nri_coloc.lending.fast_loop import Glance, LoopMemory, Tick
from nri_coloc.lending.measured_groups import Measuring
from nri_coloc.lending.partition_loop import Partition
from nri_coloc.lending.records import Folding, Record, Step
from nri_coloc.lending.relocation import FileWatch, Relocation
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.placing import change, reclaim_cgroups
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator

TELL_EVERY_S: Final = 0.5
"""Seconds. Ticks without a change are reported together: fifty at once cost a fifth of fifty single reports."""

AFTER_FAILURE_S: Final = 1.0

NO_RECLAIMED_POD: Final = "own size of the reclaim pool ended: no reclaimed pod is left"

_FORGOTTEN: Final = LoopMemory()


class StepRecords:
    """Folds steps of the reclaim pool's size into records (`lending.records`); for the loop's thread."""

    def __init__(self, node: Node, report: Report) -> None:
        self._node = node
        self._report = report
        self._folding = Folding()
        self._untold: list[tuple[Step, float]] = []
        self._told_at = 0.0

    def tell(self, step: Step, now: float) -> None:
        """Fold ticks into records; ticks without a change come in batches."""
        if not self._node.tuning.reclaim.enabled:
            return
        self._untold.append((step, now))
        if step.change is Change.KEEP and now - self._told_at < TELL_EVERY_S:
            return
        self._told_at, untold, self._untold = now, self._untold, []
        for one, at in untold:
            self._folding, record = records.fold(self._folding, one, at)
            if record is not None:
                self._say(record)

    def say_rest(self) -> None:
        """Write the folded changes, because no further tick comes."""
        rest, self._folding = self._folding.rest, Folding()
        if rest is not None:
            self._say(rest)

    def _say(self, record: Record) -> None:
        event = (
            AuditEvent.RECLAIM_SUPPRESS if record.direction is Change.SUPPRESS else AuditEvent.RECLAIM_GROW
        )
        state = self._node.state
        decision = Decision(
            event,
            Reason.HEADROOM,
            record.because,
            pool=RECLAIM,
            before=Knobs(cpus=cpuset.render(record.before)),
            after=Knobs(cpus=cpuset.render(record.after)),
            inputs=record.inputs,
        )
        self._report.decided((decision,), state, state)


class ReclaimPool:
    """Sizes the reclaim pool by headroom. `prepare` is for any thread, all else for the loop's thread.

    hurry: an alarm that begins the next tick.
    """

    def __init__(
        self, node: Node, actuator: Actuator, relocation: Relocation, report: Report, hurry: Alarm
    ) -> None:
        self._node = node
        self._actuator = actuator
        self._relocation = relocation
        self._report = report
        self._hurry = hurry
        self._records = StepRecords(node, report)
        self._memory = _FORGOTTEN
        self._glance: Glance | None = None
        self._glance_for: tuple[object, object] = (None, None)
        self._would_have: CPUMask = 0
        self._sizing = Lock()
        self._knows_former = False
        self._found = 0

    def prepare(self, event: Event) -> AbstractContextManager[None]:
        """Return a context that sizes the reclaim pool, for an event with its first reclaimed pod and for the list."""
        match event:
            case PodStarted() if reclaim_cgroups.belongs(event.wish):
                return self._expecting_member()
            case ContainerCreating() | ContainerStarting():
                # a container that runs on the pool beside online ones; its pod did not size it
                is_first = (
                    event.wish.qos is QoSClass.RECLAIMED and RECLAIM not in self._node.state.pools.counts
                )
                return self._expecting_member() if is_first else UNPREPARED
            case Synchronized():
                return self._expecting_list(event)
            case _:
                return UNPREPARED

    @contextmanager
    def _expecting_member(self) -> Iterator[None]:
        """Size the reclaim pool, keep the size until its first pod is decided, then tick at once."""
        with self._sizing:
            self._size_for_a_member()
            yield
        self._hurry.ring()

    def _size_for_a_member(self) -> None:
        before, tuning = self._node.state, self._node.tuning
        if tuning.observe or not tuning.reclaim.enabled or RECLAIM in before.pools.counts:
            return
        measured = self._memory.lent.box
        source = "last measurement" if measured else "floor"
        inputs: Inputs = {"cpus": measured, "source": source}
        because = report.sentence("reclaim pool sized: the first reclaimed pod comes", inputs, inputs)
        outcome = self._node.decide(PoolsSized({RECLAIM: measured}, because, inputs=inputs))
        self._report.decided(outcome.decisions, outcome.state, before)

    @contextmanager
    def _expecting_list(self, listed: Synchronized) -> Iterator[None]:
        """Size the reclaim pool before the list is decided; then keep the size that the previous process left."""
        has_members = reclaim_cgroups.has_member_in(listed) or self._node.tuning.reclaim.host_groups
        with self._expecting_member() if has_members else nullcontext():
            yield
            if not self._knows_former:
                self._knows_former = True
                self._keep_former()

    def _keep_former(self) -> None:
        before, tuning = self._node.state, self._node.tuning
        if tuning.observe or RECLAIM not in before.pools.counts or tuning.reclaim.partition:
            return
        self._found = self._actuator.former_box()
        if self._found:
            inputs = {"cpus": self._found}
            why = "reclaim pool keeps its size until the first measurement: the previous process left it"
            because = report.sentence(why, inputs, inputs)
            outcome = self._node.decide(PoolsSized({RECLAIM: self._found}, because, Reason.RESTORED, inputs))
            self._report.decided(outcome.decisions, outcome.state, before)

    # ---- the loop's thread ----

    def begin_with_found(self, now: float) -> bool:
        """Begin again with the size that the previous process left, if it was found since; return whether it was.

        Measurements from before the runtime's list are forgotten: they took the use of reclaimed pods for online use.
        """
        if not self._found:
            return False
        with self._sizing:
            self._memory = fast_loop.resumed(self._found, now, self._node.tuning.reclaim)
            self._glance = None
            self._found = 0
        return True

    def passed_over(self, look: Look | None, late_s: float, state: NodeState) -> Glance | None:
        """Take a reading that needs no decision, and return the state after it; None if it needs one."""
        before, tuning = self._glance, self._node.tuning.reclaim
        known_state, known_tuning = self._glance_for
        if look is None or before is None or known_state is not state or known_tuning is not tuning:
            return None
        passed = fast_loop.passed_over(before, look, late_s)
        if passed is not None:
            self._glance = passed
        return passed

    def forget(self) -> None:
        """Forget all measurements, because pools are sized by load."""
        self._memory, self._glance = _FORGOTTEN, None

    def decide(self, readings: FastReadings, look: Look | None, state: NodeState) -> Tick:
        """Return the decision of a tick."""
        tuning = self._node.tuning.reclaim
        memory = fast_loop.caught_up(self._glance, self._memory)
        tick = fast_loop.tick(memory, readings, tuning, readings.at)
        self._memory = tick.memory
        self._glance, self._glance_for = fast_loop.glance_after(tick, readings, look, tuning), (state, tuning)
        return tick

    def carry_out(self, tick: Tick, state: NodeState, now: float) -> None:
        """Apply the decision of a tick to the state that it was taken for, and record it."""
        before, after = self._act(tick, state, now)
        stall = tick.stall
        online, milli = tick.headroom.online_cpu_milli, tick.headroom.cpu_milli
        self._records.tell(
            Step(
                before=before,
                after=after,
                online=online,
                headroom=milli,
                stall=stall.blamed,
                own_stall=stall.own,
                grounds=tick.grounds,
            ),
            now,
        )

    def say_rest(self) -> None:
        """Write the folded changes, because no further tick comes."""
        self._records.say_rest()

    def _act(self, tick: Tick, state: NodeState, now: float) -> tuple[CPUMask, CPUMask]:
        """Carry a size out; return the reclaim pool's CPUs before and after, equal if there is no reclaimed pod."""
        if self._node.tuning.observe:
            return self._observed(tick, state)
        if self._counts(tick, state) == state.pools.counts:
            self._relocation.guard(state, now)
            return state.pools.reclaim, state.pools.reclaim
        with self._sizing:
            before = self._node.state
            if self._found:  # decided before the former size was known
                return before.pools.reclaim, before.pools.reclaim
            counts = self._counts(tick, before)  # a pod may have come since the tick began
            because = records.because(tick.grounds) if counts else NO_RECLAIMED_POD
            inputs = records.inputs(tick.grounds) if counts else {}
            outcome = self._node.decide(PoolsSized(counts, because, inputs=inputs))
        self._relocation.carry_out(outcome, before)
        # records of ticks fold changes of a size; that a size begins or ends is a record of its own
        begins_or_ends = [d for d in outcome.decisions if d.event is AuditEvent.POOL_RESIZE]
        self._report.decided(begins_or_ends, outcome.state, before)
        after = outcome.state.pools.reclaim
        return (after if begins_or_ends else before.pools.reclaim), after

    def _observed(self, tick: Tick, state: NodeState) -> tuple[CPUMask, CPUMask]:
        """Return the CPUs that the reclaim pool would have had and would have now; record its first size."""
        before = self._would_have
        if tick.target.change is not Change.KEEP:
            self._would_have = _sized_near(before or state.pools.reclaim, tick.target.cpus, state)
            if not before:
                self._say_first_size(state)
        now = self._would_have or state.pools.reclaim
        return before or now, now

    def _say_first_size(self, state: NodeState) -> None:
        had, has = (Knobs(cpus=cpuset.render(cpus)) for cpus in (state.pools.reclaim, self._would_have))
        because = "reclaim pool would be sized: mode observe only records it"
        event, reason = AuditEvent.POOL_RESIZE, Reason.FIRST_SIZE
        inputs: Inputs = {
            "cpus": self._would_have.bit_count(),
            "share_cpus": cpuset.render(state.pools.share),
        }
        decision = Decision(event, reason, because, pool=RECLAIM, before=had, after=has, inputs=inputs)
        self._report.decided((decision,), state, state)

    def _counts(self, tick: Tick, state: NodeState) -> Mapping[str, int]:
        """Return the pools that have a size in a state, and their CPUs by name."""
        lends = self._node.tuning.reclaim.enabled and self._relocation.has_members(state)
        return {RECLAIM: tick.target.cpus} if lends else {}


class Lending:
    """The loop's thread. `start`, `prepare` and `stop` are for any thread.

    headroom: of the newest tick.
    relocation: moves cgroups after a change of sizes.
    file_watch: watches the files of reclaimed pods, on a thread that begins and ends with this one.
    """

    def __init__(
        self,
        node: Node,
        actuator: Actuator,
        sampler: FastSampler,
        report: Report,
        *,
        relocation: Relocation,
        file_watch: FileWatch,
    ) -> None:
        self.headroom = Headroom()
        self.ticked_at = 0.0
        self._node = node
        self._report = report
        self._file_watch = file_watch
        self._alarm = Alarm()
        self._measuring = Measuring(node, sampler, relocation, report)
        self._pool = ReclaimPool(node, actuator, relocation, report, self._alarm)
        self._partition = Partition(node, relocation, report)
        self._partitions = False
        self._late: list[float] = []
        self._stopping = False
        self._thread = Thread(target=self._run, name="lending", daemon=True)

    def start(self) -> None:
        """Begin to measure and to lend."""
        self._thread.start()
        self._file_watch.start()

    def prepare(self, event: Event) -> AbstractContextManager[None]:
        """Return a context that sizes the reclaim pool, for an event with its first reclaimed pod and for the list."""
        return self._pool.prepare(event)

    def look_now(self) -> None:
        """Tick at once, because the settings changed."""
        self._alarm.ring()

    def stop(self) -> None:
        """End after the present tick; the reclaim pool keeps its last size."""
        self._stopping = True
        self._alarm.ring()
        self._file_watch.stop()

    def ended(self, seconds: float) -> bool:
        """Return whether both threads have ended within so many seconds, or never began."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive() and self._file_watch.ended(seconds)

    def _run(self) -> None:
        planned = time.monotonic()
        self._measuring.begin()
        while not self._stopping:
            began = time.monotonic()
            try:
                next_s = self._tick(planned)
            except Exception as error:  # the loop must survive any failure of a tick
                self._report.log.exception("a tick of the fast loop failed", exc_info=error)
                self._late.clear()
                next_s = AFTER_FAILURE_S
            # counted from the tick's begin: one that was stopped half way makes the next one late
            planned = began + next_s
            if self._alarm.sleep(planned - time.monotonic()):
                planned = time.monotonic()
        self._partition.say_rest()
        self._pool.say_rest()
        self._measuring.close()

    def _tick(self, planned: float) -> float:
        """Take a reading; if it needs a decision decide, act and record. Return the seconds to the next tick."""
        now = time.monotonic()
        if self._pool.begin_with_found(now):
            self._measuring.forget()
        is_told = self._node.told  # asked before the state, as `Node` has it
        state, late_s = self._node.state, now - planned
        self._late.append(late_s)
        self._measuring.watch(state, now)
        look = self._measuring.look(now)
        passed = self._pool.passed_over(look, late_s, state)
        if passed is not None:
            self.ticked_at = now
            return passed.next_s
        late, self._late = self._late, []
        readings = self._measuring.readings(now, late, state, has_looked=look is not None)
        self._follow_partition()
        if self._partitions:
            next_s = self._by_tiers(readings, state, is_told=is_told)
        else:
            next_s = self._by_headroom(readings, look, state, is_told=is_told)
        self.ticked_at = now
        self._report.metrics.ticks(late, self.headroom.cpu_milli)
        return next_s

    def _follow_partition(self) -> None:
        """Note whether all pools are sized by load. If that changed, the previous owner of sizes forgets them."""
        tuning, before = self._node.tuning.reclaim, self._partitions
        self._partitions = tuning.enabled and tuning.partition
        if self._partitions and not before:
            self._pool.forget()
        elif before and not self._partitions:
            self._partition.forget()

    def _by_tiers(self, readings: FastReadings, state: NodeState, *, is_told: bool) -> float:
        tick = self._partition.tick(readings, state)
        self._found_headroom(tick.headroom, is_told=is_told)
        return tick.next_s

    def _by_headroom(
        self, readings: FastReadings, look: Look | None, state: NodeState, *, is_told: bool
    ) -> float:
        tick = self._pool.decide(readings, look, state)
        self._found_headroom(tick.headroom, is_told=is_told)
        self._pool.carry_out(tick, state, readings.at)
        return tick.next_s

    def _found_headroom(self, headroom: Headroom, *, is_told: bool) -> None:
        """Store the headroom, which is unknown until the runtime has sent its list."""
        self.headroom = headroom if is_told else Headroom()


def _sized_near(before: CPUMask, count: int, state: NodeState) -> CPUMask:
    """Return the reclaim pool's CPUs if its size were carried out, near the CPUs that it would have had before."""
    former = replace(state, pools=replace(state.pools, reclaim=before, counts={}))
    return change.sized(former, PoolsSized({RECLAIM: count}, "")).state.pools.reclaim
