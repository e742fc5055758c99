"""Lower the quota of online containers in a pool that is short of CPU, the heaviest above its pod's request first.

A pool is short while its containers use at least `FULL` of its CPUs, and an online pod in it is hurt that uses no more
than its request. A container may be degraded if its pod's `avoidance` allows `degrade`, it uses more than its pod's
request, and its PriorityClass is no higher than that of a hurt pod. Lower priority goes first, then the heaviest above
its request. Each step halves the part above the request:

    limit = request + (use - request) / 2

So no container falls below its pod's request. A tenant that fakes a stall costs another tenant only a part above the
request. A pool has one step in `SETTLES_S` while it is short, and a timer restores each container. If its pool is short
again within `REMEMBERED_S`, the next time is twice as long, up to `LONGEST_S`. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from nri_coloc.pressure.action import Cause, Row

NAME: Final = "degrade_cpu"

FULL: Final = 0.8
"""Part of a pool's CPUs from which it may be short: the highest load that Meituan aims at in any pool."""

LEAST: Final = 100.0
"""Milli-CPU: a container is not degraded for less than this above its request, and never below it."""

ALIKE: Final = 0.5
"""Part of the largest excess from which `coloc.nri.io/priority` orders: a step on less frees little CPU."""

SETTLES_S: Final = 2.0
"""Seconds between two steps in one pool: two readings show the effect of a step."""

LASTS_S: Final = 60.0
"""Seconds from the last step to the end: twice the shortest `hold` of the ladder, so that no container is degraded and
restored more than once a minute."""

LONGEST_S: Final = 8 * LASTS_S
REMEMBERED_S: Final = 600.0
"""The ladder's bounds for a hold that doubles."""


class Member(NamedTuple):
    """One online container of a pool.

    use: milli-CPU, None if unknown.
    request: of its pod, milli-CPU; None if unknown: it is not degraded, and its pod is no victim.
    most: its own quota, milli-CPU; infinity for none.
    may: whether it may be degraded.
    kube_priority: priority of its PriorityClass.
    priority: `coloc.nri.io/priority`; any author can write it, so it counts within its namespace.
    """

    pod_id: str
    use: float | None
    request: float | None
    most: float = float("inf")
    may: bool = False
    namespace: str = ""
    kube_priority: int = 0
    priority: int = 0

    @property
    def floor(self) -> float:
        """Milli-CPU below which it is not degraded: its pod's request, at least LEAST; infinite if that is unknown."""
        return float("inf") if self.request is None else max(self.request, LEAST)

    @property
    def excess(self) -> float:
        """Milli-CPU above its request."""
        return 0.0 if self.use is None else self.use - self.floor


class Pool(NamedTuple):
    """One online pool.

    members: by container id.
    hurt: pods with all their containers in it that wait for CPU, and no reclaimed pod is the cause.
    """

    cpu_milli: float
    members: Mapping[str, Member]
    hurt: frozenset[str] = frozenset()

    @property
    def use(self) -> float:
        """Milli-CPU of all members whose use is known."""
        return sum(one.use or 0.0 for one in self.members.values())


class Degraded(NamedTuple):
    """A degraded container.

    limit: milli-CPU.
    since: time of the last step, seconds.
    lasts_s: seconds from then to its end.
    own: its own quota when it was degraded first, milli-CPU.
    """

    limit: float
    since: float
    lasts_s: float
    own: float


class Ended(NamedTuple):
    """A container that was degraded until `at`; `rests`: it gave no relief, and is not degraded for `lasts_s`."""

    at: float
    lasts_s: float
    rests: bool


class Course(NamedTuple):
    """The degraded containers, those that were restored lately, and the time of each pool's last step."""

    degraded: Mapping[str, Degraded] = {}
    ended: Mapping[str, Ended] = {}
    stepped: Mapping[str, float] = {}


NO_COURSE: Final = Course()


