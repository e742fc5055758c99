"""The three seams around a decision, at which rooms meet without importing each other; `wiring` fills them.

prepare(event) ─▶ decide, under the mutex ─▶ before_answer ─▶ answer ─▶ after(change)
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from nri_coloc.model.events import Event


class Prepare(Protocol):
    """Returns a context manager that is entered before a hook's event is decided and left after it.

    It may decide on an event of its own first, and keep other threads from deciding on theirs meanwhile. For most
    events it does nothing.
    """

    def __call__(self, event: Event, /) -> AbstractContextManager[object]: ...


@contextmanager
def prepared(prepare: tuple[Prepare, ...], event: Event) -> Iterator[None]:
    """Enter every preparation for an event, in order; leave them in reverse."""
    with ExitStack() as stack:
        for each in prepare:
            stack.enter_context(each(event))
        yield
