"""Decide from the time alone how much is lent: `at` returns the state, the part that is lent, and the next change.

The states are seen from the online side:

    Online           nothing is lent
    OnlineToOffline  lending rose within the last minute; CPU, memory and the offer grow to it step by step
    Offline          the lent part is lent in full
    OfflineToOnline  lending falls within the grace: running pods keep the present part, no new ones come

If several hold, OfflineToOnline comes first, then Online. The function keeps nothing, so a clock that is set forward
or back gives the state of the new time.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

from nri_coloc.core.settings import ScheduleTuning
from nri_coloc.schedule.switch import ON, Switch
from nri_coloc.schedule.windows import DAY_S, Stretch, Timeline, timeline

RISE_S: Final = 60.0
"""Seconds of OnlineToOffline. An offer holds for a minute, lent memory rises after 30 s, CPUs follow in seconds."""

_HORIZONS_S: Final = (2 * DAY_S, 22 * DAY_S)
"""How far the next change is searched: nearly always within two days. Windows repeat each week, and daylight saving
or a skipped day can swallow one of them. A schedule without a change in three weeks has none."""


class State(StrEnum):
    """Where the node is between online and offline work, seen from the online side."""

    ONLINE = "Online"
    ONLINE_TO_OFFLINE = "OnlineToOffline"
    OFFLINE = "Offline"
    OFFLINE_TO_ONLINE = "OfflineToOnline"


class Cause(StrEnum):
    """The part of the schedule that decides."""

    NO_WINDOWS = "no_windows"
    WINDOW = "window"
    OUTSIDE = "outside"
    GRACE = "grace"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Lending:
    """How much is lent at a time, and until when that holds.

    factor: part of the headroom that is lent, 0 to 1.
    offer: part of the capacity that is offered to new pods, 0 to 1: the least factor within the grace.
    until_s: time of the next change, seconds since 1970; None if time alone changes nothing.
    because: the cause as a sentence.
    drains: whether reclaimed pods that still run are to be evicted.
    ordered: whether an operator ordered that.
    """

    state: State
    factor: float
    offer: float
    until_s: float | None
    reason: Cause
    because: str
    drains: bool = False
    ordered: bool = False

    @property
    def is_open(self) -> bool:
        """Whether new reclaimed pods may come: something is lent, and does not fall within the grace."""
        return self.factor > 0.0 and self.state is not State.OFFLINE_TO_ONLINE


def at(schedule: ScheduleTuning, now: datetime | float, switch: Switch = ON) -> Lending:
    """Return how much is lent at a time: an aware datetime, or seconds since 1970."""
    now_s = epoch_s(now)
    found: Lending | None = None
    for horizon_s in _HORIZONS_S:
        to_s = now_s + horizon_s
        line = timeline(schedule, now_s - RISE_S, to_s + schedule.grace_s)
        found = _decided(schedule, line, now_s, switch)
        for next_s in sorted(_candidates(line, schedule.grace_s, switch)):
            if now_s < next_s <= to_s:
                after = _decided(schedule, line, next_s, switch)
                if _differs(after, found):
                    return replace(found, until_s=next_s)
    assert found is not None  # there is at least one horizon
    return found


def epoch_s(now: datetime | float) -> float:
    """Return a time as seconds since 1970; raise ValueError for a datetime without a time zone."""
    if not isinstance(now, datetime):
        return float(now)
    if now.utcoffset() is None:
        raise ValueError(f"{now} has no time zone; pass an aware datetime or seconds since 1970")
    return now.timestamp()


def _candidates(line: Timeline, grace_s: float, switch: Switch) -> set[float]:
    """Return all times at which the result may change."""
    ends = [after.begins_s for before, after in pairwise(line.stretches) if before.lend != after.lend]
    found = {end_s + shift_s for end_s in ends for shift_s in (-grace_s, 0.0, RISE_S)}
    if switch.rises_s is not None:
        return found | {switch.rises_s + RISE_S}
    return found | {switch.ends_s, switch.drains_s} if switch.off else found


def _differs(one: Lending, other: Lending) -> bool:
    """Return whether two results have another effect. The cause alone is no change."""
    return _effect(one) != _effect(other)


def _effect(lending: Lending) -> tuple[object, ...]:
    return lending.state, lending.factor, lending.offer, lending.drains, lending.ordered


def _decided(schedule: ScheduleTuning, line: Timeline, now_s: float, switch: Switch) -> Lending:
    by_clock = _by_clock(schedule, line, now_s)
    if switch.off:
        return _switched_off(by_clock, switch, now_s)
    rose = switch.rises_s is not None and now_s < switch.rises_s + RISE_S
    if rose and by_clock.state is State.OFFLINE:
        return replace(by_clock, state=State.ONLINE_TO_OFFLINE)
    return by_clock


def _by_clock(schedule: ScheduleTuning, line: Timeline, now_s: float) -> Lending:
    here = line.at(now_s)
    ahead = line.between(now_s, now_s + schedule.grace_s)
    least = min(stretch.lend for stretch in ahead)
    factor, offer = here.lend / 100, least / 100
    if least < here.lend:
        falls_s = next(stretch.begins_s for stretch in ahead if stretch.lend < here.lend)
        because = (
            f"lending falls from {here.lend} % at {_local(falls_s, schedule)}: no new reclaimed pods start now"
            f" (offer={least} %, grace={schedule.grace_s:g} s)"
        )
        return Lending(
            state=State.OFFLINE_TO_ONLINE,
            factor=factor,
            offer=offer,
            until_s=None,
            reason=Cause.GRACE,
            because=because,
        )
    cause, because = _of_stretch(schedule, here)
    if not here.lend:
        return Lending(
            state=State.ONLINE,
            factor=factor,
            offer=offer,
            until_s=None,
            reason=cause,
            because=because,
            drains=True,
        )
    lately = min(stretch.lend for stretch in line.between(now_s - RISE_S, now_s))
    state = State.ONLINE_TO_OFFLINE if lately < here.lend else State.OFFLINE
    return Lending(state=state, factor=factor, offer=offer, until_s=None, reason=cause, because=because)


def _of_stretch(schedule: ScheduleTuning, here: Stretch) -> tuple[Cause, str]:
    """Return the part of the schedule that decides, and a sentence."""
    lend = f"lend={here.lend} %"
    if here.window is not None:
        return Cause.WINDOW, f"schedule.windows[{here.window}] is open ({lend})"
    if not schedule.windows:
        return Cause.NO_WINDOWS, f"the schedule has no windows ({lend})"
    return Cause.OUTSIDE, f"no window of the schedule is open ({lend})"


def _switched_off(by_clock: Lending, switch: Switch, now_s: float) -> Lending:
    """Return the result under an operator's order: nothing new comes, and after the grace nothing is lent."""
    if now_s < switch.ends_s and by_clock.factor:
        because = (
            f"an operator ordered the end of lending: no new reclaimed pods start now"
            f" (lend={by_clock.factor * 100:.0f} %, switch_grace={switch.grace_s:g} s)"
        )
        return Lending(
            state=State.OFFLINE_TO_ONLINE,
            factor=by_clock.factor,
            offer=0.0,
            until_s=None,
            reason=Cause.OPERATOR,
            because=because,
        )
    because = "an operator switched lending off; `nri-coloc admin lending on` undoes it"
    ordered = switch.drain and now_s >= switch.drains_s
    return Lending(
        state=State.ONLINE,
        factor=0.0,
        offer=0.0,
        until_s=None,
        reason=Cause.OPERATOR,
        because=because,
        drains=by_clock.drains or ordered,
        ordered=ordered,
    )


def _local(at_s: float, schedule: ScheduleTuning) -> str:
    return datetime.fromtimestamp(at_s, schedule.zone).isoformat(timespec="minutes")