class Step(NamedTuple):
    """A change of one container.

    before, limit: milli-CPU; None for no limit of ours.
    victims: pods that are hurt.
    candidates: containers of the pool that could be degraded; None if the step restores.
    """

    cause: Cause
    container_id: str
    member: Member
    before: float | None
    limit: float | None
    lasts_s: float
    pool: str = ""
    pool_cpu_milli: float = 0.0
    pool_use: float = 0.0
    victims: frozenset[str] = frozenset()
    candidates: int | None = None


def turn(before: Course, pools: Mapping[str, Pool], now: float) -> tuple[Course, tuple[Step, ...]]:
    """Return the course after one turn, and the steps to carry out. A container that no pool has is forgotten."""
    ends = tuple(_ends(before, pools, now))
    course = _after_ends(before, pools, ends, now)
    steps = [step for name, pool in pools.items() if (step := _step(name, pool, course, now)) is not None]
    for step in steps:
        course = _stepped(course, step, now)
    return course, (*ends, *steps)


def _ends(before: Course, pools: Mapping[str, Pool], now: float) -> Iterator[Step]:
    """Yield the steps that restore containers of these pools now."""
    for name, pool in pools.items():
        for container_id, one in before.degraded.items():
            member = pool.members.get(container_id)
            cause = None if member is None else _end(member, one, pool, now)
            if cause is not None:
                yield _restored(name, pool, container_id, one, cause)


def _after_ends(before: Course, pools: Mapping[str, Pool], ends: Iterable[Step], now: float) -> Course:
    """Return a course without the containers that are restored or in no pool, and without what is long over."""
    ended = {k: one for k, one in before.ended.items() if now - one.at < REMEMBERED_S}
    ended |= {s.container_id: Ended(now, s.lasts_s, rests=s.cause is Cause.NO_RELIEF) for s in ends}
    here = {k for pool in pools.values() for k in pool.members} - {step.container_id for step in ends}
    return Course(
        degraded={k: one for k, one in before.degraded.items() if k in here},
        ended=ended,
        stepped={k: at for k, at in before.stepped.items() if now - at < SETTLES_S},
    )


def _stepped(course: Course, step: Step, now: float) -> Course:
    """Return the course after a container was degraded, or degraded further."""
    former = course.degraded.get(step.container_id)
    own = step.member.most if former is None else former.own
    one = Degraded(step.limit or 0.0, now, step.lasts_s, own)
    return course._replace(
        degraded={**course.degraded, step.container_id: one}, stepped={**course.stepped, step.pool: now}
    )


def refused(course: Course, step: Step, now: float) -> Course:
    """Return the course after the kernel refused a step: the container is restored, and rests."""
    degraded = {k: one for k, one in course.degraded.items() if k != step.container_id}
    rest = Ended(now, step.lasts_s, rests=True)
    return course._replace(degraded=degraded, ended={**course.ended, step.container_id: rest})


def _end(member: Member, one: Degraded, pool: Pool, now: float) -> Cause | None:
    """Return why a container is restored now; None to go on."""
    if not member.may or member.most != one.own or one.limit < member.floor:
        return Cause.NOT_ALLOWED
    if now - one.since < one.lasts_s:
        return None
    return Cause.NO_RELIEF if pool.hurt else Cause.CALM


def _restored(name: str, pool: Pool, container_id: str, one: Degraded, cause: Cause) -> Step:
    return Step(
        cause=cause,
        container_id=container_id,
        member=pool.members[container_id],
        before=one.limit,
        limit=None,
        lasts_s=one.lasts_s,
        pool=name,
        pool_cpu_milli=pool.cpu_milli,
        pool_use=pool.use,
        victims=pool.hurt,
    )


