"""Divide the reclaim cgroups' memory: memory.high and memory.max of all of them, and each member's part.

The target falls at once with the headroom, as far as memory can be reclaimed. It is written by steps, because the
writer of memory.high reclaims by itself. The target rises after a dwell, to the least amount that was possible during
it. Anonymous memory cannot be reclaimed. Below it members would be throttled for ever and free nothing, so
memory.high ends there and only keeps them from growing. memory.max stays a step above memory.high and above
unreclaimable memory. It stops a runaway and never takes memory back, because it kills. If kubepods' own limit bounds
the reclaimed pods and not the host groups, the pods' common amount follows the same rules. It is the most that pods
get of the whole.

The first bound applies at any size: no cgroup was bounded before. If the previous process bounded members, the target
begins with their amounts and rises as usual (docs/testing.md, invariant 5).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nri_coloc.core.apportionment import apportion, level
from nri_coloc.core.lending import Binding, MemoryTarget, Part
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.memory.headroom import MemoryHeadroom, Room

_PAGE: Final = 4096
"""Bytes. The kernel rounds to pages: a smaller difference would be found again as drift."""


class Course(NamedTuple):
    """One amount over time.

    high: last amount, bytes; None before the first.
    since_s: since when a larger amount has been possible without a break; None if none is possible now.
    borne: the smallest of the amounts that have been possible since then, bytes.
    held_by: the term that kept the amount from being larger, if it was not the headroom.
    """

    high: int | None = None
    since_s: float | None = None
    borne: int = 0
    held_by: Binding | None = None


@dataclass(frozen=True, slots=True)
class MemoryControl:
    """The controller's state.

    high, limit: last target, bytes; None before the first.
    read_s: time of the last known headroom.
    since_s, borne: as in `Course`.
    pods: course of the reclaimed pods without host groups; empty while no limit bounds them alone.
    part: their last memory.high and memory.max; None while no limit bounds them alone.
    """

    high: int | None = None
    limit: int | None = None
    read_s: float = 0.0
    since_s: float | None = None
    borne: int = 0
    pods: Course = field(default_factory=Course)
    part: Part | None = None


class Member(NamedTuple):
    """One pod or host group of the reclaim cgroups.

    use: bytes.
    request: bytes that it was lent, 0 where not known; a tenant writes it, so it counts within `_counted`.
    unreclaimable: bytes of its use that cannot be reclaimed.
    beside: whether it lies outside of kubepods.
    """

    use: int
    request: int = 0
    unreclaimable: int = 0
    beside: bool = False


def target(
    control: MemoryControl, headroom: MemoryHeadroom | None, now_s: float, tuning: ReclaimTuning
) -> tuple[MemoryControl, MemoryTarget]:
    """Return the state and the memory.high and memory.max of all reclaim cgroups; to be called once per slow tick.

    While lending is paused nothing rises, and only memory that online pods need is taken back: reclaimed pods cannot
    free their memory without harm. The target is never below `memory_floor`, because at 0 not even a shell could
    start. Without a headroom (None) nothing rises, and after `memory_stale_s` memory.high falls step by step to that
    floor.
    """
    if not tuning.enabled:
        return MemoryControl(), MemoryTarget(binding=Binding.DISABLED)
    if headroom is None:
        return _unread(control, now_s, tuning)
    former = Course(control.high, control.since_s, control.borne)
    room = Room(headroom.amount, headroom.held, headroom.unreclaimable)
    course, part = _next(former, room, now_s, tuning)
    pods, of_pods = Course(), None
    if headroom.pods is not None:
        # before the first bound of their own, the pods had the bound of all reclaim cgroups
        before = control.pods if control.pods.high is not None else former
        pods, of_pods = _next(before, headroom.pods, now_s, tuning)
    binding = course.held_by or headroom.binding
    control = MemoryControl(
        high=part.high,
        limit=part.limit,
        read_s=now_s,
        since_s=course.since_s,
        borne=course.borne,
        pods=pods,
        part=of_pods,
    )
    inputs = {**_inputs(headroom, tuning), **_of_pods(pods, headroom.pods)}
    return control, MemoryTarget(*part, binding, inputs, of_pods)


def _next(course: Course, room: Room, now_s: float, tuning: ReclaimTuning) -> tuple[Course, Part]:
    """Return the next course of an amount, and its memory.high and memory.max."""
    wanted = max(room.amount, tuning.memory_floor) // _PAGE * _PAGE
    if course.high is None or wanted < course.high:
        course = _fallen(course.high, wanted, room.unreclaimable)
    else:
        course = _risen(course, course.high, wanted, now_s, tuning)
    high = course.high
    assert high is not None  # both say how much
    limit = (max(high, room.unreclaimable) + tuning.memory_step) // _PAGE * _PAGE
    if room.amount < tuning.memory_floor:
        course = course._replace(held_by=Binding.FLOOR)
    return course, Part(high, limit)


def _of_pods(course: Course, room: Room | None) -> dict[str, int | str | None]:
    """Return by name the bound of the pods alone, if there is one."""
    if room is None:
        return {}
    return {"pods_high_bytes": course.high, "pods_binding": (course.held_by or Binding.KUBEPODS_LIMIT).value}


def _inputs(headroom: MemoryHeadroom, tuning: ReclaimTuning) -> dict[str, int | float | str | None]:
    """Return every figure of a decision by name: also both bounds, which follow from their terms."""
    pods = headroom.pods._asdict() if headroom.pods is not None else {}
    terms = headroom.terms
    bounds = {} if terms is None else {"by_node": terms.by_node, "by_kubepods_limit": terms.by_limit}
    in_bytes = {
        "may_hold": headroom.amount,
        "holds": headroom.held,
        "unreclaimable": headroom.unreclaimable,
        **{f"pods_{name}": amount for name, amount in pods.items()},
        **(terms._asdict() if terms is not None else {}),
        **bounds,
        "floor": tuning.memory_floor,
        "step": tuning.memory_step,
        "growth_step": tuning.memory_growth,
        "dead_band": tuning.memory_dead_band,
    }
    return {
        **{f"{name}_bytes": amount for name, amount in in_bytes.items()},
        "watermark": tuning.memory_watermark,
        "lend": tuning.lend,
        "dwell_s": tuning.memory_dwell_s,
        "eviction_s": tuning.eviction_s,
    }


def _fallen(high: int | None, wanted: int, unreclaimable: int) -> Course:
    """Return the course after a fall: at once, but not below unreclaimable memory, and never above the last amount."""
    lowest = unreclaimable if high is None else min(high, unreclaimable)
    return Course(max(wanted, lowest // _PAGE * _PAGE))


def _risen(course: Course, high: int, wanted: int, now_s: float, tuning: ReclaimTuning) -> Course:
    if tuning.paused:
        return Course(high, held_by=Binding.PAUSED)
    if wanted - high < tuning.memory_dead_band:
        return Course(high, held_by=Binding.DEAD_BAND)
    if course.since_s is None or now_s < course.since_s:
        return Course(high, now_s, wanted, Binding.DWELL)
    borne = min(course.borne, wanted)
    if now_s - course.since_s < tuning.memory_dwell_s:
        return Course(high, course.since_s, borne, Binding.DWELL)
    if borne - high > tuning.memory_growth:
        return Course(high + tuning.memory_growth // _PAGE * _PAGE, held_by=Binding.GROWTH_STEP)
    return Course(borne)


def _unread(
    control: MemoryControl, now_s: float, tuning: ReclaimTuning
) -> tuple[MemoryControl, MemoryTarget]:
    high = control.high
    if high is None:
        return control, MemoryTarget()
    control = replace(control, since_s=None, pods=control.pods._replace(since_s=None))
    gap_s = now_s - control.read_s
    if 0.0 <= gap_s <= tuning.memory_stale_s:
        inputs = _of_nothing(gap_s, tuning)
        return control, MemoryTarget(high, control.limit, Binding.STALE, inputs, control.part)
    floor = min(high, tuning.memory_floor)
    high = max(floor, high - tuning.memory_step)
    # memory.max stays: the use is unknown, and a limit below it kills
    binding = Binding.FLOOR if high == floor else Binding.STALE
    inputs = _of_nothing(gap_s, tuning)
    # the bound of the pods alone stays: they get no more than all reclaim cgroups together
    return replace(control, high=high), MemoryTarget(high, control.limit, binding, inputs, control.part)


def _of_nothing(gap_s: float, tuning: ReclaimTuning) -> dict[str, int | float | str | None]:
    """Return the figures of a decision without a reading."""
    return {
        "unread_s": round(gap_s, 3),
        "stale_s": tuning.memory_stale_s,
        "floor_bytes": tuning.memory_floor,
        "step_bytes": tuning.memory_step,
    }


# --- after a restart -------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The values in a member's files at the start, bytes; None for a missing file or no limit."""

    high: int | None = None
    limit: int | None = None


