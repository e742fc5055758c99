"""The operator's pools: the pool of a container, the size and the CPUs of each pool, and the CPUs that may be lent.

The operator's pools hold containers of class shared or system; a wish names only pools that these classes may use
(see `pods.gate`). A reclaimed container is in the reclaim pool, a dedicated one without CPUs of its own in
`share`.

Sizes follow from the containers alone: the sum of their requests, within the pool's bounds and the free CPUs. The
same containers give the same sizes, in any order of arrival. The choice of CPUs follows from the past too: a pool
keeps its CPUs, returns CPUs so that the rest lie together, and grows next to its own. If a pool gets less than its
containers ask for, the audit gives the cause.

Only the use of lendable CPUs counts against lent CPU. Every CPU is lendable, `owned` or `beyond`. The use of owned
CPUs is read from their owners' cgroups. The use of CPUs beyond is read from the CPUs' own counters. A container
is on owned CPUs only if it runs nowhere else: so no use is subtracted twice, and unknown use is not subtracted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from itertools import groupby
from operator import or_
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.settings import PoolTuning, ReclaimTuning
from nri_coloc.core.state import (
    POOLS,
    RECLAIM,
    SHARE,
    SYSTEM,
    Asked,
    Assignment,
    Crowd,
    NodeState,
    PodPlace,
    Pools,
    Tally,
)
from nri_coloc.core.texts import counted
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.placing import allocator, claim, request

_NOTHING_ASKED: Final = Asked(0, 0)
_PACKED: Final = Wish(QoSClass.DEDICATED)
_NO_BOUNDS: Final = PoolTuning("")
_OF_CLASS: Final[Mapping[QoSClass, str]] = MappingProxyType(
    {
        QoSClass.DEDICATED: SHARE,
        QoSClass.SHARED: SHARE,
        QoSClass.RECLAIMED: RECLAIM,
        QoSClass.SYSTEM: SYSTEM,
    }
)
_WITH_TIERS: Final = (QoSClass.SHARED, QoSClass.SYSTEM)


def pool_of(wish: Wish) -> str:
    """Return the pool of a container that has no CPUs of its own."""
    return wish.pool if wish.pool and wish.qos in _WITH_TIERS else _OF_CLASS[wish.qos]


def housed(pools: Pools, assignment: Assignment) -> Assignment:
    """Return the assignment in a pool that exists: the class's own pool if its pool is no longer in the settings."""
    if assignment.pool in POOLS or assignment.pool in pools.tiers:
        return assignment
    return replace(assignment, pool=_OF_CLASS[assignment.qos])


def base(pool: str) -> str:
    """Return the operator's name of a pool, without its group."""
    return pool.partition("/")[0]


def bounds(pools: Pools, name: str) -> PoolTuning:
    """Return the operator's settings for a pool; no bounds for an unknown pool."""
    wanted = base(name)
    return next((each for each in pools.plan if each.name == wanted), _NO_BOUNDS)


class Population(NamedTuple):
    """The containers of a node and the pods with their requests."""

    containers: Crowd
    pods: Mapping[str, PodPlace]


class Counted(NamedTuple):
    """The requests of all containers by pool, and the tallies of their pods, which add up to them."""

    asked: Mapping[str, Asked]
    tallies: Mapping[str, Tally]