def _step(name: str, pool: Pool, course: Course, now: float) -> Step | None:
    """Return the step of a pool; None if it is not short, or no container may be degraded further."""
    victims = _victims(pool, course.degraded)
    is_short = bool(victims) and pool.use >= FULL * pool.cpu_milli
    if not is_short or name in course.stepped:
        return None
    candidates = _candidates(pool, victims, course, now)
    container_id = _first(candidates)
    if container_id is None:
        return None
    found = _lowered(pool, container_id, candidates[container_id], course)
    return found._replace(pool=name, victims=victims, candidates=len(candidates))


def _lowered(pool: Pool, container_id: str, member: Member, course: Course) -> Step:
    """Return the step that degrades a container, or degrades it further."""
    former = course.degraded.get(container_id)
    return Step(
        cause=Cause.HURT,
        container_id=container_id,
        member=member,
        before=None if former is None else former.limit,
        limit=_limit(member),
        lasts_s=_lasts_s(course.ended.get(container_id)) if former is None else former.lasts_s,
        pool_cpu_milli=pool.cpu_milli,
        pool_use=pool.use,
    )


def _candidates(pool: Pool, victims: frozenset[str], course: Course, now: float) -> dict[str, Member]:
    """Return the containers that may be degraded further, by id."""
    highest = max(one.kube_priority for one in pool.members.values() if one.pod_id in victims)
    return {
        k: one
        for k, one in pool.members.items()
        if one.may
        and one.excess >= LEAST
        and one.kube_priority <= highest
        and not _rests(course.ended.get(k), now)
        and _limit(one) < _present(k, one, course)
    }


def _victims(pool: Pool, degraded: Mapping[str, Degraded]) -> frozenset[str]:
    """Return the hurt pods that use no more than their request; a degraded pod is no victim."""
    uses: dict[str, float | None] = dict.fromkeys(pool.hurt, 0.0)
    requests = {one.pod_id: one.request for one in pool.members.values()}
    for container_id, one in pool.members.items():
        known = uses.get(one.pod_id)
        if known is not None:
            is_unknown = one.use is None or container_id in degraded
            uses[one.pod_id] = None if is_unknown else known + (one.use or 0.0)
    return frozenset(
        k
        for k, use in uses.items()
        if use is not None and (request := requests.get(k)) is not None and use <= request
    )


def _present(container_id: str, one: Member, course: Course) -> float:
    """Return the limit that a container has now, milli-CPU."""
    known = course.degraded.get(container_id)
    return one.most if known is None else known.limit


def _limit(one: Member) -> float:
    """Return the next limit of a container above its request; a rest below `LEAST` is not halved."""
    half = one.excess / 2
    return one.floor if half < LEAST else one.floor + half


def _first(found: Mapping[str, Member]) -> str | None:
    """Return the container to degrade; None for none.

    The lowest PriorityClass, and then the container furthest above its request, select a namespace. In it the lowest
    `coloc.nri.io/priority` goes first among the containers at least half as far above their requests, then the
    container furthest above its request. So many light containers do not delay the step of a heavy one.
    """
    if not found:
        return None
    first = min(found, key=lambda k: (found[k].kube_priority, -found[k].excess, k))
    worst = found[first]
    alike = [
        k
        for k, one in found.items()
        if (one.namespace, one.kube_priority) == (worst.namespace, worst.kube_priority)
        and one.excess >= ALIKE * worst.excess
    ]
    return min(alike, key=lambda k: (found[k].priority, -found[k].excess, k))


def _rests(ended: Ended | None, now: float) -> bool:
    return ended is not None and ended.rests and now - ended.at < ended.lasts_s


def _lasts_s(ended: Ended | None) -> float:
    return LASTS_S if ended is None else min(2 * ended.lasts_s, LONGEST_S)


ROW: Final = Row(
    when="`degrade: true`, an online pod within its request waits for CPU, and the containers of its pool use 80 % of "
    "its CPUs or more",
    does="quota of one online container above its pod's request: the part above the request is halved, every two "
    "seconds while the pool is short, to the request at the least",
    undone="by a timer, 60 s after the last step; twice as long each time that the pool is short again, up to 480 s",
)
"""Its row of the table in docs/pressure.md."""
