"""repair/drift.py: a refused write is retried after pauses that grow."""

from itertools import pairwise

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.repair import drift
from nri_coloc.repair.drift import FIRST_PAUSE_S, KEPT_S, LONGEST_PAUSE_S, Refusals

NO = (KernelInterfaceError("/cpu.shares", "write '2' to", "Invalid argument"),)


class Clock:
    """Fake clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(drift, "time", found)
    return found


def tries(known: Refusals, clock: Clock, seconds: int) -> list[float]:
    """Check once a second, and try if no pause lasts; return the times of the tries, seconds."""
    found = []
    for _ in range(seconds):
        if not known.pauses("pod"):
            known.tried("pod", NO)
            found.append(clock.now - 100.0)
        clock.now += 1.0
    return found


def test_pauses_double_up_to_a_minute(clock):
    found = tries(Refusals(), clock, 400)
    assert found[:7] == [0, 1, 3, 7, 15, 31, 63]
    assert [after - before for before, after in pairwise(found[6:])] == [60] * 5


def test_what_is_taken_ends_them(clock):
    known = Refusals()
    tries(known, clock, 100)
    known.tried("pod", ())
    assert (known.pauses("pod"), known.refused("pod"), known.ids) == (False, False, set())
    known.tried("pod", NO)
    clock.now += FIRST_PAUSE_S
    assert not known.pauses("pod"), "it begins again"


@pytest.mark.parametrize("end", [lambda known: known.forget("pod"), Refusals.forgive])
def test_they_can_be_forgotten_and_forgiven(clock, end):
    known = Refusals()
    known.tried("pod", NO)
    assert known.pauses("pod")
    assert known.refused("pod")
    assert not known.pauses("other")
    end(known)
    assert not known.pauses("pod")
    assert LONGEST_PAUSE_S > FIRST_PAUSE_S


def test_a_cgroup_that_is_never_tried_again_is_forgotten(clock):
    """Its end is not reported to the thread of memory writes."""
    known = Refusals()
    known.tried("/pod1/memory.limit_in_bytes", NO)
    clock.now += KEPT_S + LONGEST_PAUSE_S
    known.tried("/pod2/memory.limit_in_bytes", NO)
    assert known.ids == {"/pod2/memory.limit_in_bytes"}
