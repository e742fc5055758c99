"""Decide which rung of the ladder each culprit stands on: throttle it further, hold, ease, or set it free.

    verdict ──up readings──▶ half of its use ──still hurt──▶ half again … floor ──no relief──▶ free
                                   ▲                             │
                                   └──── double ◀──down calm readings, after hold seconds ──▶ free

A pod that was eased or set free and hurts again is held twice as long, up to `LONGEST_HOLD`: load that swings does not
make the limit swing. After a step up one hurt reading is enough for the step back: the former limit is known to help.
`hold` is 30 s at the least, so that no action is taken and undone more than twice a minute. Pure: the caller gives
time, verdicts and the pods that may be throttled, and has the steps carried out.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.settings import RungTuning
from nri_coloc.pressure.action import Cause
from nri_coloc.pressure.verdict import Resource

FURTHER: Final = 0.5
"""Factor of one step down."""

EASED: Final = 2.0
"""Factor of one step up."""

IN_VAIN: Final = 10
"""Hurt readings at the floor after which the limit is taken back: the culprit is not the cause any more."""

LONGEST_HOLD: Final = 8
"""The longest hold, in multiples of the configured one."""

REMEMBERED_S: Final = 600.0
"""Seconds after which an earlier throttling no longer lengthens the hold."""

Key = tuple[str, Resource]
"""A culprit's pod id and the resource that it is throttled for."""


class Accused(NamedTuple):
    """One culprit of one verdict.

    victim: pod id.
    use: its present use, in the unit of the limit.
    """

    pod_id: str
    victim: str
    use: float


class Throttle(NamedTuple):
    """A throttled pod.

    limit: in the resource's unit.
    use: use when it was throttled first.
    victims: pod ids.
    since: time of the last step down, seconds.
    hold: seconds until the first step up.
    calm, hurt: readings of its victims since the last step.
    eased: whether the last step was up.
    """

    limit: float
    use: float
    victims: frozenset[str]
    since: float
    hold: float
    calm: int = 0
    hurt: int = 0
    eased: bool = False


class Freed(NamedTuple):
    """A pod that was throttled until `at`.

    hold: the hold that it had, seconds.
    in_vain: whether the limit was in force at the floor and gave no relief.
    refused: whether the first limit could not be written, so that no limit was in force.

    After either the pod is not throttled again for as long as the hold.
    """

    at: float
    hold: float
    in_vain: bool = False
    refused: bool = False


class Ladder(NamedTuple):
    """The throttled pods, and the pods that were set free within the last `REMEMBERED_S` seconds."""

    throttled: Mapping[Key, Throttle]
    freed: Mapping[Key, Freed]


AT_REST: Final = Ladder({}, {})


class Move(StrEnum):
    """What a step does."""

    THROTTLE = "throttle"
    EASE = "ease"
    FREE = "free"


class Step(NamedTuple):
    """A change of the limit of one pod.

    before, limit: the limit before and after the step, in the unit of the resource; None for no limit.
    throttle: the figures from which the step follows.
    """

    move: Move
    cause: Cause
    pod_id: str
    resource: Resource
    before: float | None
    limit: float | None
    throttle: Throttle


class Floor(NamedTuple):
    """The least limit of a resource, and its rung."""

    least: float
    rung: RungTuning


class Turn(NamedTuple):
    """The input of one turn.

    accused: culprits of the verdicts.
    hurt: for each resource the pods that are hurt now.
    may: pods that may be throttled.
    gone: throttled pods that have ended.
    idle: throttled pods that use next to nothing: a hurt beside them is not theirs, so it counts as calm. It ends no
        count of their own hurt readings, because pods may use the resource in turns.
    """

    at: float
    accused: Mapping[Resource, Collection[Accused]]
    hurt: Mapping[Resource, Collection[str]]
    may: Collection[str]
    gone: Collection[str] = ()
    idle: Collection[Key] = ()


def climb(before: Ladder, turn: Turn, floors: Mapping[Resource, Floor]) -> tuple[Ladder, tuple[Step, ...]]:
    """Return the ladder after one turn, and the steps to carry out.

    floors: for the resources for which pods are throttled.
    """
    throttled: dict[Key, Throttle] = {}
    freed = {
        k: one for k, one in before.freed.items() if turn.at - one.at < REMEMBERED_S and k[0] not in turn.gone
    }
    steps: list[Step] = []
    for key, one in before.throttled.items():
        if key[0] in turn.gone:
            continue
        step, after = _stepped(key, one, turn, floors.get(key[1]))
        if step is not None:
            steps.append(step)
        if after is None:
            in_vain = step is not None and step.cause is Cause.NO_RELIEF
            freed[key] = Freed(turn.at, one.hold, in_vain)
        else:
            throttled[key] = after
    for resource, floor in floors.items():
        for step in _begun(resource, turn, floor, throttled, freed):
            throttled[step.pod_id, resource] = step.throttle
            steps.append(step)
    return Ladder(throttled, freed), tuple(steps)


