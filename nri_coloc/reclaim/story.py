"""Ticks become records: one at each change of direction, else one a second at most, with the extremes between.

Fifty ticks a second would drown the audit, and a record of the last one alone would hide the moment that mattered.
A second in which the box kept its size leaves no record.
"""

from typing import NamedTuple

from nri_coloc.model.lending import Change
from nri_coloc.reclaim.loop import Tick
from nri_coloc.reclaim.sentence import Grounds

PERIOD_S = 1.0
"""DESIGN 4.6: the fast loop writes one record per change of direction or per second."""

_NEVER = float("-inf")


class Extent(NamedTuple):
    """The lowest and the highest of something."""

    low: int
    high: int

    def with_value(self, value: int) -> "Extent":
        """Return the extent that covers `value` too."""
        low, high = self
        if low <= value <= high:
            return self
        return Extent(min(low, value), max(high, value))


class Record(NamedTuple):
    """What the box went through from `since` to `at`, seconds of the loop's clock.

    `change`: the direction; `before` and `after`: its CPUs at both ends, `cpus` in between. `online` and `headroom`
    are milli-CPU, `stall` and `own_stall` the worst shares of wall time (0 to 1), blamed on the box or not. `grounds`
    are those of the last tick that changed the size.
    """

    since: float
    at: float
    ticks: int
    change: Change
    before: int
    after: int
    cpus: Extent
    online: Extent
    headroom: Extent
    stall: float
    own_stall: float
    grounds: Grounds | None


class Story(NamedTuple):
    """What was not told yet: `open` since the last record, its `change` is KEEP while the size did not change."""

    told_at: float = _NEVER
    direction: Change = Change.KEEP
    cpus: int = 0
    open: Record | None = None


def tell(story: Story, tick: Tick, at: float) -> tuple[Story, tuple[Record, ...]]:
    """Add one tick; return what is to be written now, at most two records."""
    change, told = tick.target.change, []
    pending = story.open
    turned = change is not Change.KEEP and change is not story.direction
    if turned and pending is not None and pending.change is not Change.KEEP:
        told.append(pending)
        pending = None
    record = _folded(pending, tick, at, story.cpus)
    direction = story.direction if change is Change.KEEP else change
    changed = record.change is not Change.KEEP
    if turned or (changed and at - story.told_at >= PERIOD_S):
        return Story(at, direction, record.after), (*told, record)
    forgotten = not changed and at - record.since >= PERIOD_S
    return Story(story.told_at, direction, record.after, None if forgotten else record), ()


def is_felt(record: Record, least: int, most: int) -> bool:
    """Whether the box had more than one size, where an operator bounds it; a `most` of 0 is no bound."""
    sizes = (max(cpus, least) for cpus in (record.before, *record.cpus))
    return len({min(size, most) if most else size for size in sizes}) > 1


def _folded(pending: Record | None, tick: Tick, at: float, before: int) -> Record:
    target, headroom, stall = tick.target, tick.headroom, tick.stall
    cpus, online, milli = target.cpus, headroom.online_cpu_milli, headroom.cpu_milli
    if pending is None:
        pending = Record(
            since=at,
            at=at,
            ticks=0,
            change=Change.KEEP,
            before=before,
            after=before,
            cpus=Extent(cpus, cpus),
            online=Extent(online, online),
            headroom=Extent(milli, milli),
            stall=0.0,
            own_stall=0.0,
            grounds=None,
        )
    changed = target.change is not Change.KEEP
    return Record(
        since=pending.since,
        at=at,
        ticks=pending.ticks + 1,
        change=target.change if changed else pending.change,
        before=pending.before,
        after=cpus,
        cpus=pending.cpus.with_value(cpus),
        online=pending.online.with_value(online),
        headroom=pending.headroom.with_value(milli),
        stall=max(pending.stall, stall.blamed),
        own_stall=max(pending.own_stall, stall.own),
        grounds=tick.grounds if changed else pending.grounds,
    )
