"""The groups of cgroups that the fast loop reads, derived from the node's state, and the readings of a tick."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.kubepods import of_pods
from nri_coloc.core.readings import FastReadings, Look, Role
from nri_coloc.core.report import Report
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.state import RECLAIM, Assignment, NodeState, PodPlace, Pools
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import QoSClass
from nri_coloc.lending import bands, groups, partition_loop
from nri_coloc.lending.groups import ContainerFacts, Facts, Group, PodFacts, TierFacts
from nri_coloc.lending.relocation import Relocation
from nri_coloc.lending.sampler import BUDGET, FastSampler, counters_s
from nri_coloc.placing import tiers
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets

WATCH_AGAIN_S: Final = 0.1
"""Seconds between two choices of counters, however many pods come and go: a choice costs about 3 µs for each pod."""

COST_OF_LATE: Final = 16
"""Ticks of which the mean cost is taken. The pace keeps to a share of a core in the mean. So one slow tick (a page
fault, a wait for the interpreter) does not slow the loop when it has to be quick."""


class _Seen(NamedTuple):
    """A pod when its facts were computed.

    facts: None if it has none.
    """

    place: PodPlace
    members: tuple[Assignment, ...]
    facts: PodFacts | None


class PodFactsCache:
    """The facts of a node's pods, computed once for as long as the pod, its containers and the pools stay.

    On a busy node pods come and go all the time, and all other pods stay as they were. A container that follows another
    one's CPUs is in the same pod, so there are no further inputs. Used by one thread.
    """

    def __init__(self) -> None:
        self._in: tuple[Pools | None, Topology | None, CPUMask] = (None, None, 0)
        self._pods: dict[str, _Seen] = {}

    def of(self, state: NodeState, owned: CPUMask) -> tuple[PodFacts, ...]:
        """Return the facts of all pods of a state."""
        pools, topology, known_owned = self._in
        if pools is not state.pools or topology is not state.topology or known_owned != owned:
            self._in, self._pods = (state.pools, state.topology, owned), {}
        before, self._pods = self._pods, {}
        for pod_id, place in state.pods.items():
            members = tuple(state.of_pod(pod_id))
            seen = before.get(pod_id)
            if seen is None or seen.place is not place or seen.members != members:
                seen = _Seen(place, members, _facts(state, place, members, owned))
            self._pods[pod_id] = seen
        return tuple(seen.facts for seen in self._pods.values() if seen.facts is not None)


class Cost(NamedTuple):
    """CPU time of ticks, seconds.

    took_s: mean of the ticks since the last call of `TickCost.take`.
    mean_took_s: mean of the last `COST_OF_LATE` ticks.
    """

    took_s: float
    mean_took_s: float


class TickCost:
    """Measures the CPU time of ticks. Used by one thread: `begin` before the first tick, `taken` at ticks that decide.

    A reading that decides nothing is not measured by itself: the measurement is a good part of such a reading's cost.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._spent = 0.0
        self._late: deque[float] = deque(maxlen=COST_OF_LATE)

    def begin(self) -> None:
        """Count from now."""
        self._spent = self._clock()

    def taken(self, ticks: int) -> Cost:
        """Return the cost of the ticks since the last call; `ticks`: their number, at least one."""
        before, self._spent = self._spent, self._clock()
        took_s = (self._spent - before) / ticks
        self._late.extend(repeat(took_s, min(ticks, COST_OF_LATE)))
        return Cost(took_s, sum(self._late) / len(self._late))


