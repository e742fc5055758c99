"""A recorded turn is read as it was, and judged again."""

from dataclasses import replace

import pytest

from benchmarks.recorded_turns import Mark, read, recorded, replayed
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.judging import Seen
from nri_coloc.pressure.verdict import Resource
from tests.unit.pressure.kit import MIB, Doing, Pod

READER = Doing(cpu=50, io_stall=0.5, read=20 * MIB, operations=5000)
SLOWED = replace(READER, io_stall=0.95, read=2 * MIB, operations=500)
HOG = Doing(read=400 * MIB, operations=6400)


def day() -> list[Seen | Mark]:
    """Return twenty calm turns, and two that are hurt."""
    web, hog, found = Pod(), Pod(), list[Seen | Mark]([Mark("disk 0", 15.0)])
    for turn in range(1, 23):
        doing = (READER, Doing()) if turn <= 20 else (SLOWED, HOG)
        online, reclaimed = (
            pod.after(each, float(turn)) for pod, each in zip((web, hog), doing, strict=True)
        )
        pods = {"hog": reclaimed, "gone": None}
        protected = {Resource.IO: frozenset({"db"})}
        found.append(
            Seen(
                turn=turn,
                online={"web": online},
                reclaimed=pods,
                tolerances={"web": Tolerance.LOW},
                stolen=0.0,
                protected=protected,
            )
        )
    return found


@pytest.mark.parametrize("record", [Mark("disk 0", 1.5), day()[-1]], ids=["mark", "turn"])
def test_a_record_is_read_as_it_was(record: Seen | Mark):
    assert list(read([recorded(record)])) == [record]


def test_a_replay_names_the_culprit():
    lines = list(replayed(day(), Resource.IO))
    assert lines[-1] == "  verdict io: hog (confidence=1.00)"
    assert lines[-2].startswith("disk 0          7.0 s  web  HURT    stall=95.0% wait=1.90ms bound=")


def test_another_daemon_has_no_baseline():
    again = [one._replace(turn=at) for at, one in enumerate(day()[-2:], 1) if isinstance(one, Seen)]
    assert "unknown" in list(replayed([*day(), *again], Resource.IO))[-1]
