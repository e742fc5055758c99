"""Record changes of the reclaim pool: fold the ticks between two records into one, and word its cause.

A pool that moves one way gets one record a second, a pool that swings one a minute. Fifty ticks a second would flood
the audit. A record of the last tick alone would hide an important change before it. So the changes between two
records are folded into one record with the extremes. Pure; time is an argument, seconds of one clock.

The words name the binding term and the figures that operators ask for. The size can be derived again from `inputs`. A
tick keeps only the figures; they become words when a record is written.
"""

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.lending import Binding, Change
from nri_coloc.core.report import ONE_WAY_S, SWINGS_FROM, Cadence, Extent, shown
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.pool_size import Grounds, Scene, dead_band_milli, step_milli

Input = int | float | str | None


class Step(NamedTuple):
    """One tick's change of the pool.

    before, after: the pool's CPUs before and after the tick.
    online, headroom: milli-CPU.
    stall: stall blamed on lending, share of wall time, 0 to 1.
    own_stall: the remaining stall, share of wall time, 0 to 1.
    grounds: input of the tick's reason.
    """

    before: CPUMask
    after: CPUMask
    online: int
    headroom: int
    stall: float
    own_stall: float
    grounds: Grounds | None

    @property
    def change(self) -> Change:
        """Return the direction of this tick. Other CPUs of the same number count as growth."""
        if self.before == self.after:
            return Change.KEEP
        return Change.SUPPRESS if self.after.bit_count() < self.before.bit_count() else Change.GROW


class Record(NamedTuple):
    """The pool's changes from `since` to `at`, folded into one.

    since, at: seconds of the loop's clock.
    ticks: ticks within this time.
    turns: changes of direction within this time.
    change: direction of the last change.
    before, after: the pool's CPUs at both ends.
    cpus: fewest and most CPUs.
    online, headroom: lowest and highest, milli-CPU.
    stall, own_stall: the worst of each, share of wall time.
    grounds: input of the reason of the last tick that changed the CPUs.
    """

    since: float
    at: float
    ticks: int
    turns: int
    change: Change
    before: CPUMask
    after: CPUMask
    cpus: Extent
    online: Extent
    headroom: Extent
    stall: float
    own_stall: float
    grounds: Grounds | None

    @property
    def direction(self) -> Change:
        """Return the direction from one end to the other; the last one if both ends have the same number of CPUs."""
        had, has = self.before.bit_count(), self.after.bit_count()
        if had == has:
            return self.change
        return Change.SUPPRESS if has < had else Change.GROW

    @property
    def because(self) -> str:
        """Return `<what was done>: <cause> (figures)`. A swing is named as a swing, with its extremes."""
        cpus = f"cpus {self.before.bit_count()} → {self.after.bit_count()}"
        if self.turns >= SWINGS_FROM:
            done = f"swing: {self.turns} turns in {self.at - self.since:.0f} s"
            cpus = f"between {self.cpus.low} and {self.cpus.high}, {cpus}"
        else:
            done = "suppress" if self.direction is Change.SUPPRESS else "grow"
        if self.grounds is None:
            return f"{done}: lending is disabled ({cpus})"
        return f"{done}: {cause(self.grounds)} ({figures(self.grounds)}, {cpus})"

    @property
    def inputs(self) -> Mapping[str, Input]:
        """Return every figure of the tick that changed the size last, and the extremes of the record's time."""
        return {
            **inputs(self.grounds),
            "span_s": round(self.at - self.since, 3),
            "ticks": self.ticks,
            "turns": self.turns,
            "cpus_before": self.before.bit_count(),
            "cpus_after": self.after.bit_count(),
            "cpus_low": self.cpus.low,
            "cpus_high": self.cpus.high,
            "online_low_milli": self.online.low,
            "online_high_milli": self.online.high,
            "headroom_low_milli": self.headroom.low,
            "headroom_high_milli": self.headroom.high,
            "worst_stall": round(self.stall, 4),
            "worst_own_stall": round(self.own_stall, 4),
        }


class Folding(NamedTuple):
    """The state between two ticks. `open`: the ticks since the last record, with `change` KEEP for no change."""

    cadence: Cadence = Cadence()
    open: Record | None = None

    @property
    def rest(self) -> Record | None:
        """Return the record to write if the daemon ended now; None for none."""
        return None if self.open is None or self.open.change is Change.KEEP else self.open