def requests_after(
    before: NodeState,
    after: Population,
    pod_ids: Iterable[str] = (),
    changed: Collection[str] = (),
) -> Counted:
    """Return the requests of all containers by pool, after the pods of `pod_ids` and of `changed` have changed.

    Only these pods are counted again.

    changed: ids of all containers that are new, changed or gone. A pod with another change than these, such as one that
        was never counted, is counted as a whole.
    """
    names = {each.name for each in before.pools.plan}.difference(POOLS)
    if not names:
        return Counted({}, {})
    asked, tallies = dict(before.pools.asked), dict(before.tallies)
    sides = ((before.containers, -1), (after.containers, 1))
    changes = [(a, sign) for crowd, sign in sides for a in map(crowd.get, changed) if a is not None]
    for pod_id in dict.fromkeys([*pod_ids, *(each.container.pod_id for each, _ in changes)]):
        known, members = tallies.pop(pod_id, Tally()), after.containers.of_pod(pod_id)
        own = [one for one in changes if one[0].container.pod_id == pod_id]
        is_known = known.members is before.of_pod(pod_id) and (own or members is known.members)
        now = (_changed(known, own) if is_known else _tally(members))._replace(members=members)
        place = after.pods.get(pod_id)
        now = now._replace(counted=_parts(now, names, place.pod.cpu_request if place else None))
        _add(asked, known.counted, -1)
        _add(asked, now.counted, 1)
        if members:
            tallies[pod_id] = now
    return Counted({pool: total for pool, total in asked.items() if total.members}, tallies)


def demand(state: NodeState) -> dict[str, Asked]:
    """Return the requests of all containers by pool, `share` included."""
    of_share: dict[str, Asked] = {}
    for pod_id in dict.fromkeys(member.container.pod_id for member in state.containers.of_pool(SHARE)):
        _add(of_share, _parts(_tally(state.of_pod(pod_id)), {SHARE}, state.cpu_request_of(pod_id)), 1)
    return {**state.pools.asked, **of_share}


def _tally(members: tuple[Assignment, ...]) -> Tally:
    return _changed(Tally(members), [(each, 1) for each in members])


def _changed(tally: Tally, changes: Iterable[tuple[Assignment, int]]) -> Tally:
    """Return the sums of a tally with containers added (1) or taken away (-1)."""
    milli, by_pool = tally.milli, dict(tally.by_pool)
    for each, sign in changes:
        own = request.of_container(each.container, each.wish).milli
        milli += sign * own
        if not each.hands_off:
            _add(by_pool, {each.pool: Asked(own, 1)}, sign)
    return tally._replace(milli=milli, by_pool={pool: one for pool, one in by_pool.items() if one.members})


def _parts(tally: Tally, names: Collection[str], pod: int | None) -> Mapping[str, Asked]:
    """Return what a pod's containers count for in some pools: together at most the pod's request.

    names: of the pools, without their groups.
    pod: the pod's request, thousandths of a CPU; None if it is unknown.
    """
    all_of_pod = Asked(tally.milli, len(tally.members))
    return {
        pool: own._replace(milli=request.part_of(pod, own, all_of_pod))
        for pool, own in tally.by_pool.items()
        if base(pool) in names
    }


def _add(totals: dict[str, Asked], parts: Mapping[str, Asked], sign: int) -> None:
    for pool, part in parts.items():
        known = totals.get(pool, _NOTHING_ASKED)
        totals[pool] = Asked(known.milli + sign * part.milli, known.members + sign * part.members)


class Layout(NamedTuple):
    """The operator's pools and their sizes.

    pools: each pool with its name, which may hold a group, in the order of the plan.
    wants: CPUs of its own by pool, the highest priority first; without pools that should have none.
    """

    pools: tuple[tuple[PoolTuning, str], ...]
    wants: Mapping[str, int]


def layout(pools: Pools) -> Layout:
    """Return the layout from the plan, the requests and the loop's counts, without a look at CPUs."""
    return _layout(pools.plan, tuple(pools.asked.items()), tuple(pools.counts.items()))


@lru_cache(maxsize=8)
def _layout(
    plan: tuple[PoolTuning, ...], totals: tuple[tuple[str, Asked], ...], told: tuple[tuple[str, int], ...]
) -> Layout:
    """Return the layout; it is cached, because most changes of a pool's CPUs change no request."""
    asked, counts = dict(totals), dict(told)
    found: list[tuple[PoolTuning, str]] = []
    for tuning in plan:
        if tuning.group_by:
            found += [(tuning, name) for name in sorted(asked) if base(name) == tuning.name]
        elif tuning.name not in POOLS:
            found.append((tuning, tuning.name))
    wants = {}
    for tuning, name in sorted(found, key=_by_priority):
        size = wanted(tuning, asked.get(name), counts.get(name))
        if size:
            wants[name] = size
    return Layout(tuple(found), wants)


