"""Translate between the messages of `api/cluster/v1/cluster.proto` and values of this room.

The other side is not trusted: a text that is too long or has control characters, and a number out of its range, raise
ValueError with the field's name.
"""

from collections.abc import Iterable, Sized
from datetime import datetime
from typing import Final

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.evictions import LONGEST_S, LONGEST_TEXT, Outcome, Result
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner
from nri_coloc.kubernetes.eviction_orders import MOST_OPEN, Open
from nri_coloc.kubernetes.facts import MOST_CONTAINERS, ReadFacts
from nri_coloc.kubernetes.kept_facts import Reported
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import NODE_STATES, Published, State, Summary
from nri_coloc.kubernetes.reporting import Lending

SERVICE: Final = "coloc.cluster.v1.Cluster"
PROTOCOL: Final = 1
MESSAGE_LIMIT: Final = 256 * 1024
HOURS: Final = 24
MOST_PODS: Final = 64
MOST_GONE: Final = 256
MOST_CONTAINERS_OF_CALL: Final = 1024
"""Containers of one call's pods: 5 ms of CPU. 64 pods with 128 containers each would take 45 ms, twice a second."""

_LONGEST_BECAUSE: Final = 160
_LONGEST_REASON: Final = 63
_OLDEST_MS: Final = 2**32 - 1
_LARGEST: Final = 2**63 - 1
_LENDING: Final = {
    Lending.ON: pb.LENDING_ON,
    Lending.OFF: pb.LENDING_OFF,
    Lending.DRAINING: pb.LENDING_DRAINING,
    Lending.COOLING: pb.LENDING_COOLING,
}
_KINDS: Final = {
    Kind.MAIN: pb.CONTAINER_MAIN,
    Kind.SIDECAR: pb.CONTAINER_SIDECAR,
    Kind.INIT: pb.CONTAINER_INIT,
}
_KIND_OF: Final = {number: kind for kind, number in _KINDS.items()}
_LONGEST_DELETION_S: Final = 2**32 - 1
_LENDING_OF: Final = {number: lending for lending, number in _LENDING.items()}
_LONGEST_ID: Final = 64
_LONGEST_RETRY_S: Final = 3600
_OUTCOMES: Final = {
    Outcome.ACCEPTED: pb.OUTCOME_ACCEPTED,
    Outcome.BUDGET: pb.OUTCOME_BUDGET,
    Outcome.GONE: pb.OUTCOME_GONE,
    Outcome.REFUSED: pb.OUTCOME_REFUSED,
    Outcome.UNREACHABLE: pb.OUTCOME_UNREACHABLE,
}
_OUTCOME_OF: Final = {number: outcome for outcome, number in _OUTCOMES.items()}


def text(value: str, field: str, longest: int) -> str:
    """Return a text of the peer; raise ValueError if it is too long or cannot be printed on one line."""
    if len(value) > longest:
        raise ValueError(f"{field} has {len(value)} characters, more than {longest}")
    if not value.isprintable():
        raise ValueError(f"{field} has a control character")
    return value


def checked_hello(message: pb.HelloRequest) -> pb.HelloRequest:
    """Return the first message of a connection."""
    text(message.version, "version", 63)
    text(message.node_name, "node_name", 253)
    text(message.node_uid, "node_uid", 64)
    return message


def checked_next(message: pb.NextRequest) -> pb.NextRequest:
    """Return a call for the newest state."""
    _count(message.order_ids, "order_ids", MOST_OPEN)
    for order_id in message.order_ids:
        text(order_id, "order_ids", _LONGEST_ID)
    return message


def checked_results(message: pb.ReportResultsRequest) -> pb.ReportResultsRequest:
    """Return a report of results."""
    if len(message.results) > MOST_OPEN:
        raise ValueError(f"results has {len(message.results)} entries, more than {MOST_OPEN}")
    for result in message.results:
        text(result.order_id, "order_id", _LONGEST_ID)
        text(result.detail, "detail", LONGEST_TEXT)
        if result.retry_after_s > _LONGEST_RETRY_S:
            raise ValueError(f"retry_after_s is {result.retry_after_s}, more than {_LONGEST_RETRY_S}")
    return message