def fold(folding: Folding, step: Step, at: float) -> tuple[Folding, Record | None]:
    """Return the state after one more tick, and the record to write now, if any."""
    cadence, change = folding.cadence, step.change
    record = _folded(folding.open, step, at, turned=cadence.turns_by(change))
    is_allowed, after = cadence.allows(change, at), cadence.moved(change, at)
    if record.change is not Change.KEEP:
        if is_allowed:
            return Folding(after._replace(written_at=at)), record
        return Folding(after, record), None
    return Folding(after, None if at - record.since >= ONE_WAY_S else record), None


def _folded(known: Record | None, step: Step, at: float, *, turned: bool) -> Record:
    """Return a record with one more tick.

    If another cause changed the pool since the last tick, the record begins with the CPUs after that change.
    """
    is_next = known is not None and known.after == step.before
    if known is None or not (is_next or known.change is not Change.KEEP):
        known = _begun(step, at)
    changed = step.change is not Change.KEEP
    return Record(
        since=known.since,
        at=at,
        ticks=known.ticks + 1,
        turns=known.turns + turned,
        change=step.change if changed else known.change,
        before=known.before if is_next else step.before,
        after=step.after,
        cpus=known.cpus.with_value(step.after.bit_count()),
        online=known.online.with_value(step.online),
        headroom=known.headroom.with_value(step.headroom),
        stall=max(known.stall, step.stall),
        own_stall=max(known.own_stall, step.own_stall),
        grounds=step.grounds if changed else known.grounds,
    )


def _begun(step: Step, at: float) -> Record:
    had = step.before.bit_count()
    return Record(
        since=at,
        at=at,
        ticks=0,
        turns=0,
        change=Change.KEEP,
        before=step.before,
        after=step.before,
        cpus=Extent(had, had),
        online=Extent(step.online, step.online),
        headroom=Extent(step.headroom, step.headroom),
        stall=0.0,
        own_stall=0.0,
        grounds=None,
    )


# ---- the words and figures of one tick ----


def because(grounds: Grounds | None) -> str:
    """Return `resize: <cause> (figures)`, 160 characters at most; None means that lending is disabled."""
    if grounds is None:
        return "resize: lending is disabled, the reclaim pool has all CPUs of share"
    cpus = f"cpus {grounds.before.box} → {grounds.verdict.lent.box}"
    return f"resize: {cause(grounds)} ({figures(grounds)}, {cpus})"


def figures(grounds: Grounds) -> str:
    """Return the figures that operators ask for first."""
    scene = grounds.scene
    system = {"system_milli": scene.system} if _larger(scene) == "system" else {}
    found = {"online_milli": scene.online, **system, "lendable_cpus": scene.lendable}
    if grounds.verdict.binding is Binding.GROWTH_STEP:
        found["step_milli"] = step_milli(scene.lendable, grounds.tuning)
    lend = (shown("lend", grounds.tuning.lend),) if grounds.tuning.lend < 1 else ()
    return ", ".join([*_stall(grounds), *(shown(name, value) for name, value in found.items()), *lend])


def inputs(grounds: Grounds | None) -> Mapping[str, Input]:
    """Return every figure by name; milli-CPU, times in seconds, None for never."""
    if grounds is None:
        return {}
    return {**_of_use(grounds), **_of_sizes(grounds), **_of_stall(grounds), **_of_times(grounds)}


def _of_use(grounds: Grounds) -> Mapping[str, Input]:
    before, verdict, scene, tuning = grounds
    return {
        "binding": verdict.binding.value,
        "lendable_cpus": scene.lendable,
        "threads_per_core": scene.threads,
        "max_cpus": scene.most,
        "online_milli": scene.online,
        "system_milli": scene.system,
        "peak_milli": scene.peak,
        "rise_milli": scene.rise,
        "watermark": tuning.watermark,
        "reserve_milli": tuning.reserve_milli,
        "lend": tuning.lend,
        "lend_before": before.lend,
        "left_milli": verdict.now_milli,
        "left_by_peak_milli": verdict.peak_milli,
    }


def _of_sizes(grounds: Grounds) -> Mapping[str, Input]:
    before, verdict, scene, tuning = grounds
    after = verdict.lent
    return {
        "before_milli": before.milli,
        "before_cpus": before.box,
        "after_milli": after.milli,
        "after_cpus": after.box,
        "more_cpus": after.more.cpus,
        "step_milli": step_milli(scene.lendable, tuning),
        "dead_band_milli": dead_band_milli(scene.lendable, tuning),
        "whole_core_from": tuning.whole_core_from,
        "yields": scene.yields,
        "equal_pod": scene.equal,
        "extra_core_back_s": _seconds(max(0.0, after.more.back_at - scene.now)),
        "yielded_from": tuning.yielded_from,
        "cut": tuning.cut,
        "pause": tuning.paused,
    }


