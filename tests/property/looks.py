"""Checks that the properties of the placement share: messages as bytes, smaller machines, and invariants of a state."""

import re
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import MIN_SHARES
from nri_coloc.core.reasons import AuditEvent
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import EMPTY, POOLS, Assignment, NodeState
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import ISOLATED, Container, QoSClass
from nri_coloc.lending.measured_groups import PodFactsCache
from nri_coloc.nri import codec
from nri_coloc.placing import admission, reclaim_cgroups, record, request, tiers
from tests.unit.placing.kit import EVERYTHING

_OF_A_POOL: Final = re.compile(r"CPUs (?P<cpus>[\d,-]+) of pool (?P<pool>\S+)$")


def rendered(outcome: Outcome) -> list[bytes]:
    """Return every message that an outcome could send, as bytes."""
    state = outcome.state
    messages: list[Any] = [
        codec.creation(a.knobs, record.write(a), EVERYTHING)
        for d in outcome.decisions
        if (a := d.subject) and a.id in state.containers
    ]
    named = [(k, admission.orders(state, state.containers[k])) for k in outcome.moves.containers]
    messages += codec.updates(named, EVERYTHING)
    return [message.SerializeToString(deterministic=True) for message in messages]


def without_some(machine: Topology, gone: int) -> Topology:
    """Return the machine with some CPUs offline, never all of them."""
    left = machine.online & ~gone or machine.online
    nodes = {c: n.id for n in machine.nodes for c in cpuset.members(n.cpus)}
    cores = {c: str(core) for core in machine.cores for c in cpuset.members(core)}
    cpus = [CPU(c, nodes[c], nodes[c], "", cores[c]) for c in cpuset.members(left)]
    return Topology.build(cpus, {n.id: n.memory_bytes for n in machine.nodes}, machine.isolated)


def as_before(now: Container, then: Container) -> Container:
    """Return a container's facts without its progress; the CPUs in a spec are always ours, and no fact."""
    resources = replace(now.resources, cpus=then.resources.cpus)
    return replace(now, created_at=then.created_at, phase=then.phase, resources=resources)


def releases_name_the_owner_of_the_cpus(before: NodeState, outcome: Outcome) -> None:
    """Assert that a release that names a pool names all CPUs of that pool."""
    ends = (d for d in outcome.decisions if d.event is AuditEvent.RELEASE)
    for end in ends:
        named = _OF_A_POOL.search(end.because)
        if named is not None:
            assert named["pool"] in POOLS or named["pool"] in before.pools.tiers
            assert cpuset.parse(named["cpus"]) == before.pools.cpus(named["pool"]), end.because
            assert end.before.cpus == named["cpus"]


def the_box_has_what_it_was_told(state: NodeState) -> None:
    """Assert that the reclaim pool has at most its ordered size and its minimum; without an order, all of `share`."""
    pools, machine = state.pools, state.topology
    if "share" in pools.counts:
        assert pools.reclaim & pools.share == 0 or pools.reclaim == pools.share
        return
    told = pools.counts.get("reclaim", machine.online.bit_count())
    least = tiers.bounds(pools, "reclaim").minimum
    most = tiers.bounds(pools, "reclaim").maximum or told
    assert pools.reclaim & ~pools.share == 0
    if "reclaim" in pools.counts:
        assert pools.reclaim.bit_count() <= max(min(max(told, least), most), machine.threads_per_core)
    assert told < pools.share.bit_count() or "reclaim" in pools.counts or pools.reclaim == pools.share


def pools_with_cpus_of_their_own_are_apart(state: NodeState) -> None:
    """Assert that these pools are disjoint from each other and from all other CPUs.

    Together with the free CPUs they are all CPUs that may be used.
    """
    pools = state.pools
    own = {k: cpus for k, cpus in pools.tiers.items() if not cpus & pools.share}
    sets = [pools.dedicated, pools.free, *own.values()]
    driven = reduce(or_, (a.exclusive for a in state.containers.values() if a.hands_off), 0)
    granted = driven | state.topology.aside & pools.dedicated
    assert reduce(or_, sets, 0) == state.topology.usable & ~pools.kept & ~pools.reserved | granted
    assert sum(cpus.bit_count() for cpus in sets) == reduce(or_, sets, 0).bit_count()
    for name, cpus in own.items():
        tuning = tiers.bounds(pools, name)
        assert name in pools.counts or cpus.bit_count() <= (tuning.maximum or cpus.bit_count())
        assert cpus or name not in pools.asked


def every_cpu_is_lendable_or_owned_or_nobodys(state: NodeState, tuning: ReclaimTuning) -> None:
    """Assert that each CPU is lendable, owned or neither; no pod that may run on an unowned CPU is apart.

    Else use would be subtracted twice, or wrongly.
    """
    lendable = tiers.lendable(state.pools, tuning)
    owned, beyond = tiers.owned(state.pools, lendable), tiers.beyond(state, lendable)
    assert lendable | owned | beyond == state.topology.online
    sizes = [cpus.bit_count() for cpus in (lendable, owned, beyond)]
    assert sum(sizes) == state.topology.online.bit_count()
    assert state.pools.reclaim & ~lendable == 0
    for assignment in state.containers.values():
        assert tiers.cpus_for(state, assignment)
        if tiers.is_on_owned(state, assignment, owned):
            assert tiers.cpus_for(state, assignment) & (lendable | beyond) == 0
            assert assignment.hands_off or not state.cpus_of(assignment) & state.pools.share


