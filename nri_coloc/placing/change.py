"""Compute the next state: derive the pools again, and list the containers and pods that have to move.

A change of owned CPUs affects the containers of each pool that shrank or grew, and the reclaim cgroups. Only these
are visited, however many containers the node has. Pools change their size too because the loop or their containers ask
for it; their containers follow. The loop reports up to fifty times a second, mostly counts that hold already. Such a
report costs one comparison.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from itertools import filterfalse
from operator import or_
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import (
    ContainerCreating,
    ContainerUpdating,
    Decision,
    Event,
    Figure,
    Inputs,
    Moves,
    Outcome,
    PoolsSized,
    Reconfigured,
    Synchronized,
)
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import ENDED, RECLAIM, SHARE, SYSTEM, Assignment, Crowd, NodeState, PodPlace, Pools
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Pod
from nri_coloc.placing import pools, tiers
from nri_coloc.placing.tiers import Population

_MEMBERS_OF = (SHARE, RECLAIM, SYSTEM)
_SHOWN: Final = ("lost_cpus", "members", "asked_milli")


def with_container(state: NodeState, assignment: Assignment) -> NodeState:
    """Return the state with one container added or replaced; the pools follow from its CPUs and its request."""
    owners = state.owners
    if assignment.exclusive:
        owners = {**owners, assignment.id: assignment.exclusive}
    elif assignment.id in owners:
        owners = {k: cpus for k, cpus in owners.items() if k != assignment.id}
    return _with_owners(state, state.containers.adding(assignment), owners, (assignment.id,))


def _with_owners(
    state: NodeState, containers: Crowd, owners: Mapping[str, CPUMask], changed: Collection[str]
) -> NodeState:
    """Return the state with these containers and owners; `changed` as for `tiers.requests_after`."""
    derived = state.pools
    owned = derived.dedicated if owners is state.owners else reduce(or_, owners.values(), 0)
    asked, tallies = derived.asked, state.tallies
    if derived.plan:
        asked, tallies = tiers.requests_after(state, Population(containers, state.pods), changed=changed)
    if owned != derived.dedicated or asked != derived.asked:
        told = derived if asked == derived.asked else replace(derived, asked=asked)
        derived = pools.derive(state.topology, derived.reserved, owned, derived.kept, told)
    generation = state.generation + 1
    return replace(
        state,
        pools=derived,
        containers=containers,
        owners=owners,
        generation=generation,
        tallies=tallies,
    )


def with_ended(state: NodeState, container_id: str) -> NodeState:
    """Return the state that remembers the end of a container."""
    return replace(state, ended=(*state.ended, container_id)[-ENDED:])


def with_pod(state: NodeState, place: PodPlace) -> NodeState:
    """Return the state with one pod added or replaced."""
    pod_id, box = place.pod.id, state.box
    if place.boxed != state.boxed(pod_id):
        box = (*box, pod_id) if place.boxed else tuple(k for k in box if k != pod_id)
    pods = {**state.pods, pod_id: place}
    known = state.pods.get(pod_id)
    after = replace(state, pods=pods, generation=state.generation + 1, box=box)
    is_resized = known is not None and known.pod.cpu_request != place.pod.cpu_request
    return _asked_anew(state, after, (pod_id,)) if is_resized else after


def with_request(state: NodeState, pod: Pod) -> NodeState:
    """Return the state with new requests of a known pod, with its outdated one, and the runtime's figures of it."""
    place = state.pods.get(pod.id)
    if place is None or (place.pod is pod or requests(place.pod) == requests(pod)):
        return state
    now = replace(
        place.pod,
        cpu_request=pod.cpu_request,
        outdated_request=pod.outdated_request,
        memory_request=pod.memory_request,
        resources=pod.resources,
    )
    return with_pod(state, replace(place, pod=now))


def requests(pod: Pod) -> tuple[int | None, int | None, int | None]:
    """Return the requests of a pod that a resize changes."""
    return pod.cpu_request, pod.outdated_request, pod.memory_request


def lowered(state: NodeState, pod: Pod, was: Container, now: Container) -> Pod:
    """Return a pod after a container's request was lowered: the pod's is lowered as much; the same object if it stays.

    The kubelet writes the lower request of the pod's cgroup after its containers. The pod's request stays at least the
    sum of its containers' requests.
    """
    less = was.resources.cpu_request - now.resources.cpu_request
    if pod.cpu_request is None or less <= 0:
        return pod
    others = (a.container for a in state.of_pod(pod.id) if a.id != now.id)
    asked = sum(each.resources.cpu_request for each in (now, *others))
    request = max(pod.cpu_request - less, asked)
    if request >= pod.cpu_request:
        return pod
    outdated = pod.cpu_request if pod.outdated_request is None else pod.outdated_request
    return replace(pod, cpu_request=request, outdated_request=outdated)


