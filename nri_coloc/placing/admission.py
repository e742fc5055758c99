"""Place one container: its class selects the source of CPUs, the allocator the CPUs; a record may give both.

The result is an `Admission`: the assignment, the reason and the audit sentence. `lifecycle` makes an `Outcome` of it.
A request that cannot be met is never an error: the container runs in `share`, and the audit gives the reason.
"""

from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Considered, Figure, Inputs, Room
from nri_coloc.core.knobs import NO_KNOBS, Knobs, burst_of
from nri_coloc.core.reasons import Reason
from nri_coloc.core.state import DEDICATED, SHARE, Assignment, NodeState
from nri_coloc.core.texts import counted
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import replace
from nri_coloc.core.workload import (
    DEFAULT_WISH,
    ISOLATED,
    KEPT_BY_DRA,
    KEPT_BY_KUBELET,
    Container,
    Finding,
    FindingKind,
    Numa,
    Placement,
    QoSClass,
    Wish,
)
from nri_coloc.placing import allocator, claim, loans, record, request, supply, tiers
from nri_coloc.placing.allocator import Grant
from nri_coloc.placing.claim import Claim
from nri_coloc.placing.supply import Due


class Admission(NamedTuple):
    """The place of a container, and the reason for it.

    findings: annotation values that could not be granted.
    considered: the free CPUs, the count and the wish from which CPUs were chosen; None if none were chosen.
    inputs: further figures of the choice, by name.
    """

    assignment: Assignment
    reason: Reason
    because: str
    findings: tuple[Finding, ...] = ()
    considered: Considered | None = None
    inputs: Inputs | None = None


def place(
    state: NodeState, container: Container, wish: Wish, reserved_memory: int = 0, *, waits: bool = False
) -> Admission:
    """Return where a container goes. A trusted record's CPUs are kept while no other container owns them.

    reserved_memory: bytes of the node that no bound container is promised.
    waits: older containers wait for CPUs, so it gets none that it did not have.
    """
    if KEPT_BY_DRA in wish.preserve:
        return _driven(state, container, wish)
    if wish.is_hands_off:
        return Admission(_pooled(container, wish, hands_off=True), Reason.HANDS_OFF, _left_alone(wish))
    if wish.qos is not QoSClass.DEDICATED:
        return _into_pool(state, container, wish)
    return dedicate(state, container, wish, reserved_memory, waits=waits)


def _driven(state: NodeState, container: Container, wish: Wish) -> Admission:
    """Return an admission that leaves a container on the CPUs from the DRA driver, and takes them out of all pools.

    If another container owns one of these CPUs, or `share` would have none left, the container runs in `share`.
    """
    own = container.claimed & state.topology.online
    taken = reduce(or_, (cpus for k, cpus in state.owners.items() if k != container.id), 0)
    if own & taken or not state.pools.free & ~own:
        why = f"runs in share: {wish.because}, and other containers own {cpuset.render(own & taken) or 'the rest'}"
        return Admission(replace(_pooled(container, wish), pool=SHARE), Reason.NO_FREE_CPUS, why)
    assignment = replace(_pooled(container, wish, hands_off=True), pool=DEDICATED, exclusive=own)
    return Admission(assignment, Reason.HANDS_OFF, f"CPUs left alone: {wish.because}")


def _left_alone(wish: Wish) -> str:
    if wish.handler == "ignore":
        return "CPUs left alone: its runtime handler is ignored"
    cause = wish.because if KEPT_BY_KUBELET in wish.preserve else "its annotation preserve lists cpu"
    return f"CPUs left alone: {cause}"


def _into_pool(state: NodeState, container: Container, wish: Wish) -> Admission:
    assignment = tiers.housed(state.pools, _pooled(container, wish))
    chosen = f", pool by {wish.pool_because}" if wish.pool_because else ""
    if wish.qos is QoSClass.RECLAIMED:
        why = f"runs in the reclaim pool: class reclaimed by {wish.because}"
        return Admission(assignment, Reason.BOX_MEMBER, why)
    why = f"runs in pool {assignment.pool}: class {wish.qos.value} by {wish.because}{chosen}"
    short = tiers.shortage(state.pools, assignment.pool)
    if short:
        return Admission(assignment, Reason.POOL_FULL, f"{why}; {short}")
    return Admission(assignment, Reason.POOL_MEMBER, why)