class Measuring:
    """Chooses the counters of the fast loop, and takes the readings of a tick; for the loop's thread.

    members: the number of reclaimed pods' and host groups' cgroups that are read.
    """

    def __init__(self, node: Node, sampler: FastSampler, relocation: Relocation, report: Report) -> None:
        self._node = node
        self._sampler = sampler
        self._relocation = relocation
        self._report = report
        self._pod_facts = PodFactsCache()
        self._seen: NodeState | None = None
        self._watched_at = float("-inf")
        self._tuned: Tuning | None = None
        self._host_groups: tuple[str, ...] = ()
        self._budget = BUDGET
        self._cost = TickCost()
        self._counters_s = counters_s()
        self._was_short = False
        self.members = 0

    def begin(self) -> None:
        """Count the cost of ticks from now, on the loop's thread."""
        self._cost.begin()

    def close(self) -> None:
        """Close all counters."""
        self._sampler.close()

    def look(self, now: float) -> Look | None:
        """Return a reading that may need no decision, None if the counters must be read one by one."""
        return self._sampler.look(now)

    def forget(self) -> None:
        """Choose the counters again at the next tick."""
        self._seen, self._watched_at = None, float("-inf")

    def watch(self, state: NodeState, now: float) -> None:
        """Choose the counters to read again, after a pod or container came or went."""
        seen, tuning, host_groups = self._seen, self._node.tuning, self._relocation.host_groups
        if tuning is self._tuned and host_groups is self._host_groups and seen is not None:
            if seen is state:
                return
            if is_the_same(seen, state, tuning.reclaim):
                self._seen = state
                return
        if now - self._watched_at < WATCH_AGAIN_S:
            return
        self._seen, self._watched_at, self._tuned, self._host_groups = state, now, tuning, host_groups
        self._relocation.look_at(state)
        if tuning.reclaim.enabled and tuning.reclaim.partition:
            chosen = tier_groups_of(state)
            self._budget = partition_loop.budget(len(chosen), BUDGET)
        else:
            chosen = groups_of(state, self._lendable(state), host_groups, self._pod_facts)
            self._budget = BUDGET
        self.members = sum(group.role in (Role.BOX, Role.HOST) for group in chosen)
        self._sampler.watch(chosen)

    def readings(
        self, now: float, late_s: Sequence[float], state: NodeState, *, has_looked: bool
    ) -> FastReadings:
        """Return the readings of a tick that decides. `late_s`: of the ticks since the last one, seconds."""
        cost = self._cost.taken(len(late_s))
        found = FastReadings(
            at=now,
            samples=self._sampler.samples(now) if has_looked else self._sampler.read(now, self._budget),
            late_s=late_s[-1],
            lendable=self._lendable(state).bit_count(),
            threads_per_core=state.topology.threads_per_core,
            cpus=state.topology.online.bit_count(),
            took_s=cost.took_s,
            mean_took_s=cost.mean_took_s,
            yields=self._relocation.yields(state),
            most=tiers.bounds(state.pools, RECLAIM).maximum,
            members=self.members,
            equal=self._relocation.equal(state),
            counters_s=self._counters_s,
        )
        self._say_if_short()
        return found

    def _say_if_short(self) -> None:
        """Log once that too few files may be open at a time for all readings."""
        if self._sampler.is_short and not self._was_short:
            self._was_short = True
            words = "too few files may be open (RLIMIT_NOFILE): some are opened for each reading, others are not read"
            self._report.log.warning(words, open_files=self._sampler.open_files)

    def _lendable(self, state: NodeState) -> CPUMask:
        return tiers.lendable(state.pools, self._node.tuning.reclaim)


def groups_of(
    state: NodeState,
    lendable: CPUMask,
    host_groups: tuple[str, ...] = (),
    pod_facts: PodFactsCache | None = None,
) -> tuple[Group, ...]:
    """Return the groups that show the use of lendable CPUs by online pods and the system, and the reclaim cgroups.

    host_groups: the host groups among the reclaim cgroups.
    pod_facts: facts of pods from earlier states.
    """
    pods = (pod_facts or PodFactsCache()).of(state, tiers.owned(state.pools, lendable))
    kubepods = of_pods(pod.path for pod in pods)
    return groups.choose(Facts(kubepods, pods, host_groups, reserved=tiers.beyond(state, lendable)))


def is_the_same(seen: NodeState, state: NodeState, tuning: ReclaimTuning) -> bool:
    """Return whether both states have the same groups: equal pods, containers, lendable and owned CPUs."""
    if seen is state:
        return True
    if seen.pods is not state.pods or seen.containers is not state.containers:
        return False
    return seen.pools is state.pools or _divided(seen, tuning) == _divided(state, tuning)


def _divided(state: NodeState, tuning: ReclaimTuning) -> tuple[CPUMask, CPUMask, CPUMask]:
    lendable = tiers.lendable(state.pools, tuning)
    return lendable, tiers.owned(state.pools, lendable), state.topology.machine


