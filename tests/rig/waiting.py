"""The one place of the tests where time passes: bounded polls for a condition, and a pause in set-up.

A wait ends as soon as the condition is true, so its bound costs time only if something is broken. The bound is long: on
a machine with other work, a process may wait seconds for a CPU, and a virtual machine may stand still for half a
minute.
"""

import time
from collections.abc import Callable

from tests.rig import RigError

POLL_SECONDS = 0.02  # an emulated machine polls less often: there the poll itself costs CPU time
PATIENCE_SECONDS = 180.0
"""For whatever comes by itself; no wait for it gives up sooner, an emulated machine's none before twice as long."""

PAUSE_SECONDS = 5.0
"""A mirror that is just being renewed is whole again soon."""


def poll(predicate: Callable[[], object], seconds: float) -> bool:
    """Return the last answer of the predicate: poll until it is true or the time is up."""
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def comes(predicate: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> bool:
    """Return whether the predicate becomes true.

    seconds: the time that it takes on an idle machine; the wait is longer (`patience`).
    """
    return poll(predicate, patience(seconds))


def patience(seconds: float) -> float:
    """Return the bound of a wait in seconds, from the seconds that the work takes on an idle machine."""
    return max(seconds, PATIENCE_SECONDS)


def becomes(look: Callable[[], object], wanted: object, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until `look` returns the wanted value; the failure shows the last value."""
    seen: list[object] = []

    def agrees() -> bool:
        seen[:] = [look()]
        return seen == [wanted]

    if not comes(agrees, seconds):
        raise AssertionError(f"after {patience(seconds):g} s it was\n{seen[0]!r} and not\n{wanted!r}")


def wait_until(predicate: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until `predicate` is true; the failure names the missing condition, `what`, and shows the last answer."""
    seen: list[object] = [None]

    def look() -> object:
        seen[0] = predicate()
        return seen[0]

    if not comes(look, seconds):
        raise AssertionError(f"waited {patience(seconds):g} s in vain for {what}; at last: {seen[0]!r}")


def tried(work: Callable[[], None], times: int = 3) -> None:
    """Run a set-up step that needs the network, again if it fails; no assertion of a test runs this way."""
    for left in reversed(range(times)):
        try:
            return work()
        except RigError:
            if not left:
                raise
            time.sleep(PAUSE_SECONDS)
    return None
