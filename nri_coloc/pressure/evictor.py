"""Take one turn a second on the last rung of the ladder: order evictions for shortages that nothing milder ended.

`shortages` finds the demands, and `eviction` chooses the pods. An order is a wish: the controller carries it out,
within its own checks. The order of a starved pod leaves it 30 s, and is withdrawn if the pod no longer counts as
starved by then: it has CPU, no CPU is lent, or another pod was evicted. While no order can be given (no companion, mode
`observe`, `kubernetes.evict` off) the pods that would go are recorded once a minute, with the reason. Without
`pressure.evict` nothing is read.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from nri_coloc.core.decisions import Decision, Figure
from nri_coloc.core.evictions import Evictions, EvictionWish, Ordered, Outcome
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Recorder, sentence
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing.node import Node
from nri_coloc.pressure import eviction
from nri_coloc.pressure.disks import REASONS
from nri_coloc.pressure.eviction import NO_PACE, PACE_S, Demand, Given, Pace, Victim
from nri_coloc.pressure.population import LatestPopulation, Reclaimed
from nri_coloc.pressure.shortages import Shortages, Turn

TOLD_AGAIN_S: Final = 60.0
"""Seconds between two records of a demand that cannot be met."""

SPARED_S: Final = 60.0
"""Least seconds without a new order for a pod that could not be evicted, so that the next pod goes. The pause of the
orders may be longer."""

LAST_S: Final = 600.0
"""Seconds in which such a pod goes after every other one."""

LONGEST_LEAVE_S: Final = 600.0
"""Seconds for which a pod counts as leaving. Its author may give it an endless grace period."""

ORDER_S: Final = PACE_S - 10.0
"""Seconds after which an order ends: it has its result while it counts for the pace."""

_MAY_BE_EVICTED: Final = frozenset({Outcome.ACCEPTED, Outcome.UNREACHABLE})
_SHORTEST_S: Final = 0.5
_HAS_CPU: Final = "the pod no longer counts as starved"


class KeptCoolDown(Protocol):
    """The end of the cool-down in the state folder."""

    def begun(self) -> Pace: ...
    def keep(self, until_s: float) -> None: ...


class Evictor:
    """`begin` and `look` are for one thread; `pace` may be read by any.

    pace: the last orders and the cool-down, monotonic seconds.
    shortages: the shortages that may need an eviction.
    cool_down: gets the end of the cool-down when it moves by a minute.
    """

    def __init__(
        self,
        node: Node,
        shortages: Shortages,
        *,
        orders: Evictions,
        report: Recorder,
        cool_down: KeptCoolDown,
    ) -> None:
        self._node = node
        self._shortages = shortages
        self._orders = orders
        self._report = report
        self._cool_down = cool_down
        self._kept_s = 0.0
        self._looked_at = float("-inf")
        self._pods = LatestPopulation()
        self._evicted_at = float("-inf")
        self._told_at = float("-inf")
        self._ordered: frozenset[str] = frozenset()
        self._leave_since: dict[str, float] = {}
        self._for_cpu: dict[str, str] = {}
        self.pace = NO_PACE

    def begin(self) -> None:
        """Continue the cool-down that the previous process kept; that process must have ended."""
        self.pace = self._cool_down.begun()
        self._kept_s = self.pace.cools_until_s

    def look(self, now: float) -> None:
        """Take one turn; nothing before the runtime's first list."""
        if not self._node.told or now - self._looked_at < _SHORTEST_S:
            return
        self._looked_at = now
        state, tuning = self._node.state, self._node.tuning
        if not tuning.pressure.evict:
            self._shortages.forget()
            self._withdraw(state, now)
            return
        self._settle(now)
        turn = self._turn(self._pods.of(state).reclaimed, state, tuning, now)
        found, is_short = self._shortages.follow(turn, acts=self._acts(now))
        self._withdraw(state, now)
        self._order([self._ranked(demand, turn) for demand in found], turn)
        self._go_on(turn, is_pressing=is_short or bool(turn.leaving & self._ordered))

    def _turn(self, pods: Mapping[str, Reclaimed], state: NodeState, tuning: Tuning, now: float) -> Turn:
        uids = self._orders.open(now)
        ends = {k: _killed_at(state, k) for k in pods}
        leave = (
            k for k, end in ends.items() if state.pods[k].pod.uid in uids or (end is not None and now < end)
        )
        self._leave_since = {k: self._leave_since.get(k, now) for k in leave}
        return Turn(
            now=now,
            state=state,
            tuning=tuning,
            pods=pods,
            leaving=frozenset(k for k, at in self._leave_since.items() if now - at < LONGEST_LEAVE_S),
            deleted=frozenset(k for k, end in ends.items() if end is not None),
            evicted_at=self._evicted_at,
        )

    def _withdraw(self, state: NodeState, now: float) -> None:
        """Withdraw the orders of pods that count as starved no longer; the controller tells of a pod that has ended."""
        kept = {k: one for k, one in self._for_cpu.items() if k in self._shortages.starving}
        over = [one for k, one in self._for_cpu.items() if k not in kept and k in state.pods]
        self._for_cpu = kept
        if over:
            self._orders.withdraw(over, _HAS_CPU, now)

    # ---- which pods go ----

    def _acts(self, now: float) -> bool:
        """Return whether a demand would lead to an order or a record; else no pod's memory is read for it."""
        if self._orders.impossible():
            return now - self._told_at >= TOLD_AGAIN_S
        return eviction.has_left(self.pace, now)

    def _ranked(self, demand: Demand, turn: Turn) -> Demand:
        """Return a demand whose pods know whether they were refused lately."""
        pods = {
            k: one._replace(was_refused=self._was_refused(turn, k, LAST_S)) for k, one in demand.pods.items()
        }
        return demand._replace(pods=pods)

    def _spared(self, turn: Turn, found: Iterable[Demand]) -> set[str]:
        """Return the pods that cannot be evicted now."""
        named = {pod_id for demand in found for pod_id in demand.pods}
        return {
            k
            for k in named
            if k in turn.deleted or not turn.pods[k].allows("evict") or self._was_refused(turn, k, SPARED_S)
        }

    def _was_refused(self, turn: Turn, pod_id: str, within_s: float) -> bool:
        last = self._orders.last(turn.state.pods[pod_id].pod.uid)
        if last is None or not last.is_refused:
            return False
        return turn.now < max(last.at_s + within_s, last.rests_until_s)

    def _order(self, found: list[Demand], turn: Turn) -> None:
        """Order evictions. If a pod can have no order now, choose again without it."""
        spared, leaving, declined = self._spared(turn, found), set(turn.leaving), list[Decision]()
        while chosen := eviction.victims(
            found, leaving=leaving, spared=spared, pace=self.pace, now_s=turn.now
        ):
            for victim in chosen:
                wish = _wish(victim, turn.state)
                impossible = self._orders.impossible()
                order = Ordered(refusal=impossible) if impossible else self._orders.order(wish, turn.now)
                if order.refusal:
                    spared.add(victim.pod_id)
                    declined.append(_not_evicted(victim, wish, order.refusal))
                    continue
                leaving.add(victim.pod_id)
                self._ordered |= {victim.pod_id} if victim.demand.closes else set()
                if wish.reason is Reason.CPU_STARVED:
                    self._for_cpu[victim.pod_id] = order.order_id
                self._shortages.ordered(victim)
                given = Given(wish.pod_uid, turn.now, closes=victim.demand.closes)
                self.pace = eviction.ordered(self.pace, given)
            if self._orders.impossible():
                break
        if declined and turn.now - self._told_at >= TOLD_AGAIN_S:
            self._told_at = turn.now
            self._report.decided(declined, turn.state, turn.state)

    # ---- pace and cool-down ----

    def _settle(self, now: float) -> None:
        """Take the results of the orders that had none."""
        waiting = [one for one in self.pace.orders if one.awaits]
        ends = {one.pod_uid: last for one in waiting if (last := self._orders.last(one.pod_uid)) is not None}
        evicted = {
            one.pod_uid: ends[one.pod_uid].result.outcome in _MAY_BE_EVICTED
            for one in waiting
            if one.pod_uid in ends and ends[one.pod_uid].at_s >= one.at_s
        }
        self.pace = eviction.settled(self.pace, evicted, now)
        if any(evicted.values()):
            self._evicted_at = now

    def _go_on(self, turn: Turn, *, is_pressing: bool) -> None:
        if is_pressing:
            self.pace = eviction.prolonged(self.pace, turn.now)
        self._ordered &= turn.state.pods.keys()
        ends_s = self.pace.ends_s(turn.now)
        if abs(ends_s - self._kept_s) >= TOLD_AGAIN_S:
            self._kept_s = ends_s
            self._cool_down.keep(ends_s)


def _killed_at(state: NodeState, pod_id: str) -> float | None:
    """Return the end of a deleted pod's grace period; None if nothing deletes it, or no facts tell."""
    facts = state.facts.of(state.pods[pod_id].pod)
    return None if facts is None else facts.killed_at


def _wish(victim: Victim, state: NodeState) -> EvictionWish:
    pod = state.pods[victim.pod_id].pod
    demand, one = victim.demand, victim.demand.pods[victim.pod_id]
    unit = "_bytes" if demand.reason is Reason.MEMORY_SHORT else ""
    frees = {f"missing{unit}": round(victim.missing), f"frees{unit}": round(one.use)}
    if demand.reason in REASONS.values():
        frees = {"written_bytes": round(one.use)}
    inputs: dict[str, Figure] = {
        "resource": demand.resource.value,
        "scope": demand.scope,
        **frees,
        f"lent{unit}": round(one.lent),
        "priority": one.priority,
        "kube_priority": one.kube_priority,
        "candidates": len(demand.pods),
        **demand.inputs,
    }
    return EvictionWish(
        pod_uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        reason=demand.reason,
        text=sentence(demand.because, inputs, demand.shows),
        expires_s=ORDER_S,
        inputs=inputs,
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