def _of_stall(grounds: Grounds) -> Mapping[str, Input]:
    scene, tuning = grounds.scene, grounds.tuning
    return {
        "stall": scene.stall.blamed,
        "lasting_stall": scene.stall.lasting,
        "own_stall": scene.stall.own,
        "stall_signal": scene.stall.signal.value,
        "stall_bound": tuning.stall / 2 if scene.yields else tuning.stall,
    }


def _of_times(grounds: Grounds) -> Mapping[str, Input]:
    before, _, scene, tuning = grounds
    return {
        "dwell_s": _seconds(scene.dwell_s),
        "step_s": _seconds(before.step_s(tuning)),
        "cut_ago_s": _seconds(scene.now - before.cut_at),
        "grown_ago_s": _seconds(scene.now - before.grown_at),
        "known_for_s": _seconds(scene.now - scene.known_since),
        "rate_age_s": _seconds(scene.age_s),
        "late_s": _seconds(scene.late_s),
        "period_s": _seconds(scene.period_s),
        "stale_s": tuning.stale_s,
    }


def _seconds(span: float) -> float | None:
    return round(span, 6) if isfinite(span) else None


_CAUSES: Final[Mapping[Binding, str]] = MappingProxyType(
    {
        Binding.PAUSED: "an operator paused lending",
        Binding.STALL: "online pods stalled",
        Binding.DWELL: "the last suppression is too recent to grow",
        Binding.GROWTH_STEP: "online use leaves room, one step",
        Binding.DEAD_BAND: "online use moved within the dead band",
        Binding.ALL_LENT: "online use is low, all is lent",
        Binding.FLOOR: "online use leaves only the floor",
        Binding.SCHEDULE: "the lent part fell",
    }
)


_GROWING: Final = frozenset({Binding.GROWTH_STEP, Binding.ALL_LENT})


def cause(grounds: Grounds) -> str:
    """Return the term that decided the size, and the change of the extra core.

    If the term allows a larger pool and the pool shrinks, the extra core alone is the cause.
    """
    before, after = grounds.before, grounds.verdict.lent
    if grounds.verdict.binding in _GROWING and before.more.cpus > after.more.cpus and before.box > after.box:
        return "extra core taken back"
    return f"{_bound(grounds)}{_extra_core(grounds)}"


def _bound(grounds: Grounds) -> str:
    before, verdict, scene, tuning = grounds
    binding = verdict.binding
    if before.lend < tuning.lend and binding in (Binding.ONLINE_USE, Binding.GROWTH_STEP):
        return "the lent part rose, one step" if binding is Binding.GROWTH_STEP else "the lent part rose"
    if binding is Binding.FLOOR and tuning.lend < 1 and verdict.unused_milli >= 1000:
        return "the lent part leaves only the floor"
    if binding is Binding.ONLINE_USE and before.cpus > scene.lendable:
        return "fewer CPUs are lendable"
    if binding is Binding.ONLINE_USE:
        return f"{_larger(scene)} use {'rose' if verdict.lent.milli < before.milli else 'fell'}"
    if binding is Binding.LEARNING:
        kept = "size kept as found" if scene.now < scene.learns_until else "only the floor is lent"
        return f"use is not known yet, {kept}"
    if binding is Binding.STALE:
        return f"readings are {min(scene.age_s, 999):.2f} s old, {_doubtful(scene.age_s, tuning)}"
    if binding is Binding.LATE:
        return f"the tick was {min(scene.late_s, 999):.2f} s late, {_doubtful(scene.late_s, tuning)}"
    return _CAUSES.get(binding, binding.value)


def _larger(scene: Scene) -> str:
    """Return which use beside reclaimed pods is larger, that of online pods or of the rest of the node."""
    return "system" if scene.system > scene.online else "online"


def _doubtful(delay_s: float, tuning: ReclaimTuning) -> str:
    """Return what readings permit that are old, or that come from a late tick."""
    return "only the floor is lent" if delay_s > tuning.stale_s else "the pool does not grow"


def _extra_core(grounds: Grounds) -> str:
    had, has = grounds.before.more.cpus, grounds.verdict.lent.more.cpus
    if had == has:
        return ""
    return ", extra core granted" if has > had else ", extra core taken back"


def _stall(grounds: Grounds) -> tuple[str, ...]:
    """Return the stall that was judged, share of wall time. Behind tasks that yield only a lasting stall counts."""
    if grounds.verdict.binding is not Binding.STALL:
        return ()
    stall = grounds.scene.stall
    judged = ("lasting_stall", stall.lasting) if grounds.scene.yields else ("stall", stall.blamed)
    return (shown(*judged),)
