"""The one place of the tests where time passes: bounded polls for what will become true, and a pause in set-up."""

import time
from collections.abc import Callable

from tests.rig import RigError

POLL_SECONDS = 0.02  # an emulated machine asks less often: there the asking itself costs
PATIENCE_SECONDS = 60.0
"""For what takes a fraction of a second, or seconds on an emulated machine: a wait ends as soon as it may."""

PAUSE_SECONDS = 5.0
"""A mirror that is just being renewed is whole again soon."""


def poll(predicate: Callable[[], object], seconds: float) -> bool:
    """Ask again and again until the answer is true or the time is up; the last answer is given back."""
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def becomes(look: Callable[[], object], wanted: object, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until `look` gives the wanted value; the failure shows what it gave last."""
    if not poll(lambda: look() == wanted, seconds):
        raise AssertionError(f"after {seconds:g} s it was\n{look()!r} and not\n{wanted!r}")


def wait_until(predicate: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for `predicate`; `what` says, in the failure, what never came."""
    if not poll(predicate, seconds):
        raise AssertionError(f"waited {seconds:g} s in vain for {what}")


def tried(work: Callable[[], None], times: int = 3) -> None:
    """Set up what needs the network, again where it fails; nothing that a test asserts is done this way."""
    for left in reversed(range(times)):
        try:
            return work()
        except RigError:
            if not left:
                raise
            time.sleep(PAUSE_SECONDS)
    return None
