"""The daemon's state for the companion, with a generation that changes when the state does. Pure."""

from typing import Final, NamedTuple

from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.reporting import Lending

SUMMARY_S: Final = 300.0
"""Seconds for which a summary holds: it is for people, and each new one costs the API server a write."""

GENERATIONS: Final = 2**64

NODE_STATES: Final = ("Online", "OnlineToOffline", "Offline", "OfflineToOnline")
"""States of lending by the clock, seen from the online side: in `Offline` the lent part is lent in full."""


class Summary(NamedTuple):
    """Figures for people.

    headroom: the amounts that may be lent now.
    dedicated, shared, reclaimed, system: number of pods by class.
    outlook: the offer expected for each of the next 24 hours; empty while too little was learnt.
    """

    headroom: Amounts = Amounts()
    dedicated: int = 0
    shared: int = 0
    reclaimed: int = 0
    system: int = 0
    outlook: tuple[Amounts, ...] = ()


class State(NamedTuple):
    """The state of a node, as far as its report needs it.

    age_s: seconds since the newest reading behind the offer; infinite before the first one.
    offer: advertised capacity.
    node: CPUs and memory of the whole node.
    reason, because: code and sentence of the offer.
    node_state: one of `NODE_STATES`; "" if unknown.
    """

    age_s: float
    lending: Lending
    offer: Amounts
    node: Amounts
    reason: str = ""
    because: str = ""
    summary: Summary = Summary()
    node_state: str = ""


class Published(NamedTuple):
    """A state and its generation. `summary_s`: since when the summary holds."""

    generation: int
    state: State
    summary_s: float


def publish(before: Published | None, state: State, now_s: float, *, first: int) -> Published:
    """Return the state under the generation before if only its age differs, else under the next one.

    first: a random generation, so that a companion notices a restarted daemon.
    """
    if before is None:
        return Published(first % GENERATIONS, state, now_s)
    is_held = now_s - before.summary_s < SUMMARY_S
    shown = state._replace(summary=before.state.summary) if is_held else state
    since_s = before.summary_s if is_held else now_s
    if shown._replace(age_s=0.0) == before.state._replace(age_s=0.0):
        return Published(before.generation, shown, since_s)
    return Published((before.generation + 1) % GENERATIONS or 1, shown, since_s)