def dedicate(
    state: NodeState, container: Container, wish: Wish, reserved_memory: int = 0, *, waits: bool = False
) -> Admission:
    """Return where a container of class dedicated goes: by its record, if it has one."""
    memory = record.read(container.record)
    due = supply.of(state, container, wish)
    main = main_of(state, container.pod_id)
    if main is not None and not due.cpus:
        # checked before the record: another container may own the recorded CPUs
        return _following(container, wish, main, due)
    if wish.init:
        why = "runs in share: it is an init container"
        return Admission(replace(_pooled(container, wish), pool=SHARE), Reason.INIT_CONTAINER, why)
    if not due.cpus:
        return _below_one_cpu(container, wish, due)
    claimed = _believed(state, container, wish, due, waits=waits)
    kept = _still_free(state, wish, claimed.cpus)
    if kept:
        mems = memory.mems if memory and kept == memory.exclusive else bound_to(state, wish, kept)
        why = f"own CPUs {cpuset.render(kept)}: its {claimed.source} names them, and they are free"
        return Admission(_owner(container, wish, kept, mems), Reason.RESTORED, why, inputs=claimed.inputs)
    if memory and memory.qos is QoSClass.DEDICATED and not memory.exclusive:
        if memory.pool != DEDICATED:
            why = "runs in share: its record names no CPUs of its own"
            return Admission(replace(_pooled(container, wish), pool=SHARE), Reason.RESTORED, why)
        if main is not None:
            return _following(container, wish, main, due)._replace(reason=Reason.RESTORED)
    if partly := _around(state, container, wish, claimed, due):
        return partly
    if waits:
        why = "runs in share: older containers wait for CPUs of their own"
        return Admission(replace(_pooled(container, wish), pool=SHARE), Reason.NO_FREE_CPUS, why)
    return _allocate(state, container, wish, due, supply.room(state, container, wish, reserved_memory))


def _following(container: Container, wish: Wish, main: Assignment, due: Due) -> Admission:
    assignment = replace(_pooled(container, wish), pool=DEDICATED, follows=main.id, mems=main.mems)
    small = "its record names them" if due.cpus else due.why_none
    why = f"runs on CPUs {cpuset.render(main.exclusive)} of main container {main.container.name}: {small}"
    return Admission(assignment, Reason.FOLLOWS_MAIN, why)


def _below_one_cpu(container: Container, wish: Wish, due: Due) -> Admission:
    why = f"runs in share: {due.why_none}, and its pod has no main container"
    return Admission(replace(_pooled(container, wish), pool=SHARE), Reason.BELOW_ONE_CPU, why)


def _believed(state: NodeState, container: Container, wish: Wish, due: Due, *, waits: bool) -> Claim:
    """Return the CPUs that a container claims, by its record or by its spec.

    A claim that only the spec makes must have as many CPUs as the container may own. The spec of a container that
    waits names the CPUs of `share`.
    """
    found = claim.of(container, wish, state.cpu_request_of(container.pod_id))
    is_as_due = found.cpus.bit_count() == due.cpus and not waits
    return found if found.recorded or is_as_due else claim.NO_CLAIM


def _around(state: NodeState, container: Container, wish: Wish, claimed: Claim, due: Due) -> Admission | None:
    """Return an admission that keeps the free part of a claim and adds CPUs beside it; None if that is impossible."""
    claimable = supply.claimable(state, wish)
    left = claimed.cpus & claimable
    if not left:
        return None
    wish_now, findings = satisfiable(state, wish, due.cpus, supply.room(state, container, wish, 0))
    grant = allocator.fit(state.topology, claimable & ~left, left, due.cpus, wish_now)
    if grant is None or not state.pools.free & ~grant.cpus or _is_torn(state, wish, claimed.cpus, grant.cpus):
        return None
    assignment = _owner(container, wish, grant.cpus, bound_to(state, wish, grant.cpus))
    why = f"{grant.because}; its {claimed.source} names CPUs {cpuset.render(claimed.cpus)}"
    inputs: Inputs = {
        **claimed.inputs,
        **allocator.wished(wish_now),
        "n": due.cpus,
        "claim_free": cpuset.render(left),
        "free": cpuset.render(claimable),
    }
    return Admission(assignment, Reason.RESTORED, why, findings, inputs=inputs)


