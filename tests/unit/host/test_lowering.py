"""host/memory_files.py: a bound below a cgroup's use is left to a caller that may wait for the reclaim."""

import pytest

from nri_coloc.host import files
from nri_coloc.host.knob_files import Correction, FileValue
from tests.unit.host.host import WEIGHT, Host

HIGH = FileValue("memory", "memory.high", "4096")
LIMIT = FileValue("memory", "memory.limit_in_bytes", "4096")


def hold(host: Host, amount: int) -> None:
    """Let the pod hold `amount` bytes."""
    usage = {1: {"memory_usage_in_bytes": str(amount)}, 2: {"memory_current": str(amount)}}
    host.cgroup(**usage[host.version])


def test_a_bound_below_what_is_held_is_left_to_the_caller(v2):
    hold(v2, 5000)
    applied = v2.apply("", HIGH, WEIGHT)
    assert v2.text("memory.high") == "max"
    assert applied.corrected == (
        Correction("memory.high", "max", "4096"),
        Correction("cpu.weight", "39", "1"),
    )
    (later,) = applied.later
    assert (later.file, later.name, later.write()) == (str(v2.file("memory.high")), "memory.high", None)
    assert v2.text("memory.high") == "4096"


def test_so_is_the_limit_of_v1(v1):
    v1.cgroup(memory_limit_in_bytes="8192")
    hold(v1, 5000)
    (later,) = v1.apply("", LIMIT).later
    assert v1.text("memory.limit_in_bytes") == "8192"
    assert (later.write(), v1.text("memory.limit_in_bytes")) == (None, "4096")


@pytest.mark.parametrize("amount", [0, 4096], ids=["nothing held", "just as much"])
def test_a_bound_that_has_nothing_to_reclaim_is_written_at_once(v2, amount):
    hold(v2, amount)
    assert v2.apply("", HIGH).later == ()
    assert v2.text("memory.high") == "4096"


def test_a_bound_that_is_no_more_is_taken_away_at_once(v2):
    v2.cgroup(memory_high="4096")
    hold(v2, 5000)
    assert v2.apply("", FileValue("memory", "memory.high", "max")).later == ()
    assert v2.text("memory.high") == "max"


def test_a_stale_order_is_not_carried_out(v2):
    hold(v2, 5000)
    (later,) = v2.apply("", HIGH).later
    v2.cgroup(memory_high="8192")
    assert (later.write(), v2.text("memory.high")) == (None, "8192")


def test_the_journal_has_what_was_there_before_it_is_written(v2):
    hold(v2, 5000)
    (later,) = v2.apply("", HIGH, journalled=True).later
    assert v2.noted() == {"memory.high": "max"}
    assert later.write() is None
    assert (v2.text("memory.high"), v2.writer.unbound("pod"), v2.text("memory.high")) == ("4096", (), "max")


def test_what_was_put_back_before_its_turn_stays_so(v2):
    hold(v2, 5000)
    (later,) = v2.apply("", HIGH, journalled=True).later
    v2.writer.unbound("pod")
    assert (later.write(), v2.text("memory.high")) == (None, "max")


def test_a_restore_during_a_write_is_restored_again(v2, monkeypatch):
    hold(v2, 5000)
    (later,) = v2.apply("", HIGH, journalled=True).later
    write = files.write

    def crossed(path: str, text: str) -> bool:
        monkeypatch.setattr(files, "write", write)
        v2.writer.unbound("pod")
        return write(path, text)

    monkeypatch.setattr(files, "write", crossed)
    assert (later.write(), v2.text("memory.high"), v2.noted()) == (None, "max", {})


def test_a_restore_during_a_members_bound_is_restored_again(v2, monkeypatch):
    v2.cgroup(memory_high="max")
    seen = []
    write = files.write

    def crossed(path: str, text: str) -> bool:
        monkeypatch.setattr(files, "write", write)
        v2.writer.unbound("pod")
        seen.append(v2.noted())
        return write(path, text)

    monkeypatch.setattr(files, "write", crossed)
    applied = v2.writer.bound("pod", (HIGH,))
    assert (applied.corrected, v2.text("memory.high"), v2.noted()) == ((), "max", {})
    assert seen == [{"memory.high": "max"}]  # a kill here would leave our value


@pytest.mark.parametrize("journalled", [False, True], ids=["spec", "journal"])
def test_what_the_kernel_refuses_is_returned(v2, journalled):
    hold(v2, 5000)
    (later,) = v2.apply("", HIGH, journalled=journalled).later
    v2.file("memory.high").unlink()
    v2.file("memory.high").mkdir()
    failure = later.write()
    assert failure is not None
    assert failure.path == str(v2.file("memory.high"))
