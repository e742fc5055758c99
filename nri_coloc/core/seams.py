"""Connect modules around a decision, at three seams, so that they need not import each other; `wiring` fills the seams.

    prepare(event) ─▶ decide, under the mutex ─▶ before_answer(decided, deadline) ─▶ answer ─▶ after(change)

Each seam is an ordered tuple. CreateContainer is answered before its cgroups are written. StartContainer writes, reads
back and waits before it is answered. `wiring.wire` holds that order, by kind of hook.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

from nri_coloc.core.decisions import NO_MOVES, Decision, Event, Moves, Outcome
from nri_coloc.core.reasons import Reason
from nri_coloc.core.report import Drift
from nri_coloc.core.state import NodeState
from nri_coloc.core.value import value


class Prepare(Protocol):
    """Returns a context manager that is entered before a hook's event is decided and left after it.

    It may decide on an event of its own first, and keep other threads from deciding on theirs meanwhile. Returns
    `UNPREPARED` for an event that needs no preparation, as most do.
    """

    def __call__(self, event: Event, /) -> AbstractContextManager[object]: ...


UNPREPARED: Final = nullcontext()
"""Does nothing; compared by identity."""


def prepared(prepare: tuple[Prepare, ...], event: Event) -> AbstractContextManager[object]:
    """Return a context that enters every preparation for an event, in order, and leaves them in reverse."""
    needed = [context for each in prepare if (context := each(event)) is not UNPREPARED]
    return _entered(needed) if needed else UNPREPARED


@contextmanager
def _entered(contexts: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in contexts:
            stack.enter_context(each)
        yield


@value
class Decided:
    """A decision on a hook that is not answered yet.

    outcome: the decision.
    before: the state before it.
    pod_id: the hook's pod.
    container_id: the hook's container; "" for a pod's hook.
    """

    outcome: Outcome
    before: NodeState
    pod_id: str
    container_id: str = ""


class BeforeAnswer(Protocol):
    """Writes cgroups of a decision on the hook's thread.

    deadline: for the answer, monotonic seconds.

    Returns the values of a container that another writer had changed, for a record after the answer.
    """

    def __call__(self, decided: Decided, deadline: float, /) -> Drift | None: ...


@value
class Change:
    """The changes of a decision, by id. Observers take values from the newest state, never from here.

    before, after: the states around the decision.
    decisions: for audit and metrics.
    moves: pods and containers whose cgroups are still to be written, first the cgroups that leave CPUs.
    specs: containers whose stored spec may differ from their values now.
    owner: the container that took CPUs which all of `waits_for` leave; "" for none.
    waits_for: pods and containers that leave the owner's CPUs.
    ended: containers that are gone.
    latency_us: microseconds from the hook's call to its answer; None without a hook.
    """

    before: NodeState
    after: NodeState
    decisions: tuple[Decision, ...] = ()
    moves: Moves = NO_MOVES
    specs: tuple[str, ...] = ()
    owner: str = ""
    waits_for: Moves = NO_MOVES
    ended: tuple[str, ...] = ()
    latency_us: int | None = None


class Observer(Protocol):
    """Notes a change in a queue of its own; never waits, never decides."""

    def __call__(self, change: Change, /) -> None: ...


After = tuple[Observer, ...]


def tell(after: After, change: Change) -> None:
    """Inform every observer of a change, in order."""
    for each in after:
        each(change)


def all_of(
    outcome: Outcome,
    before: NodeState,
    *,
    left: Moves | None = None,
    owner: str = "",
    ended: Iterable[str] = (),
    latency_us: int | None = None,
) -> Change:
    """Return the change of an outcome.

    left: the moves that were not applied before the answer; None for all of them.
    ended: containers that are gone; for a creation, the containers that it superseded.
    """
    return Change(
        before=before,
        after=outcome.state,
        decisions=outcome.decisions,
        moves=outcome.moves if left is None else left,
        specs=outcome.moves.containers,
        owner=owner,
        waits_for=outcome.waits_for,
        ended=tuple(ended),
        latency_us=latency_us,
    )


def superseded(outcome: Outcome) -> tuple[str, ...]:
    """Return the containers whose end no hook reports: the created container took their place."""
    return tuple([d.subject.id for d in outcome.decisions if d.reason is Reason.SUPERSEDED and d.subject])