def _is_torn(state: NodeState, wish: Wish, had: CPUMask, now: CPUMask) -> bool:
    """Return whether a bound container would get CPUs outside of its nodes: another place suits it better."""
    return wish.numa is not Numa.NONE and bool(state.topology.nodes_of(now) & ~state.topology.nodes_of(had))


def bound_to(state: NodeState, wish: Wish, cpus: CPUMask) -> CPUMask:
    """Return the memory nodes that go with these CPUs, 0 (all nodes) without a binding."""
    return 0 if wish.numa is Numa.NONE else state.topology.nodes_of(cpus) & state.topology.all_mems


def _allocate(state: NodeState, container: Container, wish: Wish, due: Due, room: Room) -> Admission:
    count = due.cpus
    wish_now, findings = satisfiable(state, wish, count, room)
    free = state.pools.free
    grant = _as_ordered(state, wish, count)
    if grant is not None:
        assignment = _owner(container, wish, grant.cpus, grant.mems)
        inputs = _ordered(wish, free) | {"n": count, "free": cpuset.render(free)}
        return Admission(assignment, grant.reason, grant.because, findings, inputs=inputs)
    considered = Considered(free, count, wish_now, room)
    for cpus in supply.sources(state, wish, count):
        grant = allocator.allocate(state.topology, cpus, count, wish_now, room)
        if grant is not None:
            considered = replace(considered, free=cpus)
            break
    if grant is None:
        return _in_share(state, container, wish, considered)._replace(findings=findings)
    assignment = _owner(container, wish, grant.cpus, grant.mems)
    why = f"{grant.because}{_unmet(wish, free)}{supply.short_of_isolated(state, wish, grant.cpus)}"
    inputs = _ordered(wish, free) | supply.isolated_left(state, wish, grant.cpus)
    if grant.lost:
        inputs["not_met"] = " and ".join(grant.lost)
    return Admission(
        assignment=assignment,
        reason=grant.reason,
        because=why,
        findings=findings,
        considered=considered,
        inputs=inputs or None,
    )


def _in_share(state: NodeState, container: Container, wish: Wish, considered: Considered) -> Admission:
    """Return the place of a container that cannot get CPUs of its own."""
    free = considered.free
    left = f"{_unmet(wish, free)}{supply.short_of_isolated(state, wish, 0)}"
    return Admission(
        assignment=replace(_pooled(container, wish), pool=SHARE),
        reason=Reason.NO_FREE_CPUS,
        because=f"runs in share: {short_of(considered.count, free)}{left}",
        considered=considered,
        inputs=(_ordered(wish, free) | supply.isolated_left(state, wish, 0)) or None,
    )


def _ordered(wish: Wish, free: CPUMask) -> dict[str, Figure]:
    """Return by name the CPUs that a scheduler ordered, and the free ones of them; empty if none were ordered."""
    if not wish.cpus_ordered:
        return {}
    left = cpuset.render(wish.cpus_ordered & free)
    return {"ordered_cpus": cpuset.render(wish.cpus_ordered), "ordered_free": left}


def short_of(count: int, free: CPUMask, more: str = "") -> str:
    """Return in words why a number of (`more`) CPUs cannot be had although some are free."""
    asked = counted(count, f"{more}CPU")
    if count < free.bit_count():
        return f"none of the free CPUs fit its placement, {asked} asked"
    return f"{asked} asked, {free.bit_count()} free, and share keeps the last one"