def _by_priority(named: tuple[PoolTuning, str]) -> int:
    return -named[0].priority


def carve(topology: Topology, free: CPUMask, former: Pools, wants: Mapping[str, int]) -> dict[str, CPUMask]:
    """Return the CPUs of all pools with CPUs of their own; `share` keeps its minimum, and at least one CPU."""
    if not wants:
        return {}
    room = free.bit_count() - max(1, bounds(former, SHARE).minimum)
    sizes = wants if sum(wants.values()) <= room else _granted(former, wants, room)
    kept: dict[str, CPUMask] = {}
    for name, size in sizes.items():
        kept[name] = _trimmed(topology, former.tiers.get(name, 0) & free, size)
        free &= ~kept[name]
    for name, size in sizes.items():
        if (more := size - kept[name].bit_count()) > 0:
            grown = _nearest(topology, free, more, kept[name])
            kept[name] |= grown
            free &= ~grown
    return kept


def is_small_group(tuning: PoolTuning, milli: int) -> bool:
    """Return whether members that request `milli` thousandths of a CPU are too small a group for CPUs of its own."""
    return tuning.is_grouped_by_authors and milli < 1000


def minimum_of(tuning: PoolTuning, milli: int) -> int:
    """Return the minimum of a pool, or of a group whose members request `milli` thousandths of a CPU, in CPUs.

    The minimum of a group that an author of pods can make counts up to its members' requests.
    """
    return min(tuning.minimum, -(-milli // 1000)) if tuning.is_grouped_by_authors else tuning.minimum


def wanted(tuning: PoolTuning, total: Asked | None, told: int | None = None) -> int:
    """Return how many CPUs of its own a pool should have, 0 for none.

    told: the loop's count, which goes first.
    """
    milli = total.milli if total else 0
    if is_small_group(tuning, milli):
        return 0
    if told is not None:
        return max(told, 1 if total else 0)
    if not tuning.sized:
        return 0
    if total is None:
        return tuning.minimum
    whole = max(-(-milli // 1000), minimum_of(tuning, milli), 1)
    return min(whole, tuning.maximum) if tuning.maximum else whole


def _granted(former: Pools, wants: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the CPUs of each pool within the room: first one CPU each, then each minimum, then the wanted size."""
    minima = {name: min(size, max(bounds(former, name).minimum, 1)) for name, size in wants.items()}
    claims = (
        Claim(name, bounds(former, name).priority, former.asked.get(name, _NOTHING_ASKED).milli // 1000, size)
        for name, size in wants.items()
    )
    sizes: dict[str, int] = {}
    for turn in (dict.fromkeys(wants, 1), minima, *by_priority(claims)):
        for name, size in turn.items():
            more = min(size - sizes.get(name, 0), room)
            if more > 0:
                sizes[name] = sizes.get(name, 0) + more
                room -= more
    return sizes


class Claim(NamedTuple):
    """A pool's claim to CPUs.

    whole: CPUs that its members request as whole ones.
    size: CPUs that the pool should have.
    """

    pool: str
    priority: int
    whole: int
    size: int


def by_priority(claims: Iterable[Claim]) -> Iterator[dict[str, int]]:
    """Yield, for each priority, the CPUs that its pools may get now: first at most the whole ones, then their sizes.

    claims: the highest priority first.

    So a CPU that a pool's members request only in part comes after the whole ones of all pools of its priority.
    Otherwise many groups with a little more than a CPU would halve a large one.
    """
    for _, group in groupby(claims, key=lambda claim: claim.priority):
        equals = [*group]
        yield {claim.pool: min(claim.size, claim.whole) for claim in equals}
        yield {claim.pool: claim.size for claim in equals}


def _trimmed(topology: Topology, cpus: CPUMask, size: int) -> CPUMask:
    """Return `size` of the CPUs that lie together; all of them if there are no more."""
    if cpus.bit_count() <= size:
        return cpus
    return allocator.choose(topology, cpus, size, _PACKED)


def _nearest(topology: Topology, free: CPUMask, count: int, near: CPUMask) -> CPUMask:
    """Return `count` free CPUs: of the cores of `near` first, then of its L3 groups, its nodes, then any."""
    chosen = 0
    for around in topology.around(near) if near else ():
        if chosen.bit_count() == count:
            return chosen
        chosen |= _trimmed(topology, around & free & ~chosen, count - chosen.bit_count())
    return chosen | _trimmed(topology, free & ~chosen, count - chosen.bit_count())


def named(
    laid_out: Layout,
    asked: Mapping[str, Asked],
    carved: Mapping[str, CPUMask],
    system: CPUMask,
    share: CPUMask,
) -> dict[str, CPUMask]:
    """Return the CPUs of all the operator's pools.

    A pool without CPUs of its own has the CPUs of `system` or `share`. So has a small group. A sized pool that returned
    all its CPUs has none.
    """
    found: dict[str, CPUMask] = {}
    for tuning, name in laid_out.pools:
        if name in carved:
            found[name] = carved[name]
        elif tuning.sized and name not in asked:
            found[name] = 0
        else:
            found[name] = system if tuning.qos is QoSClass.SYSTEM else share
    return found


def shortage(pools: Pools, name: str) -> str:
    """Return in words that a pool has less than its containers ask for; "" if it has enough."""
    total = pools.asked.get(name)
    if total is None or name in pools.counts:
        return ""
    tuning = bounds(pools, name)
    if not tuning.sized or is_small_group(tuning, total.milli):
        return ""
    cpus = pools.cpus(name)
    has, is_name = cpus.bit_count(), bool(cpus & pools.share)  # over that, or over all that `system` has
    if has * 1000 >= total.milli and not is_name:
        return ""
    if is_name:
        return "its containers ask for more, and no CPUs are left for it alone"
    if has == tuning.maximum:
        return f"its containers ask for more than its maximum of {counted(has, 'CPU')}"
    return f"its containers ask for more than the {counted(has, 'CPU')} that other pools leave"


def lendable(pools: Pools, tuning: ReclaimTuning) -> CPUMask:
    """Return the CPUs that reclaimed tasks may use: of all tiers if pools are sized by load, else of `share`."""
    return pools.allocatable if tuning.enabled and tuning.partition else pools.free


def owned(pools: Pools, lendable: CPUMask) -> CPUMask:
    """Return the CPUs of dedicated containers and of pools with CPUs of their own, and those pinned by the kubelet."""
    apart = [cpus for cpus in pools.tiers.values() if not cpus & pools.free]
    return reduce(or_, apart, pools.dedicated | pools.kept) & ~lendable


def beyond(state: NodeState, lendable: CPUMask) -> CPUMask:
    """Return the CPUs that no container owns and that are not lent: reserved, free isolated, and out of pods' reach."""
    return state.topology.machine & ~lendable & ~owned(state.pools, lendable)


def cpus_for(state: NodeState, assignment: Assignment) -> CPUMask:
    """Return the CPUs that a container may run on: all, if it is left alone and its spec names none."""
    if not assignment.hands_off:
        return state.cpus_of(assignment)
    return claim.in_spec(assignment.container) & state.topology.online or state.topology.online


def is_on_owned(state: NodeState, assignment: Assignment, owned: CPUMask) -> bool:
    """Return whether a container runs on `owned` CPUs and nowhere else."""
    return not cpus_for(state, assignment) & ~owned


def is_held_to_box(place: PodPlace) -> bool:
    """Return whether a pod runs on the reclaim pool's CPUs and no others.

    A reclaimed pod that preserves its CPU runs on its earlier CPUs.
    """
    return place.boxed and "cpu" not in place.wish.preserve


def is_lent_to(place: PodPlace, assignment: Assignment) -> bool:
    """Return whether a container runs on the reclaim pool although its pod has no reclaim cgroup."""
    return not place.boxed and assignment.qos is QoSClass.RECLAIMED and assignment.pool == RECLAIM
