"""Invariants of the reclaim cgroups' memory for all readings, in any order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import memory_margin
from nri_coloc.core.lending import Binding, MemoryTarget, Part
from nri_coloc.core.memory_margin import Bounds
from nri_coloc.core.readings import GroupReading, MemoryReading, NodeReading, NumaMemory, Picture
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.memory import division, headroom
from nri_coloc.memory.division import Member, MemoryControl, divide, split
from nri_coloc.memory.headroom import Claim, MemoryHeadroom, Room

BYTES = st.integers(0, 1 << 38)
ROOMS = st.none() | st.builds(Room, BYTES, BYTES, BYTES)
HEADROOMS = st.builds(
    MemoryHeadroom,
    BYTES,
    st.just(Binding.FREE_MEMORY),
    BYTES,
    BYTES,
    st.just({0: 1, 1: 2}),
    st.none(),
    ROOMS,
)
TICKS = st.lists(st.tuples(st.floats(-100.0, 100.0), st.none() | HEADROOMS), min_size=1, max_size=20)
TUNING = ReclaimTuning()
AMPLE = 1 << 34
KUBELET_EVICTS = 100 << 20
"""Its default `memory.available<100Mi`: the limit of kubepods without its working set."""

MEMBERS = st.dictionaries(st.sampled_from("abcdefgh"), st.builds(Member, BYTES, BYTES, BYTES, st.booleans()))
READINGS = st.builds(
    MemoryReading, BYTES, file=BYTES, inactive_file=BYTES, working_set=BYTES, limit=st.none() | BYTES
)
GROUPS = st.builds(GroupReading, st.just(1), st.just(0.0), memory=st.none() | READINGS)
NODES = st.builds(
    NodeReading,
    st.just(0.0),
    memory_total=BYTES,
    memory_free=BYTES,
    inactive_file=BYTES,
    active_file=BYTES,
    slab_reclaimable=BYTES,
    watermark=BYTES,
    nodes=st.dictionaries(st.integers(0, 3), st.builds(NumaMemory, BYTES, BYTES, BYTES)),
)


@given(TICKS)
def test_it_rises_by_steps_and_stays_above_unreclaimable_memory(ticks):
    control, now_s = MemoryControl(), 1000.0
    for gap_s, room in ticks:
        now_s += gap_s
        before, pods = control.high, control.part
        control, goal = division.target(control, room, now_s, TUNING)
        assert control.high == goal.high
        if goal.high is None:
            assert room is None
            continue
        if before is not None:
            assert goal.high <= before + TUNING.memory_growth
            assert room is not None or before >= goal.high >= before - TUNING.memory_step
        if pods is not None and goal.pods is not None:
            assert goal.pods.high <= pods.high + TUNING.memory_growth
        if room is not None:
            stays = room.unreclaimable if before is None else min(before, room.unreclaimable)
            assert goal.high > stays - 4096
            assert goal.limit is not None
            assert goal.limit > max(goal.high, room.unreclaimable)


@given(TICKS, HEADROOMS)
def test_with_a_lasting_headroom_it_arrives_there(ticks, headroom):
    control = MemoryControl()
    for at, (_, before) in enumerate(ticks):
        control, _ = division.target(control, before, float(at), TUNING)
    wanted = max(headroom.amount, TUNING.memory_floor)
    follows = headroom._replace(unreclaimable=min(headroom.unreclaimable, wanted))
    for tick in range(200):
        control, _ = division.target(control, follows, 1000.0 + 31.0 * tick, TUNING)
    assert control.high is not None
    assert -4096 < wanted - control.high < TUNING.memory_dead_band + 4096


@given(BYTES, MEMBERS)
def test_parts_sum_to_the_total(total, members):
    parts = split(total, members)
    assert sum(parts.values()) == (total if members else 0)
    assert all(part >= 0 for part in parts.values())


@given(BYTES, MEMBERS)
def test_no_request_takes_another_pods_equal_part(total, members):
    members = {name: member._replace(unreclaimable=0) for name, member in members.items()}
    parts = split(total, members)
    for name, member in members.items():
        assert parts[name] + 1 >= min(member.use, member.request, total // len(members))


@given(BYTES, MEMBERS)
def test_none_gives_while_all_fits_or_gains_otherwise(total, members):
    parts = split(total, members)
    fits = total >= sum(member.use for member in members.values())
    for name, member in members.items():
        assert parts[name] >= member.use if fits else parts[name] <= member.use + 1


@given(BYTES, MEMBERS)
def test_nobody_gives_what_cannot_be_reclaimed_while_somebody_has_something_else(total, members):
    parts = split(total, members)
    fixed = {name: min(member.use, member.unreclaimable) for name, member in members.items()}
    if total >= sum(fixed.values()):
        assert all(parts[name] >= fixed[name] for name in members)
    else:
        assert all(parts[name] <= fixed[name] + 1 for name in members)


@given(BYTES, BYTES, MEMBERS)
def test_walls_stand_above_brakes_and_unreclaimable_memory(high, more, members):
    parts = divide(MemoryTarget(high, high + more), members)
    assert parts.keys() == members.keys()
    assert all(part.limit >= max(part.high, members[name].unreclaimable) for name, part in parts.items())
    least = sum(max(part.high, members[name].unreclaimable) for name, part in parts.items())
    assert sum(part.limit for part in parts.values()) >= (max(high + more, least) if members else 0)


@given(BYTES, BYTES, BYTES, BYTES, MEMBERS)
def test_pods_parts_are_bounded_and_complete(high, more, pods_high, pods_more, members):
    goal = MemoryTarget(high, high + more, pods=Part(pods_high, pods_high + pods_more))
    parts = divide(goal, members)
    assert parts.keys() == members.keys()
    assert sum(part.high for name, part in parts.items() if not members[name].beside) <= pods_high
    if any(member.beside for member in members.values()):
        assert sum(part.high for part in parts.values()) == high
    assert all(part.limit >= max(part.high, members[name].unreclaimable) for name, part in parts.items())


@given(BYTES, BYTES, MEMBERS)
def test_a_member_may_hold_the_boxs_remainder(high, more, members):
    parts = divide(MemoryTarget(high, high + more), members)
    used = sum(member.use for member in members.values())
    for name, part in parts.items():
        assert part.limit >= high + more - (used - members[name].use)


@given(NODES, GROUPS, st.lists(GROUPS, max_size=3), st.lists(GROUPS, max_size=2), BYTES, BYTES)
def test_headroom_is_bounded_and_wholly_divided(node, pods, box, hosts, claimed, growth):
    boxed = {str(n): each for n, each in enumerate(box)}
    members = boxed | {f"host/{n}": each for n, each in enumerate(hosts)}
    taken = Picture(0.0, node, pods, boxed)
    found = headroom.headroom_memory(taken, members, Claim(claimed, growth), TUNING)
    if found is None:
        assert pods.memory is None or not node.memory_total
        return
    assert found.amount >= 0
    assert not found.by_node or sum(found.by_node.values()) == found.amount
    less = headroom.headroom_memory(taken, members, Claim(claimed + 4096, growth), TUNING)
    assert less is not None
    assert less.amount <= found.amount


@given(NODES, READINGS, st.lists(GROUPS, max_size=3), st.integers(0, 1 << 30))
def test_lent_memory_alone_is_never_a_shortage(node, pods, box, step):
    total = node.memory_total + AMPLE
    node = replace(node, memory_total=total, memory_free=total + node.watermark)
    if pods.limit is not None:
        pods = pods._replace(limit=pods.limit + pods.working_set + AMPLE)
    boxed = {str(n): each for n, each in enumerate(box)}
    tuning = replace(TUNING, memory_step=step)
    taken = Picture(0.0, node, GroupReading(1, 0.0, memory=pods), boxed)
    found = headroom.headroom_memory(taken, boxed, Claim(), tuning)
    assert found is not None
    assert found.terms is not None
    terms = found.terms
    lent = found.amount - terms.held_by_box
    available = terms.free + terms.page_cache - terms.kernel_watermark - lent
    assert_left(available, memory_margin.of_node(node.memory_total, tuning.memory_watermark), step)
    if pods.limit is not None:
        kubelets = pods.limit - pods.working_set + terms.box_working_set - found.amount
        assert_left(kubelets, memory_margin.of_limit(pods.limit), step)


def assert_left(available: int, known: Bounds, step: int) -> None:
    """Check the memory that is left if reclaimed pods use all of their memory.high, then all of their hard limits."""
    assert available >= known.enough
    assert available - step >= known.least > KUBELET_EVICTS