def _as_ordered(state: NodeState, wish: Wish, count: int) -> Grant | None:
    """Return as many of the CPUs that a scheduler chose for the pod as are asked for; None if too few are free.

    The scheduler's set is the pod's, so each of several containers gets a part of it. The container's own wish is not
    used, because the scheduler has chosen already.
    """
    free = state.pools.free
    offered = wish.cpus_ordered & free
    if offered.bit_count() < count or count >= free.bit_count():
        return None
    part = allocator.choose(state.topology, offered, count, Wish(QoSClass.DEDICATED))
    because = f"own CPUs {cpuset.render(part)}: free among the CPUs that a scheduler ordered"
    mems = state.topology.nodes_of(part) & state.topology.all_mems
    return Grant(part, Reason.ORDERED, because, 0 if wish.numa is Numa.NONE else mems)


def _unmet(wish: Wish, free: CPUMask) -> str:
    """Return words for ordered CPUs that could not be taken; empty if none were ordered."""
    if not wish.cpus_ordered:
        return ""
    left = cpuset.render(wish.cpus_ordered & free) or "none"
    return f"; a scheduler ordered CPUs {cpuset.render(wish.cpus_ordered)}, of which too few are free: {left}"


def satisfiable(state: NodeState, wish: Wish, count: int, room: Room) -> tuple[Wish, tuple[Finding, ...]]:
    """Return the wish without whole nodes or whole cores that the request does not cover, and a finding for each."""
    findings: tuple[Finding, ...] = ()
    if wish.numa is Numa.EXCLUSIVE:
        ownable = (n.cpus & room.ownable for n in state.topology.nodes)
        smallest = min((cpus.bit_count() for cpus in ownable if cpus), default=0)
        if count < smallest:
            allowed = (
                f"a request of at least a whole node, here {smallest} CPUs; this container asked {count}"
            )
            findings = (_denied(wish, "numa", wish.numa.value, allowed, "single"),)
            wish = replace(wish, numa=Numa.SINGLE)
    if wish.placement is Placement.FULL_CORES and not _is_of_cores(state.topology, wish, count):
        threads = state.topology.threads_per_core
        allowed = f"a request of a multiple of {threads} CPUs (one core); this container asked {count}"
        findings = (*findings, _denied(wish, "cpu-placement", wish.placement.value, allowed, "packed"))
        wish = replace(wish, placement=Placement.PACKED)
    return wish, findings


def _is_of_cores(topology: Topology, wish: Wish, count: int) -> bool:
    """Return whether whole cores of the machine have so many CPUs together; cores may have different widths."""
    cpus = topology.online if wish.pool == ISOLATED else topology.usable
    return not count % topology.threads_per_core or bool(topology.cores_of(topology.whole_cores(cpus), count))


def _denied(wish: Wish, key: str, value: str, allowed: str, used: str) -> Finding:
    """Return a finding under the key that the pod carries, which may be of another vocabulary."""
    for ours, name, text in wish.origins:
        if ours == key:
            return Finding(FindingKind.DENIED, name, text, allowed, used)
    return Finding(FindingKind.DENIED, f"coloc.nri.io/{key}", value, allowed, used)


def _still_free(state: NodeState, wish: Wish, exclusive: CPUMask) -> CPUMask:
    """Return a recorded set if all of it is still free and `share` keeps a CPU, else 0."""
    free = state.pools.free
    is_free = exclusive & ~supply.claimable(state, wish) == 0 and exclusive & free != free
    return exclusive if is_free else 0


def main_of(state: NodeState, pod_id: str, but: str = "") -> Assignment | None:
    """Return the pod's container with most CPUs of its own (lowest id on a tie), None without one.

    A container whose CPUs another agent chose (`hands_off`) does not count.
    """
    owners = (a for a in state.owners_of_pod(pod_id) if not a.hands_off and a.id != but)
    return min(owners, key=lambda a: (-a.exclusive.bit_count(), a.id), default=None)


def _pooled(container: Container, wish: Wish, *, hands_off: bool = False) -> Assignment:
    return Assignment(container, wish.qos, tiers.pool_of(wish), hands_off=hands_off, wish=wish)


