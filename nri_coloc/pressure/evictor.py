"""Take one turn a second on the last rung of the ladder: find shortages that nothing milder ended, order evictions.

An order is a wish: the controller carries it out, within its own checks. While no order can be given (no companion,
mode `observe`, `kubernetes.evict` off) the pods that would go are recorded once a minute, with the reason.

The memory of reclaimed pods is read only while memory is short. Without `pressure.evict` nothing is read.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from nri_coloc.core.decisions import Decision
from nri_coloc.core.evictions import Evictions, EvictionWish, Outcome
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Recorder
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing.node import Node
from nri_coloc.pressure import demands, eviction, population
from nri_coloc.pressure.demands import STALLED
from nri_coloc.pressure.eviction import Demand, Pace, Victim
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.memory_shortages import NODE, MemoryFiles, MemoryShortages
from nri_coloc.pressure.population import Population, Reclaimed
from nri_coloc.pressure.starved_pods import Moved
from nri_coloc.pressure.verdict import Resource

TOLD_AGAIN_S: Final = 60.0
"""Seconds between two records of a demand that cannot be met."""

SPARED_S: Final = 60.0
"""Least seconds without a new order for a pod that could not be evicted, so that the next pod goes."""

_SHORTEST_S: Final = 0.5


class StarvedPods(Protocol):
    """The reclaimed pods that have starved for long."""

    @property
    def moved(self) -> Moved: ...


class Ladder(Protocol):
    """The milder rungs after their last turn."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...
    def gave_no_relief(self, pod_id: str, resource: Resource) -> bool: ...


class Turn(NamedTuple):
    """The input of one turn.

    pods: the reclaimed pods by id.
    leaving: reclaimed pods that leave already.
    """

    now: float
    state: NodeState
    tuning: Tuning
    pods: Mapping[str, Reclaimed]
    leaving: frozenset[str]


