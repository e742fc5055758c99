"""Fold changes of the reclaim pool into audit records.

A pool that moves one way gets one record a second, a pool that swings one a minute. Fifty ticks a second would flood
the audit. A record of the last tick alone would hide an important change before it. So the changes between two
records are folded into one record with the extremes. Pure; time is an argument, seconds of one clock.
"""

from collections.abc import Mapping
from typing import NamedTuple

from nri_coloc.core.cadence import ONE_WAY_S, SWINGS_FROM, Cadence, Extent
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.lending import Change
from nri_coloc.lending import sentence
from nri_coloc.lending.sentence import Grounds, Input


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
    if known is None:
        known = _begun(step, at)
    changed = step.change is not Change.KEEP
    return Record(
        since=known.since,
        at=at,
        ticks=known.ticks + 1,
        turns=known.turns + turned,
        change=step.change if changed else known.change,
        before=known.before,
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


def because(record: Record) -> str:
    """Return `<what was done>: <cause> (figures)`. A swing is named as a swing, with its extremes."""
    cpus = f"cpus {record.before.bit_count()} → {record.after.bit_count()}"
    if record.turns >= SWINGS_FROM:
        done = f"swing: {record.turns} turns in {record.at - record.since:.0f} s"
        cpus = f"between {record.cpus.low} and {record.cpus.high}, {cpus}"
    else:
        done = "suppress" if record.direction is Change.SUPPRESS else "grow"
    if record.grounds is None:
        return f"{done}: lending is disabled ({cpus})"
    return f"{done}: {sentence.cause(record.grounds)} ({sentence.figures(record.grounds)}, {cpus})"


def inputs(record: Record) -> Mapping[str, Input]:
    """Return every figure of the tick that changed the size last, and the extremes of the record's time."""
    return {
        **sentence.inputs(record.grounds),
        "span_s": round(record.at - record.since, 3),
        "ticks": record.ticks,
        "turns": record.turns,
        "cpus_before": record.before.bit_count(),
        "cpus_after": record.after.bit_count(),
        "cpus_low": record.cpus.low,
        "cpus_high": record.cpus.high,
        "online_low_milli": record.online.low,
        "online_high_milli": record.online.high,
        "headroom_low_milli": record.headroom.low,
        "headroom_high_milli": record.headroom.high,
        "worst_stall": round(record.stall, 4),
        "worst_own_stall": round(record.own_stall, 4),
    }