def resumed(
    found: Mapping[str, Found], members: Mapping[str, Member], tuning: ReclaimTuning
) -> MemoryControl:
    """Return the first state, with the previous process's bounds by member; an empty state if there are none."""
    if not any(name in members for name in found):
        return MemoryControl()
    pods = {name: member for name, member in members.items() if not member.beside}
    return MemoryControl(_given(found, members, tuning), pods=Course(_given(found, pods, tuning)))


def _given(found: Mapping[str, Found], members: Mapping[str, Member], tuning: ReclaimTuning) -> int:
    """Return the bytes that members have together: their memory.high, or their use without one.

    Without a memory.high (v1) each member may hold all that other members leave of the common memory.max (`divide`),
    which lay a step above the target. The smallest target that the members' limits give is taken.
    """
    used = sum(member.use for member in members.values())
    more = {
        name: one.high - members[name].use
        for name, one in found.items()
        if name in members and one.high is not None
    }
    walls = [
        one.limit - members[name].use
        for name, one in found.items()
        if name in members and one.limit is not None
    ]
    given = sum(more.values()) if more or not walls else max(0, min(walls) - tuning.memory_step)
    return (used + given) // _PAGE * _PAGE


# --- the members -----------------------------------------------------------------------------------------


def divide(goal: MemoryTarget, members: Mapping[str, Member]) -> dict[str, Part]:
    """Return each member's part of the target; nothing without a target.

    The parts of memory.high sum to the whole, and the pods' parts to no more than the pods' own bound. The parts of
    memory.max do not sum to it: each member may hold all that other members leave of it. On v1 there is no other
    limit, and a job that grows between two readings must not be killed beside free memory. A member's memory.max is
    at least its memory.high or its unreclaimable memory, whichever is more, plus its part of the spare bytes.
    """
    if goal.high is None or goal.limit is None:
        return {}
    if goal.pods is None:
        return _divided(Part(goal.high, goal.limit), members)
    pods = {name: member for name, member in members.items() if not member.beside}
    others = {name: member for name, member in members.items() if member.beside}
    of_pods, of_others = (sum(member.use for member in some.values()) for some in (pods, others))
    highs = split(goal.high, members)
    high = min(goal.pods.high, sum(highs[name] for name in pods))
    walls = min(goal.pods.limit, goal.limit - of_others), goal.limit - min(high, of_pods)
    return _divided(Part(high, walls[0]), pods) | _divided(Part(goal.high - high, walls[1]), others)


