"""actuation/memory.py: a bound below what a cgroup holds is written where nobody waits for the kernel to reclaim."""

import pytest

from nri_coloc.actuation.files import Correction
from nri_coloc.actuation.target import Later
from nri_coloc.knobs.files import FileValue
from tests.unit.actuation.host import WEIGHT, Host

HIGH = FileValue("memory", "memory.high", "4096")
LIMIT = FileValue("memory", "memory.limit_in_bytes", "4096")


def held(host: Host, amount: int) -> list[Later]:
    """Let the pod hold so much, and collect what is left to later."""
    usage = {1: {"memory_usage_in_bytes": str(amount)}, 2: {"memory_current": str(amount)}}
    host.cgroup(**usage[host.version])
    left: list[Later] = []
    host.writer.later = left.append
    return left


def test_a_bound_below_what_is_held_is_left_to_later_and_counts_as_written(v2):
    left = held(v2, 5000)
    applied = v2.apply("", HIGH, WEIGHT)
    assert v2.text("memory.high") == "max"
    assert applied.corrected == (
        Correction("memory.high", "max", "4096"),
        Correction("cpu.weight", "39", "1"),
    )
    (later,) = left
    assert (later.file, later.write()) == (str(v2.file("memory.high")), None)
    assert v2.text("memory.high") == "4096"


def test_so_is_the_limit_of_v1(v1):
    v1.cgroup(memory_limit_in_bytes="8192")
    left = held(v1, 5000)
    v1.apply("", LIMIT)
    assert v1.text("memory.limit_in_bytes") == "8192"
    (later,) = left
    assert (later.write(), v1.text("memory.limit_in_bytes")) == (None, "4096")


@pytest.mark.parametrize("amount", [0, 4096], ids=["nothing held", "just as much"])
def test_a_bound_that_has_nothing_to_reclaim_is_written_at_once(v2, amount):
    assert held(v2, amount) == []
    v2.apply("", HIGH)
    assert v2.text("memory.high") == "4096"


def test_a_bound_that_is_no_more_is_taken_away_at_once(v2):
    v2.cgroup(memory_high="4096")
    left = held(v2, 5000)
    v2.apply("", FileValue("memory", "memory.high", "max"))
    assert (left, v2.text("memory.high")) == ([], "max")


def test_where_nobody_takes_it_it_is_written_at_once(v2):
    v2.cgroup(memory_current="5000")
    v2.apply("", HIGH)
    assert v2.text("memory.high") == "4096"


def test_an_order_that_is_stale_when_its_turn_comes_is_not_carried_out(v2):
    left = held(v2, 5000)
    v2.apply("", HIGH)
    v2.cgroup(memory_high="8192")
    assert (left[0].write(), v2.text("memory.high")) == (None, "8192")


def test_the_journal_has_what_was_there_before_it_is_written(v2):
    left = held(v2, 5000)
    v2.apply("", HIGH, journalled=True)
    assert v2.noted() == {"memory.high": "max"}
    assert left[0].write() is None
    assert (v2.text("memory.high"), v2.writer.unbound("pod"), v2.text("memory.high")) == ("4096", (), "max")


@pytest.mark.parametrize("journalled", [False, True], ids=["spec", "journal"])
def test_what_the_kernel_refuses_is_told_by_whoever_writes(v2, journalled):
    left = held(v2, 5000)
    v2.apply("", HIGH, journalled=journalled)
    v2.file("memory.high").unlink()
    v2.file("memory.high").mkdir()
    failure = left[0].write()
    assert failure is not None
    assert failure.path == str(v2.file("memory.high"))


def test_what_is_refused_at_once_is_among_the_failures(v2):
    v2.cgroup(memory_current="5000")
    v2.writer.later = lambda later: v2.file("memory.high").unlink() or later.write()
    assert v2.apply("", HIGH).failures == ()
    v2.file("memory.high").symlink_to("/dev/full")
    v2.writer.later = lambda later: later.write()
    assert [failure.path for failure in v2.apply("", HIGH).failures] == [str(v2.file("memory.high"))]