def raised(pod: Pod, more: int) -> Pod:
    """Return a pod before one of its containers grows by `more` thousandths of a CPU.

    If a container was lowered before and the pod's cgroup still shows the former request, the pod's known request grows
    as much, up to that one: the kubelet writes the cgroup first only if the pod's own request grows.
    """
    if pod.cpu_request is None or pod.outdated_request is None or more <= 0:
        return pod
    request = min(pod.cpu_request + more, pod.outdated_request)
    outdated = pod.outdated_request if request < pod.outdated_request else None
    return replace(pod, cpu_request=request, outdated_request=outdated)


def _asked_anew(before: NodeState, after: NodeState, pod_ids: Iterable[str]) -> NodeState:
    """Return the state whose pools are sized by the new requests of these pods."""
    known = after.pools
    if not known.plan:
        return after
    asked, tallies = tiers.requests_after(before, Population(after.containers, after.pods), pod_ids)
    after = replace(after, tallies=tallies)
    if asked == known.asked:
        return after
    told = replace(known, asked=asked)
    derived = pools.derive(after.topology, known.reserved, known.dedicated, known.kept, told)
    return replace(after, pools=derived)


def without_pod(state: NodeState, pod_id: str) -> NodeState:
    """Return the state without a pod; none of its containers is left."""
    pods = {k: place for k, place in state.pods.items() if k != pod_id}
    return replace(state, pods=pods, box=tuple(k for k in state.box if k != pod_id))


def with_all_pods(state: NodeState, pods: Mapping[str, PodPlace]) -> NodeState:
    """Return the state with exactly these pods."""
    after = replace(state, pods=pods, box=tuple(k for k, place in pods.items() if place.boxed))
    return _asked_anew(state, after, {**state.pods, **pods})


def without(state: NodeState, leaving: Collection[Assignment]) -> NodeState:
    """Return the state without these containers; their followers return to `share`."""
    ids = frozenset(a.id for a in leaving)
    containers, orphans = reduce(Crowd.without, ids, state.containers), followers(state, leaving)
    for orphan in orphans:
        containers = containers.adding(replace(orphan, pool=SHARE, follows="", mems=0))
    owners = state.owners
    if not ids.isdisjoint(owners):
        owners = {k: cpus for k, cpus in owners.items() if k not in ids}
    return _with_owners(state, containers, owners, (*ids, *[orphan.id for orphan in orphans]))


def followers(state: NodeState, leaving: Collection[Assignment]) -> list[Assignment]:
    """Return the containers that run on the CPUs of a leaving container and do not leave themselves."""
    ids = {a.id for a in leaving}
    pods = dict.fromkeys(a.container.pod_id for a in leaving)
    return [a for pod in pods for a in state.of_pod(pod) if a.follows in ids and a.id not in ids]


class Movers(NamedTuple):
    """Ids of the pods and containers whose CPUs changed.

    pods: pods whose own cgroup is written: reclaim cgroups, and pods that run in a VM.
    losing: containers that only lost CPUs; they are written first.
    gaining: containers that gained CPUs.
    """

    pods: tuple[str, ...]
    losing: tuple[str, ...]
    gaining: tuple[str, ...]


def moved(before: NodeState, after: NodeState) -> Moves:
    """Return the pods and containers whose CPUs changed.

    A container that is new is left out: the answer to its own event carries its CPUs.
    """
    found = movers(before, after)
    return Moves(found.pods, found.losing + found.gaining)


def movers(before: NodeState, after: NodeState) -> Movers:
    """Return the pods and containers whose CPUs changed.

    The containers of a changed pool move with it. A container whose assignment changed is compared by itself.
    """
    changed, touched = changed_pools(before.pools, after.pools), _touched(before, after)
    crowd = after.containers
    in_vms = map(crowd.__getitem__, crowd.unmanaged.difference(touched))
    units = {a.container.pod_id for a in in_vms if a.pool in changed and _is_written(after, a)}
    left_out = crowd.unmanaged.union([k for k, a in touched.items() if a.pool in changed])
    losing: list[str] = []
    gaining: list[str] = []
    for pool in changed:
        into = gaining if after.pools.cpus(pool) & ~before.pools.cpus(pool) else losing
        into += _written_in(after, pool, left_out)
    for container_id, now in touched.items():
        then = before.containers.get(container_id)
        if (
            _is_written(after, now)
            and then is not None
            and (had := before.cpus_of(then)) != after.cpus_of(now)
        ):
            if now.is_managed:
                (gaining if after.cpus_of(now) & ~had else losing).append(container_id)
            else:
                units.add(now.container.pod_id)
    boxed = after.box if RECLAIM in changed else ()
    return Movers((*boxed, *sorted(units)), tuple(losing), tuple(gaining))


