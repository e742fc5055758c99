"""Decide from all shortages of one turn which pods to evict, at which pace, and how long the gate then stays closed.

    shortage ──▶ less what leaves already ──▶ victims, within the pace ──▶ orders ──▶ refused: open as before
                                                                             │
    open ◀── 300 s without a shortage and without a leaving pod ◀── cooling ◀┘

A pod that was chosen for one shortage counts for every other one. The pace is not above the controller's for one node,
so that no order is given only to be refused. An order without an eviction counts for neither pace nor cool-down. Pure:
the caller gives time, shortages and the pods that leave already.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from nri_coloc.core.decisions import Figure
from nri_coloc.core.reasons import Reason
from nri_coloc.pressure.verdict import Resource
from nri_coloc.pressure.victims import Candidate, choose

MOST: Final = 4
"""Evictions at once, and within `PACE_S`."""

PACE_S: Final = 60.0

COOL_S: Final = 300.0
"""Seconds from the end of a shortage, or from the last eviction, until new reclaimed pods may come. A pod that was
evicted is created again within seconds, and would come straight back."""


class Demand(NamedTuple):
    """One shortage of this turn, and the pods that can end it.

    scope: "node", "kubepods" or "numa N"; of a disk the file system, "node" or "images"; of a verdict the name of the
        online pod.
    amount: the missing amount, in the unit of the pods' use; more than 0.
    pods: by id; also pods that leave already.
    most: pods that may be evicted for it in one turn.
    because: the cause, for the record.
    inputs: the figures of the shortage, for the record.
    shows: names of the figures that the record's sentence ends with; also those of the pod.
    closes: whether its evictions close the node for new reclaimed pods. A pod that starves itself closes none.
    """

    resource: Resource
    reason: Reason
    scope: str
    amount: float
    pods: Mapping[str, Candidate]
    most: int
    because: str
    inputs: Mapping[str, Figure] = {}
    shows: tuple[str, ...] = ()
    closes: bool = True


class Victim(NamedTuple):
    """A pod to evict.

    missing: the missing amount at its choice, without the part that other pods free.
    """

    pod_id: str
    demand: Demand
    missing: float


class Given(NamedTuple):
    """An order.

    pod_uid: the UID of its pod.
    at_s: its time.
    closes: whether its eviction closes the node.
    awaits: whether it has no result yet.
    """

    pod_uid: str
    at_s: float
    closes: bool = True
    awaits: bool = True


class Pace(NamedTuple):
    """The course of evictions; times in seconds of one clock.

    orders: the last orders, the oldest first, without orders that evicted no pod.
    cools_until_s: end of the cool-down after the last eviction; 0 for none.
    """

    orders: tuple[Given, ...] = ()
    cools_until_s: float = 0.0

    def ends_s(self, now_s: float) -> float:
        """Return the end of the cool-down; a whole one from now on while an order has no result."""
        awaits = any(one.awaits and one.closes for one in _recent(self, now_s))
        return now_s + COOL_S if awaits else self.cools_until_s

    def is_cooling(self, now_s: float) -> bool:
        """Return whether no new reclaimed pod may come."""
        return now_s < self.ends_s(now_s)


NO_PACE: Final = Pace()


def victims(
    demands: Iterable[Demand],
    *,
    leaving: Collection[str],
    spared: Collection[str],
    pace: Pace,
    now_s: float,
) -> tuple[Victim, ...]:
    """Return the pods to evict now.

    leaving: pods that leave already; their use counts as freed.
    spared: pods that cannot be evicted now, such as pods that a PodDisruptionBudget protects.
    """
    left = MOST - len(_recent(pace, now_s))
    found: dict[str, Victim] = {}
    for demand in demands:
        goes = {*leaving, *found}
        rest = demand.amount - sum(one.use for pod_id, one in demand.pods.items() if pod_id in goes)
        may = {k: one for k, one in demand.pods.items() if k not in goes and k not in spared}
        for pod_id in choose(rest, may, min(demand.most, left - len(found))):
            found[pod_id] = Victim(pod_id, demand, rest)
    return tuple(found.values())


def ordered(pace: Pace, order: Given) -> Pace:
    """Return the pace with one more order."""
    return pace._replace(orders=(*_recent(pace, order.at_s), order))


def settled(pace: Pace, evicted: Mapping[str, bool], now_s: float) -> Pace:
    """Return the pace after some results. The gate stays closed after an eviction alone.

    evicted: by UID of the pod, whether it was evicted, or may have been.
    """
    new = [one for one in pace.orders if one.awaits and one.pod_uid in evicted]
    kept = tuple(
        one._replace(awaits=False) if one in new else one
        for one in pace.orders
        if one not in new or evicted[one.pod_uid]
    )
    closes = any(one.closes and evicted[one.pod_uid] for one in new)
    return Pace(kept, now_s + COOL_S if closes else pace.cools_until_s)


def prolonged(pace: Pace, now_s: float) -> Pace:
    """Return the pace while there is a shortage, or an evicted pod leaves: a cool-down ends no earlier."""
    return pace._replace(cools_until_s=now_s + COOL_S) if now_s < pace.cools_until_s else pace


def has_left(pace: Pace, now_s: float) -> bool:
    """Return whether the pace allows another eviction now."""
    return len(_recent(pace, now_s)) < MOST


def _recent(pace: Pace, now_s: float) -> tuple[Given, ...]:
    return tuple(one for one in pace.orders if now_s - one.at_s < PACE_S)