class Evictor:
    """`look` is for one thread; `pace` may be read by any.

    pace: the last orders and the cool-down, monotonic seconds; `begun` is that of the previous process.
    keep: stores the end of the cool-down after each order and once a minute while it moves.
    """

    def __init__(
        self,
        node: Node,
        files: MemoryFiles,
        *,
        starved: StarvedPods,
        ladder: Ladder,
        orders: Evictions,
        report: Recorder,
        begun: Pace,
        keep: Callable[[float], None],
    ) -> None:
        self._node = node
        self._memory = MemoryShortages(files)
        self._starved = starved
        self._ladder = ladder
        self._orders = orders
        self._report = report
        self._keep = keep
        self._kept_s = begun.cools_until_s
        self._looked_at = float("-inf")
        self._population: Population | None = None
        self._ordered_at = float("-inf")
        self._told_at = float("-inf")
        self._ordered: frozenset[str] = frozenset()
        self.pace = begun

    def look(self, now: float) -> None:
        """Take one turn; nothing before the runtime's first list."""
        if not self._node.told or now - self._looked_at < _SHORTEST_S:
            return
        self._looked_at = now
        state, tuning = self._node.state, self._node.tuning
        if not tuning.pressure.evict:
            self._memory.forget()
            return
        if self._population is None or not self._population.is_of(state):
            self._population = population.of(state)
        pods, uids = self._population.reclaimed, self._orders.open(now)
        leaving = frozenset(k for k in pods if _leaves(state, k, uids, now))
        turn = Turn(now, state, tuning, pods, leaving)
        found, is_short = self._demands(turn)
        spared = self._spared(turn, found)
        chosen = eviction.victims(found, leaving=leaving, spared=spared, pace=self.pace, now_s=now)
        orders = self._order(chosen, turn)
        self._go_on(orders, turn, is_pressing=is_short or bool(leaving & self._ordered))

    # ---- what is short ----

    def _demands(self, turn: Turn) -> tuple[list[Demand], bool]:
        """Follow all shortages; return the demands on which this turn can act or report, and whether any is short."""
        short = self._memory.follow(turn.state, turn.tuning, turn.now)
        starved = self._starved_pods(turn)
        if not self._acts(turn.now):
            return [], bool(short or starved)
        found = [
            demands.of_memory(one, self._memory.uses(turn.pods, one.scope, turn.now), turn.state)
            for one in short
        ]
        found += self._of_verdicts(turn)
        if starved:
            found.append(demands.of_starvation(starved, turn.leaving, turn.state))
        return found, bool(found)

    def _acts(self, now: float) -> bool:
        """Return whether a demand would lead to an order or a record; else no pod's memory is read for it."""
        if self._orders.impossible():
            return now - self._told_at >= TOLD_AGAIN_S
        return eviction.has_left(self.pace, now)

    def _of_verdicts(self, turn: Turn) -> Iterable[Demand]:
        """Yield the demands of online pods that wait although everything milder was tried."""
        for verdict in self._ladder.verdicts:
            pods = {k: turn.pods[k] for k, *_ in verdict.evidence.culprits if k in turn.pods}
            uses: dict[str, float] = {}
            if verdict.resource is Resource.MEMORY and verdict.readings >= STALLED:
                uses = self._memory.uses(pods, NODE, turn.now)
            elif verdict.resource is Resource.IO:
                uses = {k: 1.0 for k in pods if self._ladder.gave_no_relief(k, Resource.IO)}
            if uses:
                yield demands.of_verdict(verdict, uses, turn.state)

    def _starved_pods(self, turn: Turn) -> list[str]:
        """Return the pods that starved since the last order; none while an operator or the schedule lends no CPU."""
        if turn.tuning.reclaim.paused or not turn.tuning.reclaim.lend:
            return []
        return sorted(self._starved.moved.since(self._ordered_at, turn.now) & turn.pods.keys())

    # ---- which pods go ----

    def _spared(self, turn: Turn, found: Iterable[Demand]) -> set[str]:
        """Return the pods that cannot be evicted now."""
        named = {pod_id for demand in found for pod_id in demand.pods}
        state = turn.state
        return {
            k
            for k in named
            if not turn.pods[k].allows("evict") or self._was_refused(state.pods[k].pod.uid, turn.now)
        }

    def _was_refused(self, uid: str, now: float) -> bool:
        last = self._orders.last(uid)
        if last is None or last.result.outcome is Outcome.ACCEPTED:
            return not uid
        return now - last.at_s < max(SPARED_S, float(last.result.retry_after_s))

    def _order(self, chosen: tuple[Victim, ...], turn: Turn) -> int:
        """Order the evictions; return how many orders were given."""
        orders, not_evicted, state, now = 0, list[Decision](), turn.state, turn.now
        for victim in chosen:
            wish = _wish(victim, state)
            refusal = self._orders.impossible() or self._orders.order(wish, now).refusal
            if not refusal:
                orders += 1
                self._ordered |= {victim.pod_id}
                continue
            not_evicted.append(_not_evicted(victim, wish, refusal))
        if not_evicted and now - self._told_at >= TOLD_AGAIN_S:
            self._told_at = now
            self._report.decided(not_evicted, state, state)
        return orders

    def _go_on(self, orders: int, turn: Turn, *, is_pressing: bool) -> None:
        self.pace = eviction.paced(self.pace, orders, is_pressing=is_pressing, now_s=turn.now)
        self._ordered &= turn.state.pods.keys()
        if orders:
            self._ordered_at = turn.now
        if orders or self.pace.cools_until_s - self._kept_s >= TOLD_AGAIN_S:
            self._kept_s = self.pace.cools_until_s
            self._keep(self._kept_s)


def _leaves(state: NodeState, pod_id: str, ordered: Collection[str], now: float) -> bool:
    """Return whether a pod leaves already: it is ordered to, or its grace period runs."""
    pod = state.pods[pod_id].pod
    facts = state.facts.of(pod)
    is_deleted = facts is not None and facts.killed_at is not None and now < facts.killed_at
    return is_deleted or pod.uid in ordered


def _wish(victim: Victim, state: NodeState) -> EvictionWish:
    pod = state.pods[victim.pod_id].pod
    demand, one = victim.demand, victim.demand.pods[victim.pod_id]
    unit = "_bytes" if demand.resource is Resource.MEMORY and demand.reason is Reason.MEMORY_SHORT else ""
    return EvictionWish(
        pod_uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        reason=demand.reason,
        text=demand.because,
        inputs={
            "resource": demand.resource.value,
            "scope": demand.scope,
            f"missing{unit}": round(victim.missing),
            f"frees{unit}": round(one.use),
            f"lent{unit}": round(one.lent),
            "priority": one.priority,
            "kube_priority": one.kube_priority,
            "candidates": len(demand.pods),
            **demand.inputs,
        },
    )


def _not_evicted(victim: Victim, wish: EvictionWish, refusal: str) -> Decision:
    return Decision(
        AuditEvent.POD_EVICT,
        Reason.DECLINED,
        f"not evicted: {refusal} (cause={victim.demand.reason.value}, scope={victim.demand.scope})"[:160],
        pod_id=victim.pod_id,
        qos=QoSClass.RECLAIMED,
        inputs={**wish.inputs, "cause": victim.demand.reason.value, "text": wish.text},
    )