def _divided(whole: Part, members: Mapping[str, Member]) -> dict[str, Part]:
    highs = split(whole.high, members)
    least = {name: max(highs[name], member.unreclaimable) for name, member in members.items()}
    spare = max(0, whole.limit - sum(least.values()))
    more = apportion(spare, _weights(_counted(whole.high, members)))
    used = sum(member.use for member in members.values())
    return {
        name: Part(highs[name], max(least[name] + more[name], whole.limit - used + member.use))
        for name, member in members.items()
    }


def split(total: int, members: Mapping[str, Member]) -> dict[str, int]:
    """Return bytes divided among members; the parts sum to the total.

    If all use fits, the rest is divided by request (by use without one). If not, members that use more than their
    request give first, in proportion to the excess; then all members, in proportion to the remaining use. No member
    gives unreclaimable memory while another member has reclaimable memory. Requests count within `_counted`.
    """
    members = _counted(total, members)
    uses = {name: member.use for name, member in members.items()}
    used = sum(uses.values())
    if total >= used:
        more = apportion(total - used, _weights(members))
        return {name: uses[name] + more[name] for name in members}
    fixed = {name: min(member.use, member.unreclaimable) for name, member in members.items()}
    if total < sum(fixed.values()):
        return split(total, {name: Member(fixed[name], member.request) for name, member in members.items()})
    within = {name: max(fixed[name], min(uses[name], member.request)) for name, member in members.items()}
    low, full = (fixed, within) if total < sum(within.values()) else (within, uses)
    more = apportion(total - sum(low.values()), {name: full[name] - low[name] for name in members})
    return {name: low[name] + more[name] for name in members}


def _counted(total: int, members: Mapping[str, Member]) -> dict[str, Member]:
    """Return members with bounded requests, together at most the total.

    So a large request takes nothing from small ones.
    """
    most = level(total, (member.request for member in members.values() if member.request))
    return {name: member._replace(request=min(member.request, most)) for name, member in members.items()}


def _weights(members: Mapping[str, Member]) -> dict[str, int]:
    return {name: member.request or member.use for name, member in members.items()}
