"""pressure: no verdict without reclaimed pods, without known readings, or by own limits; and no flapping."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.settings import RungTuning
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.judging import Seen, turn
from nri_coloc.pressure.ladder import AT_REST, Accused, Floor, Move, Turn, climb
from nri_coloc.pressure.verdict import LOADS, NO_BASELINE, Resource, Strain, judge
from tests.unit.pressure.kit import MIB, Bench, Doing

_SHARES = st.floats(0, 1)
_LOADS = st.builds(
    Doing,
    cpu=st.floats(0, 8000),
    cpu_stall=_SHARES,
    memory_stall=_SHARES,
    io_stall=_SHARES,
    read=st.floats(0, 1e9),
    operations=st.floats(0, 1e5),
    grows=st.floats(0, 1e9),
)
_DAYS = st.lists(st.tuples(_LOADS, _LOADS), min_size=1, max_size=60)


@given(_DAYS)
def test_no_reclaimed_pods_no_verdict(day: list[tuple[Doing, Doing]]):
    node = Bench()
    assert not [one for web, db in day for one in node.second({"web": web, "db": db}, {}).verdicts]


@given(_DAYS)
def test_unknown_readings_make_no_verdict(day: list[tuple[Doing, Doing]]):
    node = Bench()
    for number, (web, batch) in enumerate(day):
        judged = node.second({"web": web}, {"batch": batch})
        if number % 2:
            unread = Seen({"web": None}, {"batch": None}, {"web": node.tolerance}, 0.0)
            judged = turn(node.watch, unread, node.tuning)
            assert not judged.verdicts
            assert not any(judged.hurt.values())
            node.watch = judged.watch


@given(_DAYS)
def test_own_throttling_makes_no_cpu_verdict(day: list[tuple[Doing, Doing]]):
    node = Bench()
    for web, batch in day:
        held = replace(web, throttled=web.cpu_stall)
        verdicts = node.second({"web": held}, {"batch": batch}).verdicts
        assert all(one.resource is not Resource.CPU for one in verdicts)


@given(_DAYS)
def test_culprits_rose_and_memory_is_bounded(day: list[tuple[Doing, Doing]]):
    node = Bench()
    for web, batch in day:
        for one in node.second({"web": web}, {"batch": batch}).verdicts:
            assert 0.5 <= one.evidence.confidence <= 1
            assert all(suspect.rise > 0 for suspect in one.evidence.culprits)
    felt = node.watch["web"].felt.values()
    assert all(len(each.baseline) <= LOADS for each in felt)


@given(_SHARES, _SHARES, st.integers(256, 4096), st.integers(1, 8))
def test_the_speed_of_a_disk_changes_no_verdict(calm: float, last: float, operations: int, faster: int):
    """A faster disk with the same stalls: each wait is shorter by the factor by which there are more operations."""
    judged = []
    for rate in (operations, operations << faster):
        known = NO_BASELINE
        for stall in (*[calm] * 12, last):
            known, judgement = judge(known, Resource.IO, Strain(stall, rate), Tolerance.NORMAL)
        judged.append(judgement.hurt)
    assert judged[0] == judged[1]


@given(
    st.lists(st.sampled_from(["hurt", "calm", "accused"]), min_size=1, max_size=900),
    st.integers(1, 5),
    st.integers(1, 10),
    st.floats(1e6, 1e9),
)
def test_no_action_is_undone_thrice_a_minute(moments: list[str], up: int, down: int, use: float):
    floors = {Resource.IO: Floor(float(MIB), RungTuning(throttles=True, up=up, down=down))}
    ladder, freed_at = AT_REST, []
    for at, moment in enumerate(moments):
        accused = (Accused("hog", "web", use),) if moment == "accused" else ()
        hurt = {"web"} if moment != "calm" else set()
        now = Turn(float(at), {Resource.IO: accused}, {Resource.IO: hurt}, {"hog"})
        ladder, steps = climb(ladder, now, floors)
        freed_at += [at for step in steps if step.move is Move.FREE]
        assert all(step.limit is None or step.limit >= min(MIB, use / 2) for step in steps)
    assert all(third - first > 60 for first, third in zip(freed_at, freed_at[2:], strict=False))