def refused(ladder: Ladder, step: Step, now: float) -> Ladder:
    """Return the ladder after the kernel refused a step: the pod still has the limit of before the step.

    A first limit is tried again after the hold, every other step in the next turn that calls for it.
    """
    key = step.pod_id, step.resource
    throttled = {k: one for k, one in ladder.throttled.items() if k != key}
    freed = {k: one for k, one in ladder.freed.items() if k != key}
    if step.before is None:
        freed[key] = Freed(now, step.throttle.hold, refused=True)
    else:
        throttled[key] = step.throttle._replace(limit=step.before)
    return Ladder(throttled, freed)


def _begun(
    resource: Resource,
    turn: Turn,
    floor: Floor,
    throttled: Mapping[Key, Throttle],
    freed: Mapping[Key, Freed],
) -> Iterable[Step]:
    """Yield the first step for each culprit that is not throttled yet."""
    accused: dict[str, list[Accused]] = {}
    for one in turn.accused.get(resource, ()):
        if one.pod_id in turn.may and one.use > floor.least:
            accused.setdefault(one.pod_id, []).append(one)
    for pod_id, charges in accused.items():
        key = pod_id, resource
        if key in throttled or _rests(freed.get(key), turn.at):
            continue
        use = max(one.use for one in charges)
        limit = max(floor.least, use * FURTHER)
        victims = frozenset(one.victim for one in charges)
        hold = _hold(freed.get(key), floor.rung)
        throttle = Throttle(limit, use, victims, turn.at, hold)
        yield _step(Move.THROTTLE, Cause.HURT, key, throttle, before=None, limit=limit)


def _rests(freed: Freed | None, now: float) -> bool:
    """Return whether a limit of this pod failed so lately that it is not tried again yet."""
    return freed is not None and (freed.in_vain or freed.refused) and now - freed.at < freed.hold


def _hold(freed: Freed | None, rung: RungTuning) -> float:
    return rung.hold_s if freed is None else _longer(freed.hold, rung)


def _longer(hold: float, rung: RungTuning) -> float:
    return min(2 * hold, LONGEST_HOLD * rung.hold_s)


def _stepped(key: Key, one: Throttle, turn: Turn, floor: Floor | None) -> tuple[Step | None, Throttle | None]:
    """Return the step of a throttled pod, None to hold, and its state, None if it was set free."""
    pod_id, resource = key
    if floor is None or pod_id not in turn.may:
        return _free(Cause.NOT_ALLOWED, key, one), None
    new = frozenset(each.victim for each in turn.accused.get(resource, ()) if each.pod_id == pod_id)
    one = one._replace(victims=one.victims | new)
    is_hurt = not one.victims.isdisjoint(turn.hurt.get(resource, ()))
    if is_hurt and key not in turn.idle:
        return _down(key, one._replace(hurt=one.hurt + 1, calm=0), turn.at, floor)
    return _up(key, one._replace(calm=one.calm + 1, hurt=one.hurt if is_hurt else 0), turn.at, floor)


def _down(key: Key, one: Throttle, now: float, floor: Floor) -> tuple[Step | None, Throttle | None]:
    if one.limit <= floor.least:
        if one.hurt < IN_VAIN or now - one.since < one.hold:
            return None, one
        return _free(Cause.NO_RELIEF, key, one), None
    if not one.eased and one.hurt < floor.rung.up:
        return None, one
    limit = max(floor.least, one.limit * FURTHER)
    hold = _longer(one.hold, floor.rung) if one.eased else one.hold
    after = one._replace(limit=limit, since=now, hold=hold, hurt=0, eased=False)
    return _step(Move.THROTTLE, Cause.HURT, key, one, before=one.limit, limit=limit), after


def _up(key: Key, one: Throttle, now: float, floor: Floor) -> tuple[Step | None, Throttle | None]:
    if one.calm < floor.rung.down or now - one.since < one.hold:
        return None, one
    if one.limit >= one.use:
        return _free(Cause.CALM, key, one), None
    limit = one.limit * EASED
    step = _step(Move.EASE, Cause.CALM, key, one, before=one.limit, limit=limit)
    return step, one._replace(limit=limit, calm=0, eased=True)


def _free(cause: Cause, key: Key, one: Throttle) -> Step:
    return _step(Move.FREE, cause, key, one, before=one.limit, limit=None)


def _step(
    move: Move, cause: Cause, key: Key, throttle: Throttle, *, before: float | None, limit: float | None
) -> Step:
    pod_id, resource = key
    return Step(
        move=move,
        cause=cause,
        pod_id=pod_id,
        resource=resource,
        before=before,
        limit=limit,
        throttle=throttle,
    )
