"""Decide which claims to CPUs hold: after a restart (`granted`), and after a change of settings or of the machine.

After a change, known containers keep their CPUs or lose them (`surviving`). After a restart, containers of the
runtime's list claim CPUs, before the list is replayed.

Claims are granted one by one, in the order of trust, from the CPUs that are left. A claim that is not granted costs no
other claim. A container that may own no CPUs now claims none. Every granted claim leaves `share` one CPU. A claim
without proof also leaves the operator's pools the CPUs that they had.

A container that lost its own CPUs runs in `share`, so its specification is a set of `share`. Specifications of other
containers show this if they are up to date. They may be stale, because a container that is moved by file keeps its
specification until a push.

1. proven by the record: record and specification agree, and no container in `share` has exactly this set;
2. claims to CPUs that no other specification names; proven if one of these is of a container in `share`;
3. claims by a record to CPUs that another specification names too.

A specification that names CPUs granted in the first step is stale, and shows nothing in the second. In the third step a
claim by the specification alone is never granted, because a pod can hide the records of its containers. Nor is a record
that its own container's specification contradicts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.state import (
    EMPTY,
    POOLS,
    SHARE,
    SYSTEM,
    Asked,
    Assignment,
    Crowd,
    NodeState,
    Pools,
)
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import ISOLATED, KEPT_BY_DRA, Container, QoSClass, Wish
from nri_coloc.placing import claim, driver, request, supply, tiers
from nri_coloc.placing.claim import Claim, InPool

Listed = tuple[tuple[Container, Wish], ...]


class Granted(NamedTuple):
    """The claims that hold.

    cpus: all CPUs that containers own or get again; pools leave them alone.
    driven: ids of containers on CPUs of the DRA CPU driver.
    ranks: place in the replay by container id, of the other claims.
    """

    cpus: CPUMask
    driven: frozenset[str]
    ranks: Mapping[str, int]


class _Claimant(NamedTuple):
    """A container with its claim.

    cpus: the claimed CPUs that the machine and the settings still have for it.
    is_whole: these are all of the claimed CPUs.
    """

    container: Container
    claim: Claim
    cpus: CPUMask
    is_whole: bool

    @property
    def is_small(self) -> bool:
        """Whether it requests less than one CPU: its claim lapses when its pod's main container comes."""
        return not request.of_container(self.container).whole

    @property
    def order(self) -> tuple[bool, bool, bool, bool, bool, int, str]:
        """The order among claims of equal proof: records that specifications agree with are the best.

        A record is a claim from the time of creation, so the youngest holds: the older one had lapsed by then. Of sets
        that only specifications name the oldest holds: a container that waits in `share` came later.
        """
        found, container = self.claim, self.container
        is_guess = found.source == "spec"  # where record and specification are one set, no guess is needed
        age = -container.created_at if found.recorded else container.created_at
        return (
            found.is_belied,
            is_guess and not found.recorded,
            is_guess,
            found.followed,
            self.is_small,
            age,
            container.id,
        )

    @property
    def may_be_contested(self) -> bool:
        """Whether it may hold although another specification names its CPUs: its record and its own one agree."""
        return self.claim.recorded and not self.claim.is_belied

    def is_proven_by(self, shown: "_Shown") -> bool:
        """Return whether containers in `share` show that this claim, which none contests, is no set of `share`."""
        return bool(shown.of_share) and not self.claim.is_belied


class _Shown(NamedTuple):
    """Sets of CPUs that specifications of containers without a claim name.

    sets: of all containers that we placed in pools.
    of_share: those of containers in `share` or `system`: these sets contain all of `share`.
    """

    sets: frozenset[CPUMask]
    of_share: frozenset[CPUMask]

    def without(self, granted: CPUMask) -> "_Shown":
        """Return the sets that name no granted CPU; the others are stale."""
        return _Shown(
            frozenset(cpus for cpus in self.sets if not cpus & granted),
            frozenset(cpus for cpus in self.of_share if not cpus & granted),
        )

    def contests(self, cpus: CPUMask) -> bool:
        """Return whether one of the sets names one of these CPUs."""
        return any(each & cpus for each in self.sets)