# --- facts of pods --------------------------------------------------------------------------------------


def reported(message: pb.ReportPodsRequest, now_s: float) -> Reported:
    """Return the facts of a call."""
    _count(message.pods, "pods", MOST_PODS)
    _count(message.gone, "gone", MOST_GONE)
    containers = sum([len(each.containers) for each in message.pods])
    if containers > MOST_CONTAINERS_OF_CALL:
        raise ValueError(f"pods has {containers} containers, more than {MOST_CONTAINERS_OF_CALL}")
    return Reported(
        pods=tuple([_facts_of(each, now_s) for each in message.pods]),
        gone=tuple([text(each, "gone", 64) for each in message.gone]),
        begins=message.begin,
        completes=message.complete,
    )


def _facts_of(message: pb.PodFacts, now_s: float) -> Facts:
    _count(message.containers, "containers", MOST_CONTAINERS)
    found = [_container_of(each, _KIND_OF[each.kind]) for each in message.containers if each.kind in _KIND_OF]
    if len({each.name for each in found}) < len(found):
        raise ValueError("containers has a name twice")
    requests, owner = _amounts_of(message.requests), message.owner
    return Facts(
        uid=_name(message.uid, "uid", 64),
        namespace=_name(message.namespace, "namespace", 63),
        name=_name(message.name, "name", 253),
        owner=Owner(
            text(owner.kind, "kind", 63), text(owner.name, "owner", 253), text(owner.uid, "owner uid", 64)
        ),
        priority=message.priority,
        cpu_milli=requests.cpu_milli,
        memory_bytes=requests.memory_bytes,
        containers=tuple(found),
        killed_at=now_s + message.deleted_in_s if message.HasField("deleted_in_s") else None,
    )


def _container_of(message: pb.ContainerFacts, kind: Kind) -> ContainerFacts:
    own, lent, limits = map(_amounts_of, (message.requests, message.lent, message.lent_limits))
    return ContainerFacts(
        name=_name(message.name, "container", 63),
        kind=kind,
        cpu_milli=own.cpu_milli,
        memory_bytes=own.memory_bytes,
        lent=Lent(lent.cpu_milli, lent.memory_bytes, limits.cpu_milli, limits.memory_bytes),
    )


def facts_message(read: ReadFacts, now_s: float) -> pb.PodFacts:
    """Return the facts about a pod as a message; `now_s`: seconds since 1970 by the API server."""
    facts = read.facts
    return pb.PodFacts(
        uid=facts.uid,
        namespace=facts.namespace,
        name=facts.name,
        owner=pb.Owner(kind=facts.owner.kind, name=facts.owner.name, uid=facts.owner.uid),
        priority=facts.priority,
        requests=pb.Amounts(cpu_milli=facts.cpu_milli, memory_bytes=facts.memory_bytes),
        deleted_in_s=_deleted_in_s(read, now_s),
        containers=[_container_message(each) for each in facts.containers],
    )


def _deleted_in_s(read: ReadFacts, now_s: float) -> int | None:
    """Return the seconds until a deleted pod's containers are killed; None while nothing deletes it."""
    if not read.deleting_at:
        return None
    try:
        killed_s = datetime.fromisoformat(read.deleting_at).timestamp()
    except ValueError:  # no time that the API server writes
        return read.grace_s
    # at most the grace period: the API server's clock may have been set since
    return min(_LONGEST_DELETION_S, read.grace_s, max(0, round(killed_s - now_s)))


def _container_message(facts: ContainerFacts) -> pb.ContainerFacts:
    lent = facts.lent
    return pb.ContainerFacts(
        name=facts.name,
        kind=_KINDS[facts.kind],
        requests=pb.Amounts(cpu_milli=facts.cpu_milli, memory_bytes=facts.memory_bytes),
        lent=pb.Amounts(cpu_milli=lent.cpu_milli, memory_bytes=lent.memory_bytes),
        lent_limits=pb.Amounts(cpu_milli=lent.cpu_limit_milli, memory_bytes=lent.memory_limit_bytes),
    )


