"""The one place of the tests where time passes: bounded polls for what will become true, and a pause in set-up.

A wait ends as soon as it may, so its bound costs nothing but where something is broken. It is long: a machine that
runs other things beside the tests lets a process wait for a CPU for seconds, and a virtual one stands still as a whole
for half a minute.
"""

import time
from collections.abc import Callable
from typing import Final

from tests.rig import RigError

POLL_SECONDS = 0.02  # an emulated machine asks less often: there the asking itself costs
PATIENCE_SECONDS: Final = 180.0
"""For whatever comes by itself; no wait for it gives up sooner."""

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


def comes(predicate: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait for what should become true, patiently: so many seconds are what it takes on a machine that does no more."""
    return poll(predicate, patience(seconds))


def patience(seconds: float) -> float:
    """Return how long is waited for what takes so many seconds on a machine that does nothing else."""
    return max(seconds, PATIENCE_SECONDS)


def becomes(look: Callable[[], object], wanted: object, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until `look` gives the wanted value; the failure shows what it gave last."""
    if not comes(lambda: look() == wanted, seconds):
        raise AssertionError(f"after {patience(seconds):g} s it was\n{look()!r} and not\n{wanted!r}")


def wait_until(predicate: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for `predicate`, patiently; `what` says, in the failure, what never came."""
    if not comes(predicate, seconds):
        raise AssertionError(f"waited {patience(seconds):g} s in vain for {what}")


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
