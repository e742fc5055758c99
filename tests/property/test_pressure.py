"""pressure: no verdict without reclaimed pods, without known readings, or by own limits; and no flapping.

A degraded container keeps its pod's request, and a container within it is never degraded.
"""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.settings import RungTuning
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.action import Cause
from nri_coloc.pressure.actions import degrade_cpu
from nri_coloc.pressure.actions.degrade_cpu import LEAST, NO_COURSE, Member, Pool
from nri_coloc.pressure.ladder import AT_REST, Accused, Floor, Move, Turn, climb
from nri_coloc.pressure.verdict import LOADS, NO_BASELINE, Resource, Strain, judge
from tests.unit.pressure.kit import MIB, Bench, Doing

_ACTS = {Resource.IO: Floor(float(MIB), RungTuning(throttles=True))}
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
            judged = node.failed_turn("web", "batch")
            assert not judged.verdicts
            assert not any(judged.hurt.values())


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


@given(st.sampled_from(Resource), st.floats(0.001, 0.05), st.floats(1.04, 2.0), st.floats(0, 1000))
def test_a_rising_wait_is_a_hurt_in_time(resource: Resource, calm: float, growth: float, cpu: float):
    known, usual = NO_BASELINE, Strain(calm, 100.0, resolution=0.02, cpu=cpu)
    for _ in range(200):
        known, _ = judge(known, resource, usual, Tolerance.NORMAL)
    stall, hurts = calm, list[bool | None]()
    while (stall := stall * growth) <= 1:
        known, judgement = judge(known, resource, usual._replace(stall=stall), Tolerance.NORMAL)
        hurts.append(judgement.hurt)
    assert any(hurts)


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


_EPISODES = st.lists(st.tuples(st.booleans(), st.integers(1, 120)), min_size=1, max_size=20)


@given(_EPISODES, st.sampled_from([3.0, 60.0, 150.0]))
def test_no_faked_stall_frees_a_hog_of_others(episodes: list[tuple[bool, int]], bearable: float):
    fakes = [fake for fake, seconds in episodes for _ in range(seconds)]
    assert _hurt_s(fakes, bearable) <= _hurt_s([False] * len(fakes), bearable) + 10


def _hurt_s(fakes: list[bool], bearable: float) -> int:
    """Return for how long a hog hurts an online pod by more MiB/s than it bears, beside a pod that fakes a stall."""
    ladder, hurt_s = AT_REST, 0
    for at, is_faked in enumerate(fakes):
        throttle = ladder.throttled.get(("hog", Resource.IO))
        use = 400.0 if throttle is None else throttle.limit / MIB
        hurt = {"web"} if use > bearable else set[str]()
        hurt_s += len(hurt)
        hurt |= {"faker"} if is_faked else set()
        accused = [Accused("hog", victim, use * MIB) for victim in hurt if use > 2]
        ladder, _ = climb(
            ladder, Turn(float(at), {Resource.IO: accused}, {Resource.IO: hurt}, {"hog"}), _ACTS
        )
    return hurt_s


_REQUESTS = {"one": 0.0, "two": 500.0, "three": 2000.0}
_MEMBERS = st.dictionaries(
    st.sampled_from(["web", "db", "hog", "lean"]),
    st.builds(
        lambda pod_id, **more: Member(pod_id, request=_REQUESTS[pod_id], **more),
        pod_id=st.sampled_from([*_REQUESTS]),
        use=st.none() | st.floats(0, 8000),
        most=st.sampled_from([3000.0, float("inf")]),
        may=st.booleans(),
        namespace=st.sampled_from(["shop", "bank"]),
        kube_priority=st.integers(0, 2),
        priority=st.integers(-1, 1),
    ),
)
_POOLS = st.builds(
    Pool,
    cpu_milli=st.sampled_from([1000.0, 4000.0, 8000.0]),
    members=_MEMBERS,
    hurt=st.frozensets(st.sampled_from([*_REQUESTS])),
)


@given(st.lists(st.tuples(_POOLS, st.floats(0.2, 90)), max_size=60))
def test_degrading_never_cuts_into_a_request(turns: list[tuple[Pool, float]]):
    course, now = NO_COURSE, 0.0
    for pool, gap in turns:
        now += gap
        course, steps = degrade_cpu.turn(course, {"share": pool}, now)
        lowered = [one for one in steps if one.cause is Cause.HURT]
        assert len(lowered) <= 1
        for step in lowered:
            one = pool.members[step.container_id]
            assert one.may
            assert step.limit is not None
            assert max(_REQUESTS[one.pod_id], LEAST) <= step.limit < min(one.most, one.use or 0.0)
            assert one.pod_id not in step.victims
            used = {
                k: sum(m.use or 0.0 for m in pool.members.values() if m.pod_id == k) for k in step.victims
            }
            assert all(use <= _REQUESTS[k] for k, use in used.items())
        assert all(one.limit >= pool.members[k].floor for k, one in course.degraded.items())


@given(
    st.lists(st.tuples(st.sampled_from(["hurt", "calm", "hurt by itself"]), st.floats(0.2, 20)), min_size=20),
    st.floats(1200, 8000),
)
def test_a_container_is_restored_once_a_minute(moments: list[tuple[str, float]], wanted: float):
    course, at, restored = NO_COURSE, 0.0, list[float]()
    for moment, gap in moments:
        at += gap
        held = course.degraded.get("hog")
        hog = Member("hog", min(wanted, held.limit if held else wanted), 1000.0, may=True)
        hurt = {"hurt": frozenset({"web"}), "calm": frozenset[str](), "hurt by itself": frozenset({"hog"})}
        pool = Pool(1500.0, {"hog": hog, "web": Member("web", 500.0, 500.0)}, hurt[moment])
        course, steps = degrade_cpu.turn(course, {"share": pool}, at)
        restored += [at for step in steps if step.limit is None]
    assert all(later - earlier >= 60 for earlier, later in pairwise(restored))