def _name(value: str, field: str, longest: int) -> str:
    if not value:
        raise ValueError(f"{field} is empty")
    return text(value, field, longest)


def _count(found: Sized, field: str, most: int) -> None:
    if len(found) > most:
        raise ValueError(f"{field} has {len(found)} entries, more than {most}")


# --- state ----------------------------------------------------------------------------------------------


def next_response(published: Published, orders: Iterable[Open], now_s: float) -> pb.NextResponse:
    """Return the answer to a call for the newest state."""
    state = published.state
    return pb.NextResponse(
        orders=[_order(each, now_s) for each in orders],
        state=pb.State(
            generation=published.generation,
            age_ms=min(_OLDEST_MS, int(min(state.age_s, _OLDEST_MS) * 1000)),
            lending=_LENDING[state.lending],
            offer=_amounts(state.offer),
            node=_amounts(state.node),
            reason=state.reason[:_LONGEST_REASON],
            because=state.because[:_LONGEST_BECAUSE],
            summary=_summary(state.summary),
            node_state=state.node_state,
        ),
    )


def state_of(message: pb.State) -> State:
    """Return the state in an answer; an unknown lending state is off."""
    return State(
        age_s=message.age_ms / 1000,
        lending=_LENDING_OF.get(message.lending, Lending.OFF),
        offer=_amounts_of(message.offer),
        node=_amounts_of(message.node),
        reason=text(message.reason, "reason", _LONGEST_REASON),
        because=text(message.because, "because", _LONGEST_BECAUSE),
        summary=_summary_of(message.summary),
        node_state=message.node_state if message.node_state in NODE_STATES else "",
    )


def _amounts(amounts: Amounts) -> pb.Amounts:
    return pb.Amounts(cpu_milli=max(0, amounts.cpu_milli), memory_bytes=max(0, amounts.memory_bytes))


def _amounts_of(message: pb.Amounts) -> Amounts:
    if max(message.cpu_milli, message.memory_bytes) > _LARGEST:
        raise ValueError("an amount is above 2^63 - 1")
    return Amounts(message.cpu_milli, message.memory_bytes)


def _summary(summary: Summary) -> pb.Summary:
    return pb.Summary(
        headroom=_amounts(summary.headroom),
        dedicated=summary.dedicated,
        shared=summary.shared,
        reclaimed=summary.reclaimed,
        system=summary.system,
        outlook=map(_amounts, summary.outlook),
    )


def _summary_of(message: pb.Summary) -> Summary:
    _count(message.outlook, "outlook", HOURS)
    return Summary(
        headroom=_amounts_of(message.headroom),
        dedicated=message.dedicated,
        shared=message.shared,
        reclaimed=message.reclaimed,
        system=message.system,
        outlook=tuple(map(_amounts_of, message.outlook)),
    )


# --- orders ---------------------------------------------------------------------------------------------


def _order(order: Open, now_s: float) -> pb.Order:
    wish = order.wish
    return pb.Order(
        id=order.id,
        expires_s=int(min(LONGEST_S, max(0.0, order.until_s - now_s))),
        eviction=pb.Eviction(
            namespace=wish.namespace,
            pod=wish.name,
            uid=wish.pod_uid,
            reason=wish.reason.value,
            text=wish.text,
            by_operator=wish.by_operator,
        ),
    )


def results_of(message: pb.ReportResultsRequest) -> tuple[Result, ...]:
    """Return the results of a report; an unknown outcome leaves its order open."""
    return tuple(
        Result(each.order_id, _OUTCOME_OF[each.outcome], each.detail, each.retry_after_s)
        for each in message.results
        if each.outcome in _OUTCOME_OF
    )


def results_request(results: Iterable[Result]) -> pb.ReportResultsRequest:
    """Return a report of results."""
    return pb.ReportResultsRequest(
        results=[
            pb.Result(
                order_id=each.id,
                outcome=_OUTCOMES[each.outcome],
                detail=each.detail,
                retry_after_s=each.retry_after_s,
            )
            for each in results
        ]
    )