class _Room:
    """The CPUs that are left for claims.

    left: CPUs of the machine, `usable` those that are not isolated.
    of_pools: number of CPUs that the operator's pools keep beside claims without proof.
    """

    def __init__(self, state: NodeState, of_pools: int) -> None:
        self.left = _for_all(state) | supply.isolated(state)
        self.taken: CPUMask = state.pools.dedicated
        self._usable = state.topology.usable
        self._of_pools = of_pools

    def grant(self, cpus: CPUMask, *, is_proven: bool) -> bool:
        """Take these CPUs if they are left, and enough for `share` and the pools stay; return whether they are."""
        beside = (self.left & ~cpus & self._usable).bit_count()
        fits = beside > (0 if is_proven else self._of_pools) or not cpus & self._usable
        if not fits or cpus & ~self.left:
            return False
        self.take(cpus)
        return True

    def take(self, cpus: CPUMask) -> None:
        self.left &= ~cpus
        self.taken |= cpus


def granted(state: NodeState, near: Pools, listed: Listed, places: Mapping[str, InPool]) -> Granted:
    """Return the claims that hold, of containers that this process does not know.

    state: with the listed pods.
    near: the pools with their earlier CPUs.
    places: of the listed containers, by id (`claim.in_pools`).
    """
    room = _Room(state, _kept_by_pools(state, near, listed))
    driven = {c.id: driver.claimed(c) for c, wish in listed if KEPT_BY_DRA in wish.preserve}
    for cpus in driven.values():
        room.take(cpus)
    claimants = sorted(_claimants(state, listed, driven), key=lambda one: one.order)
    shown = _shown(state.pools, listed, places, claimants)
    exact, rest = _parted(claimants, lambda one: _is_exact(one, shown))
    holding = [one for one in exact if room.grant(one.cpus, is_proven=True)]
    fresh = shown.without(room.taken)
    uncontested, contested = _parted(rest, lambda one: not fresh.contests(one.cpus))
    holding += [one for one in uncontested if room.grant(one.cpus, is_proven=one.is_proven_by(fresh))]
    holding += [one for one in contested if one.may_be_contested and room.grant(one.cpus, is_proven=False)]
    # a claim of which a part is left grows beside it: only after all others have their CPUs
    line = sorted(holding, key=lambda one: (not one.is_whole, one.is_small))
    ranks = {one.container.id: rank for rank, one in enumerate(line)}
    return Granted(room.taken, frozenset(driven), ranks)


def surviving(
    state: NodeState, topology: Topology, withheld: CPUMask
) -> tuple[list[Assignment], list[Assignment]]:
    """Return the known containers that keep their CPUs under new settings or on a changed machine, and the others.

    If `share` would be left without a CPU, the youngest owners lose theirs. Containers with CPUs that another agent
    chose (`hands_off`) come first. One with CPUs of the DRA CPU driver loses its place too if CPUs of its claims came
    back: it gets all of them again, because the driver does not take them back.
    """
    free, aside = topology.usable & ~withheld, topology.aside & ~withheld
    holding: list[Assignment] = []
    lost: list[Assignment] = []
    in_line = sorted(state.containers.values(), key=lambda a: (not a.hands_off, a.container.created_at, a.id))
    for assignment in in_line:
        owned = assignment.exclusive
        claimable = free | aside if assignment.wish.pool == ISOLATED else free
        if assignment.hands_off:
            claimable = topology.online
        if _has_more(assignment, topology) or (owned and (owned & ~claimable or owned & free == free)):
            lost.append(assignment)
            continue
        free &= ~owned
        aside &= ~owned
        holding.append(assignment)
    return holding, lost


def _has_more(assignment: Assignment, topology: Topology) -> bool:
    """Return whether CPUs of a container's claims are online that it does not own, although the driver pinned it."""
    is_driven = assignment.hands_off and KEPT_BY_DRA in assignment.wish.preserve
    return is_driven and bool(assignment.container.claimed & topology.online & ~assignment.exclusive)


