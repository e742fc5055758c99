"""What is written of the box's memory: memory.high and memory.max, a step at a time, and each member's part.

Headroom falls at once; what is written falls by at most `memory_step` at once below the present use, because the
writer of memory.high reclaims by itself, and rises after a dwell by the least that could be borne during it. memory.max
stays a step above memory.high and above what cannot be reclaimed: it is a wall against a runaway and never the way to
get memory back, because it kills.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from nri_coloc.model.lending import Binding, MemoryTarget
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.apportionment import apportion
from nri_coloc.reclaim.memory import MemoryHeadroom

_PAGE: Final = 4096
"""What the kernel rounds to: a difference below it would be found again as drift."""


@dataclass(frozen=True, slots=True)
class MemoryControl:
    """What the controller remembers. `high`, `limit`: the last target, None before the first.

    `read_s`: when a headroom was last known. `since_s`: since when the box could have had more, None while it could
    not; `borne`: at least how much it could have had since.
    """

    high: int | None = None
    limit: int | None = None
    read_s: float = 0.0
    since_s: float | None = None
    borne: int = 0


class Member(NamedTuple):
    """One pod or host group of the box, bytes. `request`: what it was lent, 0 where not known; `unreclaimable`: of
    its use, what is no page cache."""

    use: int
    request: int = 0
    unreclaimable: int = 0


class Part(NamedTuple):
    """One member's memory.high and memory.max, bytes."""

    high: int
    limit: int


def target(
    control: MemoryControl, headroom: MemoryHeadroom | None, now_s: float, tuning: ReclaimTuning
) -> tuple[MemoryControl, MemoryTarget]:
    """Return what memory.high and memory.max of the whole box are to be now; to be called once per slow tick.

    While lending is paused nothing rises, and nothing is taken that the online pods do not need: what offline pods hold
    they cannot give back without harm. Never below `memory_floor`: at 0 not even a shell could start, and the box is to
    be small, not dead. Without a headroom (None) nothing rises, and after `memory_stale_s` memory.high sinks step by
    step to that floor.
    """
    if not tuning.enabled:
        return MemoryControl(), MemoryTarget(binding=Binding.DISABLED, because="lending is switched off")
    if headroom is None:
        return _unread(control, now_s, tuning)
    wanted = max(headroom.amount, tuning.memory_floor) // _PAGE * _PAGE
    if control.high is None or wanted < control.high:
        step = _fallen(control.high, wanted, headroom.held, tuning)
    else:
        step = _risen(control, control.high, wanted, now_s, tuning)
    limit = (max(step.high, headroom.unreclaimable) + tuning.memory_step) // _PAGE * _PAGE
    binding = Binding.FLOOR if headroom.amount < tuning.memory_floor else step.held_by or headroom.binding
    because = (
        f"memory.high {step.high}, may hold {headroom.amount}, holds {headroom.held}; {headroom.because}"
    )
    inputs = _inputs(headroom, tuning)
    control = MemoryControl(step.high, limit, now_s, step.since_s, step.borne)
    return control, MemoryTarget(step.high, limit, binding, because, inputs)


def _inputs(headroom: MemoryHeadroom, tuning: ReclaimTuning) -> dict[str, int | float | None]:
    """Return every figure of a decision by name."""
    in_bytes = {
        "may_hold": headroom.amount,
        "holds": headroom.held,
        "unreclaimable": headroom.unreclaimable,
        **(headroom.terms._asdict() if headroom.terms is not None else {}),
        "floor": tuning.memory_floor,
        "step": tuning.memory_step,
        "growth_step": tuning.memory_growth,
        "dead_band": tuning.memory_dead_band,
    }
    return {
        **{f"{name}_bytes": amount for name, amount in in_bytes.items()},
        "watermark": tuning.memory_watermark,
        "dwell_s": tuning.memory_dwell_s,
        "eviction_s": tuning.eviction_s,
    }


class _Step(NamedTuple):
    """The next memory.high; `held_by`: what kept it from being more, if not the headroom itself."""

    high: int
    held_by: Binding | None = None
    since_s: float | None = None
    borne: int = 0