def _touched(before: NodeState, after: NodeState) -> dict[str, Assignment]:
    """Return by id the assignments that changed.

    If owned CPUs changed, add the sidecars of pods that gained, changed or lost a container.
    """
    touched = {a.container.id: a for a in after.containers.news(before.containers)}
    if before.owners is not after.owners:
        left = before.containers.news(after.containers)
        pods = dict.fromkeys(a.container.pod_id for a in (*touched.values(), *left))
        touched.update({a.container.id: a for pod_id in pods for a in after.of_pod(pod_id) if a.follows})
    return touched


def _written_in(state: NodeState, pool: str, left_out: frozenset[str]) -> Iterable[str]:
    """Return the ids of a pool's containers whose own cgroup gets the pool's CPUs, without `left_out`."""
    if pool == RECLAIM:
        members = state.containers.of_pool(pool)
        return [a.id for a in members if a.id not in left_out and _is_written(state, a)]
    ids = state.containers.ids_of_pool(pool)
    return filterfalse(left_out.__contains__, ids) if left_out else ids


def _is_written(state: NodeState, assignment: Assignment) -> bool:
    """Return whether the daemon writes a container's CPUs, to its own cgroup or to that of its VM.

    It does not if the container is left alone (`hands_off`), or inherits its CPUs from its pod's reclaim cgroup.
    """
    inherits = assignment.pool == RECLAIM and state.boxed(assignment.container.pod_id)
    return not (assignment.hands_off or assignment.wish.handler == "ignore" or inherits)


def changed_pools(before: Pools, after: Pools) -> list[str]:
    """Return the names of the pools whose CPUs changed: of `share`, `reclaim`, `system` and the operator's pools."""
    names = list(_MEMBERS_OF)
    if before.tiers != after.tiers:
        names += sorted({name for name, _ in before.tiers.items() ^ after.tiers.items()})
    return [name for name in names if before.cpus(name) != after.cpus(name)]


def pool_decisions(
    before: NodeState, after: NodeState, reason: Reason, because: str, inputs: Inputs | None = None
) -> tuple[Decision, ...]:
    """Return a decision for each pool whose CPUs changed and that has containers.

    inputs: the figures of the cause; None if `because` shows none, so that the record shows the pool's own.

    `share`, and a pool that has or had a count of its own, gets a decision without containers too.
    """
    sized = {SHARE, *before.pools.counts, *after.pools.counts}
    return tuple(
        Decision(
            AuditEvent.POOL_RESIZE,
            reason,
            _because(after, pool, because),
            pool=pool,
            before=Knobs(cpus=cpuset.render(before.pools.cpus(pool))),
            after=Knobs(cpus=cpuset.render(after.pools.cpus(pool))),
            inputs={
                **(inputs or {}),
                **_lost(before.pools, after.pools, pool),
                **_figures(after, pool, members),
            },
            shows=_SHOWN if inputs is None else (),
        )
        for pool in changed_pools(before.pools, after.pools)
        if (members := after.containers.in_pool(pool)) or pool in sized
    )


def _lost(before: Pools, after: Pools, pool: str) -> dict[str, Figure]:
    """Return by name the CPUs that a pool lost; empty if it lost none. A cause may name only CPUs that came."""
    lost = before.cpus(pool) & ~after.cpus(pool)
    return {"lost_cpus": cpuset.render(lost)} if lost else {}


def _figures(state: NodeState, pool: str, members: int) -> dict[str, Figure]:
    """Return by name a pool's containers, their requests if these size the pool, and the owned and reserved CPUs."""
    asked = state.pools.asked.get(pool)
    return {
        "members": members,
        "asked_milli": None if asked is None else asked.milli,
        "dedicated_cpus": cpuset.render(state.pools.dedicated),
        "reserved_cpus": cpuset.render(state.pools.reserved),
    }


def _because(state: NodeState, pool: str, because: str) -> str:
    short = tiers.shortage(state.pools, pool)
    return f"{because}; {short}" if short else because


_OF_POOLS: Final = frozenset({AuditEvent.POOL_RESIZE, AuditEvent.RECLAIM_SUPPRESS, AuditEvent.RECLAIM_GROW})