def _claimants(state: NodeState, listed: Listed, driven: Mapping[str, CPUMask]) -> Iterator[_Claimant]:
    for container, wish in listed:
        if container.id in state.containers or container.id in driven or not _may_own(state, container, wish):
            continue
        found = claim.of(container, wish, state.cpu_request_of(container.pod_id))
        ours = _for_all(state) | (supply.isolated(state) if wish.pool == ISOLATED else 0)
        if cpus := found.cpus & ours:
            yield _Claimant(container, found, cpus, cpus == found.cpus)


def _may_own(state: NodeState, container: Container, wish: Wish) -> bool:
    """Return whether a container may own CPUs. If not, it lost those that its record and its specification name."""
    is_owner = wish.qos is QoSClass.DEDICATED and not wish.init and not wish.is_hands_off
    return is_owner and supply.of(state, container, wish).cpus > 0


def _for_all(state: NodeState) -> CPUMask:
    """Return the CPUs of `share` and of the operator's pools together."""
    return state.pools.system & ~state.pools.reserved


def _is_exact(one: _Claimant, shown: _Shown) -> bool:
    """Return whether record and specification agree, and no container in `share` has the same set."""
    found = one.claim
    return found.source == "record" and found.sure and claim.in_spec(one.container) not in shown.of_share


def _parted(
    claimants: Iterable[_Claimant], test: Callable[[_Claimant], bool]
) -> tuple[list[_Claimant], list[_Claimant]]:
    """Return the claimants that pass a test, and the others."""
    passed: tuple[list[_Claimant], list[_Claimant]] = ([], [])
    for one in claimants:
        passed[not test(one)].append(one)
    return passed


def _shown(pools: Pools, listed: Listed, places: Mapping[str, InPool], claimants: list[_Claimant]) -> _Shown:
    """Return the sets of containers that we placed, without claimants and containers that may follow one of them."""
    ids = {one.container.id for one in claimants}
    pods = {one.container.pod_id for one in claimants}
    sets: set[CPUMask] = set()
    of_share: set[CPUMask] = set()
    planned = {each.name for each in pools.plan}.difference((SHARE, SYSTEM))
    for container, wish in listed:
        if container.id in ids:
            continue
        found = places[container.id]
        if not found.cpus or (container.pod_id in pods and found.may_follow):
            continue
        sets.add(found.cpus)
        of_class = wish.qos in (QoSClass.SHARED, QoSClass.SYSTEM)
        if of_class and not {tiers.base(pool) for pool in (tiers.pool_of(wish), found.pool)} & planned:
            of_share.add(found.cpus)
    return _Shown(frozenset(sets), frozenset(of_share))


def _kept_by_pools(state: NodeState, near: Pools, listed: Listed) -> int:
    """Return how many CPUs the operator's pools keep beside claims without proof: their size by their containers.

    A minimum counts as far as the pool had CPUs, because it may be new in the settings. It counts in full for a pool
    whose CPUs are unknown.
    """
    now = state.pools
    if not now.plan:
        return 0
    asked = _asked(state, listed)
    had = {k: cpus for k, cpus in near.tiers.items() if k in now.asked or cpus != now.tiers.get(k)}
    kept = 0
    for name in had.keys() | asked.keys():
        tuning = tiers.bounds(now, name)
        least = min(tuning.minimum, had[name].bit_count()) if name in had else tuning.minimum
        kept += tiers.wanted(replace(tuning, minimum=least), asked.get(name))
    names = {tiers.base(k) for k in had.keys() | asked.keys()}.union(POOLS)
    # a pool with a group for each pod or namespace has no CPUs before its first group
    return kept + sum(each.minimum for each in now.plan if each.name not in names and not each.group_by)


def _asked(state: NodeState, listed: Listed) -> Mapping[str, Asked]:
    """Return the requests of the listed containers by operator's pool, as the pools count them when all are placed."""
    members = (
        Assignment(container, wish.qos, tiers.pool_of(wish), hands_off=wish.is_hands_off, wish=wish)
        for container, wish in listed
    )
    nothing = replace(state, pools=replace(state.pools, asked={}), containers=EMPTY, tallies={})
    return tiers.requests_after(nothing, tiers.Population(Crowd.of(members), state.pods), state.pods).asked