def tier_groups_of(state: NodeState) -> tuple[Group, ...]:
    """Return the groups of cgroups that show the use of each tier."""
    plan, asked = state.pools.plan, state.pools.asked
    by_pool = {pool: bands.tier_of(pool, plan, asked) for pool in {a.pool for a in state.containers.values()}}
    pods = [_tier_facts(state, pod_id, place, by_pool) for pod_id, place in state.pods.items()]
    kubepods = of_pods(pod.path for pod in pods)
    return groups.choose_tiers(kubepods, pods)


def _tier_facts(state: NodeState, pod_id: str, place: PodPlace, tiers: Mapping[str, str]) -> TierFacts:
    path = targets.pod_path(place.pod)
    members = {a: _tier_of(state, a, tiers) for a in state.of_pod(pod_id)}
    found = set(members.values())
    if path and len(found) == 1:
        return TierFacts(path, found.pop())
    paths = ((targets.container_path(a), tier) for a, tier in members.items() if tier)
    return TierFacts(path, containers=tuple((cgroup, tier) for cgroup, tier in paths if cgroup))


def _tier_of(state: NodeState, assignment: Assignment, tiers: Mapping[str, str]) -> str:
    """Return the tier that a container's use counts for, "" for none.

    The use of reclaimed containers counts for no tier. The same holds on owned CPUs, and on CPUs that are left alone.
    """
    if assignment.qos is QoSClass.RECLAIMED or assignment.hands_off:
        return ""
    return "" if state.cpus_of(assignment) & state.pools.dedicated else tiers[assignment.pool]


def _facts(
    state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask
) -> PodFacts | None:
    path = targets.pod_path(place.pod)
    if place.wish.handler == "pod":
        known = tuple(_as_one(path, members))
    else:
        known = tuple(_containers(state, place, members, owned))
    if path:
        apart = _is_apart(state, place, members, owned)
        is_whole = len(known) == len(members)
        return PodFacts(path, _role(place), known, _shares_box(state, members), apart, is_whole=is_whole)
    if known:
        # no pod has this cgroup alone, so no other cgroup may be taken for the sum of its pods
        return PodFacts(known[0].path.rpartition("/")[0], Role.SYSTEM, known, is_whole=False)
    return None


def _is_apart(state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask) -> bool:
    """Return whether all of a pod's containers run on owned CPUs only; False for a pod held to the reclaim pool."""
    if tiers.is_held_to_box(place) or not members:
        return False
    return all(tiers.is_on_owned(state, a, owned) for a in members)


def _role(place: PodPlace) -> Role:
    """Return the role of a pod's cgroup.

    A pod with reclaimed containers but without a reclaim cgroup waits by design: its stalls are not blamed on lending.
    The same holds for a reclaimed pod that preserves its CPUs. No size of the reclaim pool bounds its use, which is a
    claim like any other.
    """
    if tiers.is_held_to_box(place):
        return Role.BOX
    return Role.ONLINE if place.wish.qos in (QoSClass.SHARED, QoSClass.DEDICATED) else Role.SYSTEM


def _as_one(path: str, members: tuple[Assignment, ...]) -> Iterator[ContainerFacts]:
    """Yield the pod's cgroup as the one container of a VM; containers in the guest have no cgroup."""
    if path and members:
        yield ContainerFacts(path, limited=any(map(_is_limited, members)))


def _containers(
    state: NodeState, place: PodPlace, members: tuple[Assignment, ...], owned: CPUMask
) -> Iterator[ContainerFacts]:
    for assignment in members:
        path = targets.container_path(assignment)
        if path is None:
            continue
        if assignment.qos is not QoSClass.RECLAIMED:
            apart = tiers.is_on_owned(state, assignment, owned)
            yield ContainerFacts(path, apart=apart, limited=_is_limited(assignment))
        elif tiers.is_lent_to(place, assignment):
            yield ContainerFacts(path, boxed=True)


def _is_limited(assignment: Assignment) -> bool:
    return max(assignment.knobs.quota or 0, assignment.container.resources.cpu_quota) > 0


def _shares_box(state: NodeState, members: tuple[Assignment, ...]) -> bool:
    """Return whether reclaimed tasks may run on CPUs of these containers; all CPUs of `share` may be lent."""
    return not members or any(tiers.cpus_for(state, a) & state.pools.share for a in members)