def sized(state: NodeState, event: PoolsSized) -> Outcome:
    """Return the outcome of new counts of CPUs for pools; there is no decision if no CPU set changes."""
    known = state.pools
    if event.counts == known.counts:
        return Outcome(state)
    told = replace(known, counts=dict(event.counts))
    derived = pools.derive(state.topology, known.reserved, known.dedicated, known.kept, told)
    after = replace(state, pools=derived, generation=state.generation + 1)
    reason = event.reason or _reason(known.counts, event.counts)
    decisions = pool_decisions(state, after, reason, event.because, event.inputs or {})
    said = tuple(_lent_or_taken_back(d) if _resizes_what_is_lent(d, known) else d for d in decisions)
    return Outcome(after, said, moved(state, after))


def _reason(before: Mapping[str, int], now: Mapping[str, int]) -> Reason:
    """Return why the counts changed; only the load of tiers gives `share` a count."""
    if SHARE in now:
        return Reason.TIER_LOAD
    if RECLAIM not in now:
        return Reason.NO_MEMBERS
    return Reason.HEADROOM if RECLAIM in before else Reason.FIRST_SIZE


def _resizes_what_is_lent(decision: Decision, before: Pools) -> bool:
    """Return whether a decision changes an earlier size of the reclaim pool; its first size takes nothing back."""
    return (
        decision.pool == RECLAIM
        and decision.reason in (Reason.HEADROOM, Reason.TIER_LOAD)
        and RECLAIM in before.counts
    )


def _lent_or_taken_back(decision: Decision) -> Decision:
    """Return a decision about the reclaim pool with the event that names its direction."""
    before, after = (cpuset.parse(knobs.cpus or "") for knobs in (decision.before, decision.after))
    shrank = after.bit_count() < before.bit_count()
    return decision._replace(event=AuditEvent.RECLAIM_SUPPRESS if shrank else AuditEvent.RECLAIM_GROW)


def folded(earlier: Decision, later: Decision) -> Decision:
    """Return one decision for two about one pool: its CPUs before the first and after the last."""
    both = later._replace(before=earlier.before)
    if AuditEvent.POOL_RESIZE in (earlier.event, later.event):
        return both._replace(event=AuditEvent.POOL_RESIZE)
    return _lent_or_taken_back(both)


def followed(before: NodeState, event: Event, outcome: Outcome) -> Outcome:
    """Return the outcome with the pools that containers resized by coming, leaving or a new request, and all moves.

    A container that is being created or updated, or was not known before, has its CPUs from its own event's answer.
    """
    after = outcome.state
    if after.pools is before.pools or _is_said(before, event, after):
        return outcome
    told = {d.pool for d in outcome.decisions if d.event in _OF_POOLS}
    cause = "pool resized: the requests of its containers changed"
    resized = pool_decisions(before, after, Reason.MEMBERS_ASKED, cause)
    said = tuple(d for d in resized if d.pool not in told)
    moves = moved(before, after)
    subject = event.container.id if isinstance(event, ContainerCreating | ContainerUpdating) else ""
    live = tuple(k for k in moves.containers if k != subject)
    decisions = (*outcome.decisions, *said)
    if isinstance(event, ContainerUpdating) and subject in moves.containers:
        *first, last = (_with_cpus(before, after, subject, d) for d in outcome.decisions)
        decisions = (*first, *said, last)  # the last decision of an update may hold the answer
    return replace(outcome, decisions=decisions, moves=outcome.moves + Moves(moves.pods, live))


def _with_cpus(before: NodeState, after: NodeState, container_id: str, decision: Decision) -> Decision:
    """Return a decision with the container's CPUs, if the decision is the answer to the container's update."""
    subject = decision.subject
    if decision.event is not AuditEvent.UPDATE or subject is None or subject.id != container_id:
        return decision
    had, has = (cpuset.render(state.cpus_of(state.containers[container_id])) for state in (before, after))
    return decision._replace(
        orders=decision.orders._replace(cpus=has),
        before=decision.before._replace(cpus=decision.before.cpus or had),
        after=decision.after._replace(cpus=has),
    )


def _is_said(before: NodeState, event: Event, after: NodeState) -> bool:
    """Return whether the outcome has all decisions and moves already.

    That is so after a list or other settings, and if a container took or returned CPUs of its own and did nothing
    else.
    """
    if isinstance(event, Synchronized | Reconfigured):
        return True
    if isinstance(event, ContainerUpdating):
        return False
    if not isinstance(event, ContainerCreating):
        return before.pools.dedicated != after.pools.dedicated
    is_owner = event.container.id not in before.containers and event.container.id in after.owners
    return is_owner and before.pools.dedicated != after.pools.dedicated
