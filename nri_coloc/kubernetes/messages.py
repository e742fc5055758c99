"""Translate between the messages of `api/cluster/v1/cluster.proto` and values of this room.

The other side is not trusted: a text that is too long or has control characters, and a number out of its range, raise
ValueError with the field's name.
"""

from typing import Final

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import Published, State, Summary
from nri_coloc.kubernetes.reporting import Lending

SERVICE: Final = "coloc.cluster.v1.Cluster"
PROTOCOL: Final = 1
MESSAGE_LIMIT: Final = 256 * 1024
MOST_ORDERS: Final = 16

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
_LENDING_OF: Final = {number: lending for lending, number in _LENDING.items()}


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
    if len(message.order_ids) > MOST_ORDERS:
        raise ValueError(f"order_ids has {len(message.order_ids)} entries, more than {MOST_ORDERS}")
    for order_id in message.order_ids:
        text(order_id, "order_ids", 64)
    return message


# --- state ----------------------------------------------------------------------------------------------


def next_response(published: Published) -> pb.NextResponse:
    """Return the answer to a call for the newest state."""
    state = published.state
    return pb.NextResponse(
        state=pb.State(
            generation=published.generation,
            age_ms=min(_OLDEST_MS, int(min(state.age_s, _OLDEST_MS) * 1000)),
            lending=_LENDING[state.lending],
            offer=_amounts(state.offer),
            node=_amounts(state.node),
            reason=state.reason[:_LONGEST_REASON],
            because=state.because[:_LONGEST_BECAUSE],
            summary=_summary(state.summary),
        )
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
    )


def _summary_of(message: pb.Summary) -> Summary:
    return Summary(
        _amounts_of(message.headroom), message.dedicated, message.shared, message.reclaimed, message.system
    )