def _fallen(high: int | None, wanted: int, held: int, tuning: ReclaimTuning) -> _Step:
    """Down to the present use costs the writer nothing; below it, a step."""
    lowest = (held if high is None else min(high, held)) - tuning.memory_step
    return _Step(max(wanted, lowest // _PAGE * _PAGE))


def _risen(control: MemoryControl, high: int, wanted: int, now_s: float, tuning: ReclaimTuning) -> _Step:
    if tuning.paused:
        return _Step(high, Binding.PAUSED)
    if wanted - high < tuning.memory_dead_band:
        return _Step(high, Binding.DEAD_BAND)
    if control.since_s is None or now_s < control.since_s:
        return _Step(high, Binding.DWELL, now_s, wanted)
    borne = min(control.borne, wanted)
    if now_s - control.since_s < tuning.memory_dwell_s:
        return _Step(high, Binding.DWELL, control.since_s, borne)
    if borne - high > tuning.memory_growth:
        return _Step(high + tuning.memory_growth // _PAGE * _PAGE, Binding.GROWTH_STEP)
    return _Step(borne)


def _unread(
    control: MemoryControl, now_s: float, tuning: ReclaimTuning
) -> tuple[MemoryControl, MemoryTarget]:
    high = control.high
    if high is None:
        return control, MemoryTarget(because="the node's memory was not read yet")
    control = replace(control, since_s=None)
    gap_s = now_s - control.read_s
    if 0.0 <= gap_s <= tuning.memory_stale_s:
        because = f"memory could not be read for {gap_s:.1f} s: nothing rises"
        return control, MemoryTarget(high, control.limit, Binding.STALE, because, _of_nothing(gap_s, tuning))
    floor = min(high, tuning.memory_floor)
    high = max(floor, high - tuning.memory_step)
    # memory.max stays: nobody knows how much is in use, and below that it kills
    because = f"memory could not be read for {gap_s:.1f} s: down to the floor of {floor} step by step"
    binding = Binding.FLOOR if high == floor else Binding.STALE
    inputs = _of_nothing(gap_s, tuning)
    return replace(control, high=high), MemoryTarget(high, control.limit, binding, because, inputs)


def _of_nothing(gap_s: float, tuning: ReclaimTuning) -> dict[str, int | float | None]:
    """Return the figures of a decision while nothing is read."""
    return {
        "unread_s": round(gap_s, 3),
        "stale_s": tuning.memory_stale_s,
        "floor_bytes": tuning.memory_floor,
        "step_bytes": tuning.memory_step,
    }


# --- the members -----------------------------------------------------------------------------------------


def divide(goal: MemoryTarget, members: Mapping[str, Member]) -> dict[str, Part]:
    """Divide the box's target among its members; nothing where there is no target.

    Every memory.high in bytes sums to the box's. No memory.max does: each member may hold by itself all that the others
    leave of the box's (on v1 there is no other limit, and a job that grows between two looks must not be killed beside
    free memory), and never less than its part of it above what it cannot give back.
    """
    if goal.high is None or goal.limit is None or not members:
        return {}
    highs = split(goal.high, members)
    least = {name: max(highs[name], member.unreclaimable) for name, member in members.items()}
    spare = max(0, goal.limit - sum(least.values()))
    more = apportion(spare, {name: _weight(member) for name, member in members.items()})
    used = sum(member.use for member in members.values())
    return {
        name: Part(highs[name], max(least[name] + more[name], goal.limit - used + member.use))
        for name, member in members.items()
    }


def split(total: int, members: Mapping[str, Member]) -> dict[str, int]:
    """Divide bytes among members; the parts sum to the total.

    Where all use fits, what is left over is divided by request (by use where there is none). Where it does not, who
    uses more than its request gives first, in proportion to the excess; then all, in proportion to what remains.
    """
    uses = {name: member.use for name, member in members.items()}
    used = sum(uses.values())
    if total >= used:
        more = apportion(total - used, {name: _weight(member) for name, member in members.items()})
        return {name: uses[name] + more[name] for name in members}
    within = {name: min(member.use, member.request) for name, member in members.items()}
    kept = sum(within.values())
    if total < kept:
        return apportion(total, within)
    excess = apportion(total - kept, {name: uses[name] - within[name] for name in members})
    return {name: within[name] + excess[name] for name in members}


def _weight(member: Member) -> int:
    return member.request or member.use