def _owner(container: Container, wish: Wish, cpus: CPUMask, mems: CPUMask) -> Assignment:
    return Assignment(container, wish.qos, DEDICATED, exclusive=cpus, mems=mems, wish=wish)


def orders(state: NodeState, assignment: Assignment) -> Knobs:
    """Return every value that is ours for a container, by class, annotation and operator's settings.

    There is none if the runtime handler is ignored, or if the pod's cgroup carries the values (a VM, `vm_pods`).
    """
    return wanted(state, assignment) if assignment.wish.handler == "container" else NO_KNOBS


def wanted(state: NodeState, assignment: Assignment) -> Knobs:
    """Return every value that a container should have, in its own cgroup or in its pod's.

    A container in a reclaim cgroup has neither cpus nor mems of its own: it inherits them from its pod's cgroup. A
    spec that named CPUs could not start after the reclaim pool shrank below them (rig: EACCES on cgroup v1).
    """
    burst = burst_of(assignment.container.resources.quota, assignment.wish.cpu_burst_percent)
    wished = _permitted(assignment)
    if assignment.hands_off:
        return wished if wished.cpus is None else wished._replace(cpus=_online(state, wished.cpus))
    if inherits(state, assignment):
        return wished if burst is None else wished._replace(burst=burst)
    mems = cpuset.render(assignment.mems) if assignment.mems else None
    own = Knobs(cpus=cpuset.render(state.cpus_of(assignment)), mems=mems, burst=burst)
    return own if wished == NO_KNOBS else wished.overlaid(own)


def _online(state: NodeState, cpus: str) -> str | None:
    return cpuset.render(claim.of_text(cpus) & state.topology.online) or None


def inherits(state: NodeState, assignment: Assignment) -> bool:
    """Return whether a container takes its CPUs from its pod's cgroup."""
    return assignment.qos is QoSClass.RECLAIMED and state.boxed(assignment.container.pod_id)


def _permitted(assignment: Assignment) -> Knobs:
    """Return the wished values that `preserve` does not exclude from our writes."""
    wish = assignment.wish
    knobs = wish.knobs if assignment.granted is NO_KNOBS else wish.knobs.overlaid(assignment.granted)
    if assignment.returned is not NO_KNOBS:
        knobs = assignment.returned.overlaid(knobs)
    if "cpu" in wish.preserve:
        knobs = knobs._replace(shares=None, quota=None, period=None)
    if "memory" in wish.preserve:
        knobs = knobs._replace(memory_limit=None, memory_high=None, memory_low=None, memory_min=None)
    return knobs


def remembered(state: NodeState, assignment: Assignment) -> Assignment:
    """Return the assignment with the values that are ours, and with the values of the spec that they replace.

    Only values that differ from the spec are ours. Even a field that is set to its present value is claimed, and the
    creation would fail if another plugin sets it (nri-protocol §7). The container is kept as the kubelet asked
    for it: its record has been read, and the assignment holds its content from now on.
    """
    container = assignment.container
    if container.record:
        assignment = replace(assignment, granted=loans.recalled(container, assignment.wish))
        container = replace(record.before_us(container), record="")
    elif container.journalled is not None:
        container = replace(container, journalled=None)
    ours, original = _compared(orders(state, assignment), spec_of(container))
    admitted_in = assignment.admitted_in or state.generation
    return replace(assignment, container=container, knobs=ours, original=original, admitted_in=admitted_in)


@lru_cache(maxsize=1024)
def _compared(wanted: Knobs, kubelets: Knobs) -> tuple[Knobs, Knobs]:
    """Return our values that differ from the kubelet's, and the kubelet's values that they replace.

    The result is cached: most containers of a pool agree.
    """
    ours = wanted.differing(kubelets)
    return ours, kubelets.where_set(ours)


def spec_of(container: Container) -> Knobs:
    """Return the values of a container's specification. A value that it lacks is None, not 0 or ""."""
    return container.resources.knobs(container.oom_score_adj)


def is_small(container: Container, wish: Wish = DEFAULT_WISH) -> bool:
    """Return whether a container asks for less than one CPU: it owns none and runs on its pod's main container's."""
    return not request.of_container(container, wish).whole
