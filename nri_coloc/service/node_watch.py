"""Make Events of conditions of the node: changes of its lending state, and failed checks of readiness."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.core.texts import cut, plain
from nri_coloc.kubernetes.event_reasons import NODE, EventReason, Occurrence
from nri_coloc.kubernetes.reporting import Lending

CHECKS_S: Final = 10.0
"""Seconds between two looks at the checks, as often as a kubelet looks at them."""

FAILING_S: Final = 60.0
"""A check that fails for so long is an Event: shorter failures belong to each restart."""

AGAIN_S: Final = 600.0
"""Seconds after which a check that still fails counts again."""

LONGEST_DETAIL: Final = 300
"""Characters of a check's detail."""

_TOLD_BY_RECORD: Final = frozenset({"config"})
"""Checks whose failure has an audit record, of which an Event is made at once."""


class Events(Protocol):
    """The Events of this node."""

    def occurred(self, occurrence: Occurrence) -> None: ...


class LendingNow(NamedTuple):
    """The lending state that the companion reports, and its cause as a sentence."""

    lending: Lending
    because: str


class Failing(NamedTuple):
    """A check that fails. `told_s`: when it counted last, None for not yet."""

    since_s: float
    told_s: float | None = None


class NodeWatch:
    """`look` belongs to the main thread.

    lending: returns the lending state now.
    checks: returns the body of `/readyz`.
    is_on: returns whether Events are sent at all; checks cost something.
    """

    def __init__(
        self,
        events: Events,
        *,
        lending: Callable[[], LendingNow],
        checks: Callable[[], Mapping[str, Any]],
        is_on: Callable[[], bool],
    ) -> None:
        self._events = events
        self._lending = lending
        self._checks = checks
        self._is_on = is_on
        self._reported = Lending.ON
        self._failing: Mapping[str, Failing] = {}
        self._checked_s = float("-inf")

    def look(self, now_s: float) -> None:
        """Count an Event for each change since the last look."""
        if not self._is_on():
            return
        found = self._lending()
        if found.lending is not self._reported:
            self._reported = found.lending
            reason, words = _OF_LENDING[found.lending]
            self._events.occurred(Occurrence(NODE, reason, f"{words}: {plain(found.because)}"))
        if now_s - self._checked_s >= CHECKS_S:
            self._checked_s = now_s
            self._look_at(self._checks()["checks"], now_s)

    def _look_at(self, checks: Mapping[str, Mapping[str, Any]], now_s: float) -> None:
        self._failing = failing(self._failing, checks, now_s)
        for name in [name for name, one in self._failing.items() if one.told_s == now_s]:
            detail = cut(plain(str(checks[name]["detail"])), LONGEST_DETAIL)
            text = f"check {name} of /readyz fails: {detail}"
            self._events.occurred(Occurrence(NODE, EventReason.CHECK_FAILED, text, name))


def failing(
    known: Mapping[str, Failing], checks: Mapping[str, Mapping[str, Any]], now_s: float
) -> dict[str, Failing]:
    """Return the checks that fail; `told_s` is now for those that count now."""
    names = [name for name, check in checks.items() if not check["ok"] and name not in _TOLD_BY_RECORD]
    return {name: _aged(known.get(name, Failing(now_s)), now_s) for name in names}


def _aged(one: Failing, now_s: float) -> Failing:
    due_s = one.since_s + FAILING_S if one.told_s is None else one.told_s + AGAIN_S
    return one._replace(told_s=now_s) if now_s >= due_s else one


_OF_LENDING: Final[Mapping[Lending, tuple[EventReason, str]]] = {
    Lending.ON: (EventReason.LENDING_ON, "reclaimed pods may come"),
    Lending.OFF: (EventReason.LENDING_OFF, "nothing is lent"),
    Lending.DRAINING: (EventReason.LENDING_DRAINING, "nothing is lent, and reclaimed pods are to be evicted"),
    Lending.COOLING: (EventReason.LENDING_ENDING, "no new reclaimed pods, running ones keep what they have"),
}
