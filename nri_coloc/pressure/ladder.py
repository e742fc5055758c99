"""Decide which rung of the ladder each culprit stands on: throttle it further, hold, ease, or set it free.

    verdict ──up readings──▶ half of its use ──still hurt──▶ half again … floor ──no relief──▶ free
                                   ▲                             │
                                   └──── double ◀──down calm readings, after hold seconds ──▶ free

A pod that was eased or set free and hurts again is held twice as long, up to `LONGEST_HOLD`: load that swings does not
make the limit swing. After a step up one hurt reading is enough for the step back: the former limit is known to help.
A floor without relief is in vain for the pods that it does not help, and for no other: a pod that waits by itself, or
pretends to wait, frees no culprit of another pod.
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
"""Hurt readings of one pod at the floor after which the limit is in vain for it: the culprit is not its cause."""

LONGEST_HOLD: Final = 8
"""The longest hold, in multiples of the configured one."""

_UNUSED: Final = 0.25
"""Part of its limit below which a pod does not need the limit."""

REMEMBERED_S: Final = 600.0
"""Seconds after which an earlier throttling no longer lengthens the hold."""

Key = tuple[str, Resource]
"""A culprit's pod id and the resource that it is throttled for."""

Charge = tuple[str, Resource, str]
"""A culprit's pod id, the resource, and the id of a pod that is hurt."""


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
    victims: ids of the pods that it is throttled for.
    since: time of the last step down, seconds.
    hold: seconds until the first step up.
    calm, hurt: readings of its victims since the last step.
    eased: whether the last step was up.
    waits: for each pod that is hurt now its hurt readings in a row since the last step.
    """

    limit: float
    use: float
    victims: frozenset[str]
    since: float
    hold: float
    calm: int = 0
    hurt: int = 0
    eased: bool = False
    waits: Mapping[str, int] = {}

    def is_unused(self, use: float, least_rise: float) -> bool:
        """Return whether a use is far below the limit, and below that of any culprit."""
        return use < min(least_rise, _UNUSED * self.limit)


class Freed(NamedTuple):
    """A pod that was throttled until `at`.

    hold: the hold that it had, seconds.
    refused: whether the first limit could not be written. The pod is not throttled again for as long as the hold.
    """

    at: float
    hold: float
    refused: bool = False


class InVain(NamedTuple):
    """A limit that was in force at the floor and gave one pod no relief.

    rest: seconds after `at` in which no verdict on that pod throttles the culprit.
    """

    at: float
    rest: float


class Ladder(NamedTuple):
    """The throttled pods, and what is known of the last `REMEMBERED_S` seconds.

    freed: pods that were set free.
    in_vain: limits that gave a pod no relief, and none since.
    """

    throttled: Mapping[Key, Throttle]
    freed: Mapping[Key, Freed]
    in_vain: Mapping[Charge, InVain]

    @property
    def victims(self) -> Mapping[Resource, frozenset[str]]:
        """Return the pods for which a pod is throttled, by resource."""
        found: dict[Resource, frozenset[str]] = {}
        for (_, resource), one in self.throttled.items():
            found[resource] = found.get(resource, frozenset()) | one.victims
        return found


AT_REST: Final = Ladder({}, {}, {})


class Hindrance(StrEnum):
    """Why a culprit of a verdict is not throttled."""

    OFF = "report only"
    NOT_ALLOWED = "not allowed"
    LITTLE_USE = "little use"
    REFUSED = "write refused"
    IN_VAIN = "limit in vain"


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
    freed = {k: one for k, one in before.freed.items() if _counts(k, one, turn)}
    in_vain = {k: one for k, one in before.in_vain.items() if _counts(k, one, turn)}
    heard = turn._replace(accused=_heard(turn, in_vain))
    steps: list[Step] = []
    for key, one in before.throttled.items():
        if key[0] in turn.gone:
            continue
        floor, felt = floors.get(key[1]), _felt(key, one, heard)
        unrelieved = _unrelieved(key, felt, turn, floor)
        step, stepped = _stepped(key, felt, unrelieved, turn, floor)
        for pod_id in unrelieved:
            charge = *key, pod_id
            in_vain[charge] = _in_vain(in_vain.get(charge), felt, turn.at, floors[key[1]].rung)
        if step is not None:
            steps.append(step)
        if step is not None and step.cause is Cause.CALM:
            calm = {(*key, pod_id) for pod_id in step.throttle.victims}
            in_vain = {k: tried for k, tried in in_vain.items() if k not in calm}
        if stepped is None:
            freed[key] = Freed(turn.at, one.hold)
        else:
            throttled[key] = stepped
    after = Ladder(throttled, freed, in_vain)
    for resource, floor in floors.items():
        for step in _begun(resource, turn, floor, after):
            throttled[step.pod_id, resource] = step.throttle
            steps.append(step)
    return after, tuple(steps)


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
    return Ladder(throttled, freed, ladder.in_vain)


def again(key: Key, one: Throttle) -> Step:
    """Return the step that gives a throttled pod its present limit once more."""
    return _step(Move.THROTTLE, Cause.HURT, key, one, before=one.limit, limit=one.limit)


def hindrance(
    resource: Resource, one: Accused, turn: Turn, floor: Floor | None, ladder: Ladder
) -> Hindrance | None:
    """Return why a verdict on one pod does not throttle its culprit; None if nothing hinders it.

    floor: None if no pod is throttled for the resource.
    """
    if floor is None:
        return Hindrance.OFF
    if one.pod_id not in turn.may:
        return Hindrance.NOT_ALLOWED
    if one.use <= floor.least:
        return Hindrance.LITTLE_USE
    if _rests(ladder.freed.get((one.pod_id, resource)), turn.at):
        return Hindrance.REFUSED
    tried = ladder.in_vain.get((one.pod_id, resource, one.victim))
    return Hindrance.IN_VAIN if _is_in_vain(tried, turn.at) else None


def _begun(resource: Resource, turn: Turn, floor: Floor, ladder: Ladder) -> Iterable[Step]:
    """Yield the first step for each culprit that is not throttled yet."""
    accused: dict[str, list[Accused]] = {}
    for one in turn.accused.get(resource, ()):
        if hindrance(resource, one, turn, floor, ladder) is None:
            accused.setdefault(one.pod_id, []).append(one)
    for pod_id, charges in accused.items():
        key = pod_id, resource
        if key in ladder.throttled:
            continue
        use = max(one.use for one in charges)
        limit = max(floor.least, use * FURTHER)
        victims = frozenset(one.victim for one in charges)
        hold = _hold(ladder.freed.get(key), floor.rung)
        throttle = Throttle(limit, use, victims, turn.at, hold)
        yield _step(Move.THROTTLE, Cause.HURT, key, throttle, before=None, limit=limit)


def _rests(freed: Freed | None, now: float) -> bool:
    """Return whether a limit of this pod was refused so lately that it is not tried again yet."""
    return freed is not None and freed.refused and now - freed.at < freed.hold


def _hold(freed: Freed | None, rung: RungTuning) -> float:
    return rung.hold_s if freed is None else _longer(freed.hold, rung)


def _longer(hold: float, rung: RungTuning) -> float:
    return min(2 * hold, LONGEST_HOLD * rung.hold_s)


def _counts(key: Key | Charge, one: Freed | InVain, turn: Turn) -> bool:
    return turn.at - one.at < REMEMBERED_S and key[0] not in turn.gone


def _heard(turn: Turn, in_vain: Mapping[Charge, InVain]) -> dict[Resource, list[Accused]]:
    """Return the culprits of the verdicts without those whose limit was in vain for the victim lately."""
    return {
        resource: [
            one
            for one in accused
            if not _is_in_vain(in_vain.get((one.pod_id, resource, one.victim)), turn.at)
        ]
        for resource, accused in turn.accused.items()
    }


def _is_in_vain(tried: InVain | None, now: float) -> bool:
    """Return whether a limit was in vain for a pod so lately that no verdict on the pod throttles the culprit."""
    return tried is not None and now - tried.at < tried.rest


def _in_vain(before: InVain | None, one: Throttle, now: float, rung: RungTuning) -> InVain:
    """Return the same while it rests, else a rest twice as long as the last one."""
    if before is None:
        return InVain(now, one.hold)
    return before if _is_in_vain(before, now) else InVain(now, _longer(before.rest, rung))


def _felt(key: Key, one: Throttle, turn: Turn) -> Throttle:
    """Return a throttled pod with the readings of this turn."""
    pod_id, resource = key
    new = frozenset(each.victim for each in turn.accused.get(resource, ()) if each.pod_id == pod_id)
    hurt = frozenset(turn.hurt.get(resource, ()))
    counts, victims = key not in turn.idle, one.victims | new
    waits = {k: one.waits.get(k, 0) + counts for k in hurt}
    one = one._replace(victims=victims, waits=waits)
    if victims.isdisjoint(hurt):
        return one._replace(calm=one.calm + 1, hurt=0)
    return one._replace(hurt=one.hurt + 1, calm=0) if counts else one._replace(calm=one.calm + 1)


def _unrelieved(key: Key, one: Throttle, turn: Turn, floor: Floor | None) -> frozenset[str]:
    """Return the pods that wait on, although the limit has been at the floor for long enough."""
    if floor is None or one.limit > floor.least or turn.at - one.since < one.hold or key in turn.idle:
        return frozenset()
    return frozenset(k for k, readings in one.waits.items() if readings >= IN_VAIN)


def _stepped(
    key: Key, one: Throttle, unrelieved: frozenset[str], turn: Turn, floor: Floor | None
) -> tuple[Step | None, Throttle | None]:
    """Return the step of a throttled pod, None to hold, and its state, None if it was set free."""
    if floor is None or key[0] not in turn.may:
        return _free(Cause.NOT_ALLOWED, key, one), None
    victims = one.victims - unrelieved
    if not victims:
        return _free(Cause.NO_RELIEF, key, one), None
    one = one._replace(victims=victims)
    return _up(key, one, turn.at, floor) if one.calm else _down(key, one, turn.at, floor)


def _down(key: Key, one: Throttle, now: float, floor: Floor) -> tuple[Step | None, Throttle | None]:
    if one.limit <= floor.least:
        return None, one
    if not one.eased and one.hurt < floor.rung.up:
        return None, one
    limit = max(floor.least, one.limit * FURTHER)
    hold = _longer(one.hold, floor.rung) if one.eased else one.hold
    after = one._replace(limit=limit, since=now, hold=hold, hurt=0, eased=False, waits={})
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