def what_members_ask_for_is_known(state: NodeState) -> None:
    """Assert that the requests of pools are those of the present containers and pods."""
    nothing = replace(state, pools=replace(state.pools, asked={}), containers=EMPTY, tallies={})
    there = tiers.Population(state.containers, state.pods)
    assert tiers.requests_after(nothing, there, state.pods).asked == state.pools.asked


def what_is_repeated_agrees(state: NodeState) -> None:
    """Assert that `box` agrees with the pods' places, and the indices with the containers."""
    crowd = state.containers
    assert sorted(state.box) == sorted(k for k, place in state.pods.items() if place.boxed)
    assert len(set(state.box)) == len(state.box)
    for pool in {a.pool for a in crowd.values()} | {"share"}:
        members = {k for k, a in crowd.items() if a.pool == pool}
        assert {a.id for a in crowd.of_pool(pool)} == members
        assert [*crowd.ids_of_pool(pool)] == [a.id for a in crowd.of_pool(pool)]
        assert crowd.in_pool(pool) == len(members)
    assert crowd.unmanaged == {k for k, a in crowd.items() if not a.is_managed}


def who_is_known_is_as_a_stranger_finds_them(state: NodeState, pod_facts: PodFactsCache) -> None:
    """Assert that the fast loop's memory of pods equals the result of reading the state for the first time."""
    owned = tiers.owned(state.pools, state.pools.free)
    assert pod_facts.of(state, owned) == PodFactsCache().of(state, owned)


def exclusive_cpus_belong_to_one_container(state: NodeState) -> None:
    sets = [a.exclusive for a in state.containers.values() if a.exclusive]
    union = reduce(or_, sets, 0)
    assert sum(mask.bit_count() for mask in sets) == union.bit_count()
    assert union == state.pools.dedicated
    assert state.owners == {k: a.exclusive for k, a in state.containers.items() if a.exclusive}


def no_other_container_runs_on_owned_cpus(state: NodeState) -> None:
    for name, a in state.containers.items():
        allowed = state.owners.get(a.follows, 0) | a.exclusive
        if not a.hands_off:
            assert state.cpus_of(a) & state.pools.dedicated & ~allowed == 0, name


def a_follower_sits_on_its_own_pods_main_container(state: NodeState) -> None:
    for a in state.containers.values():
        if a.follows:
            main = state.containers[a.follows]
            assert main.container.pod_id == a.container.pod_id
            assert main.exclusive
            assert not a.exclusive


def reserved_cpus_are_the_systems_only(state: NodeState) -> None:
    for a in state.containers.values():
        if a.qos is not QoSClass.SYSTEM and not a.hands_off:
            assert state.cpus_of(a) & state.pools.reserved == 0
    assert state.pools.reclaim & state.pools.reserved == 0


def every_set_is_neither_empty_nor_offline_nor_isolated(state: NodeState) -> None:
    machine = state.topology
    shown = [state.pools.share, state.pools.reclaim, state.pools.system]
    shown += [state.cpus_of(a) for a in state.containers.values() if not _asked_for_isolated(state, a)]
    for cpus in shown:
        assert cpus
        assert cpus & ~machine.usable == 0
    for a in state.containers.values():
        assert state.cpus_of(a)
        assert state.cpus_of(a) & ~machine.online == 0


def _asked_for_isolated(state: NodeState, a: Assignment) -> bool:
    """Return whether the container, or the container that it follows, asked for isolated CPUs."""
    leader = state.containers.get(a.follows, a)
    return leader.qos is QoSClass.DEDICATED and leader.wish.pool == ISOLATED


def no_value_that_is_written_is_empty(state: NodeState) -> None:
    orders = [admission.orders(state, a) for a in state.containers.values()]
    of_pods = [reclaim_cgroups.knobs(state, k) for k in state.pods]
    assert {each.shares for each in of_pods} <= {None, MIN_SHARES}  # `host.resizes` knows ours by it
    orders += of_pods
    assert all(o.cpus != "" and o.mems != "" for o in orders)


def no_boxed_pod_holds_another_class(state: NodeState) -> None:
    for a in state.containers.values():
        assert a.qos is QoSClass.RECLAIMED or not state.boxed(a.container.pod_id)


def no_pod_owns_more_than_it_requests(state: NodeState) -> None:
    for pod_id, place in state.pods.items():
        owners = [a for a in state.of_pod(pod_id) if a.exclusive]
        own = sum(request.of_container(a.container, a.wish).whole for a in owners)
        of_pod = place.pod.cpu_request
        if of_pod is not None and not any(a.hands_off for a in owners):
            assert sum(a.exclusive.bit_count() for a in owners) <= max(own, -(-of_pod // 1000))


def every_container_has_its_pod(state: NodeState) -> None:
    assert {a.container.pod_id for a in state.containers.values()} <= state.pods.keys()
