"""Memory is divided among the reclaim cgroups, written if the change is large enough, and recorded."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest

from nri_coloc.core.decisions import PodRemoved
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.lending import MemoryTarget, Part
from nri_coloc.core.readings import GroupReading, MemoryReading, NumaMemory
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.memory import division
from nri_coloc.memory.bounds import STARTING, WORTH_A_WRITE, BoxMemory
from nri_coloc.memory.division import Found, Member
from nri_coloc.memory.worker import Bounds, MemoryWorker
from tests.unit.lending.kit import GIB, MIB, group, picture
from tests.unit.parts import a_node, a_report, create, start_pod
from tests.unit.placing import kit


class Taken:
    """Fake memory worker that keeps the bounds of the last order."""

    def __init__(self) -> None:
        self.bounds: dict[str, Bounds] | None = None

    def submit(self, bounds: dict[str, Bounds]) -> None:
        self.bounds = bounds

    def found(self, paths: Iterable[str]) -> dict[str, Found]:
        bounded = self.bounds or {}
        return {path: Found(*bounded[path].part) for path in paths if path in bounded}


class Rig:
    def __init__(self, tuning: Tuning | None = None) -> None:
        self.node = a_node(tuning)
        report, self.heard = a_report(self.node)
        self.worker = Taken()
        self.memory = BoxMemory(self.node, cast("MemoryWorker", self.worker), report)
        self.now = 0.0

    def restart(self) -> None:
        """Start a new process on the files of the previous one."""
        report, self.heard = a_report(self.node)
        self.memory = BoxMemory(self.node, cast("MemoryWorker", self.worker), report)

    def turn(
        self,
        free: int = 8 * GIB,
        pods: dict[str, int] | None = None,
        yarn: int | None = None,
        spark: int | None = None,
        limit: int | None = None,
        anon: int | None = None,
    ) -> dict[str, int]:
        """Let 5 s pass; return memory.high, bytes, by pod; the host group's is under "".

        yarn, spark: the memory that a host group uses, bytes; None without the host group.
        limit: kubepods' own limit, bytes.
        anon: the anonymous memory of each pod, bytes; the rest of its use is page cache.
        """
        self.now += 5.0
        uses = enumerate((pods or {}).items())
        groups = {name: held(number, use, anon=anon) for number, (name, use) in uses}
        kubepods = held(99, sum((pods or {}).values()), limit)
        taken = picture(self.now, groups, kubepods, memory_total=16 * GIB, memory_free=free)
        hosts = {
            name: held(98 - number, use)
            for number, (name, use) in enumerate((("yarn", yarn), ("spark", spark)))
            if use is not None
        }
        self.memory.turn(replace(taken, host_groups=hosts), self.node.state, {})
        return self.highs

    @property
    def highs(self) -> dict[str, int]:
        return {bounds.pod_id: bounds.part.high for bounds in (self.worker.bounds or {}).values()}


def held(key: int, use: int, limit: int | None = None, anon: int | None = None) -> GroupReading:
    anon = use if anon is None else anon
    reading = MemoryReading(use, anon=anon, file=use - anon, working_set=use, limit=limit)
    return replace(group(key, 0.0), memory=reading)


WATERMARK = 16 * GIB - int(16 * GIB * 0.95)
MARGIN = 456 * MIB
"""Bytes that lending leaves below a small limit."""
"""Memory of the machine that must stay free, bytes."""


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    start_pod(rig.node, "batch")
    return rig


def lend_memory(rig: Rig, pod: str, limit: int) -> None:
    """Create a container of a reclaimed pod with a memory limit in bytes."""
    create(rig.node, f"of-{pod}", replace(kit.RECLAIMED, knobs=Knobs(memory_limit=limit)), 0, pod)


def test_a_member_gets_what_is_left_of_the_node(rig):
    assert rig.turn(pods={"batch": GIB})["batch"] == (9 * GIB - WATERMARK) // 4096 * 4096
    assert rig.memory.headroom_bytes == 9 * GIB - WATERMARK


def test_a_new_pod_gets_enough_to_start(rig):
    start_pod(rig.node, "second")
    found = rig.turn(pods={"batch": GIB})
    assert found["second"] > STARTING
    assert sum(found.values()) == pytest.approx(9 * GIB - WATERMARK, abs=4096)


def test_a_change_is_recorded_once_with_its_binding_term(rig):
    rig.turn(pods={"batch": GIB})
    rig.turn(pods={"batch": GIB})
    assert rig.heard.said() == [("reclaim.memory", "headroom")]
    record = rig.heard.records[0]
    assert record.pool == "reclaim"
    assert dict(record.before) == {}
    assert set(record.after) == {"memory.high", "memory.limit"}
    inputs = record.extra["inputs"]
    assert inputs["after_bytes"] == record.after["memory.high"]
    assert (inputs["shop/batch.high_bytes"], inputs["shop/batch.use_bytes"]) == (rig.highs["batch"], GIB)
    assert inputs["binding"] == "free_memory"
    assert inputs["may_hold_bytes"] == rig.memory.headroom_bytes
    assert (inputs["free_bytes"], inputs["holds_bytes"], inputs["before_bytes"]) == (8 * GIB, GIB, None)
    assert (inputs["watermark"], inputs["kubepods_limit_bytes"]) == (0.95, None)


def test_the_noise_of_free_memory_is_not_worth_a_write(rig):
    before = rig.turn(pods={"batch": GIB})
    assert rig.turn(8 * GIB - MIB, {"batch": GIB}) == before
    assert rig.turn(8 * GIB - WORTH_A_WRITE, {"batch": GIB})["batch"] == before["batch"] - WORTH_A_WRITE


def test_a_box_that_uses_too_much_follows_every_fall(rig):
    rig.turn(pods={"batch": 8 * GIB}, anon=0)
    before = rig.turn(free=0, pods={"batch": 8 * GIB}, anon=0)
    assert before["batch"] < 8 * GIB
    assert rig.turn(free=0, pods={"batch": 8 * GIB - MIB}, anon=0)["batch"] < before["batch"]


def test_it_falls_at_once_to_what_its_members_cannot_give_back(rig):
    rig.turn(free=4 * GIB, pods={"batch": 8 * GIB}, anon=GIB)
    tight = ReclaimTuning(memory_watermark=0.2)
    rig.node.tuning = replace(rig.node.tuning, reclaim=tight)
    assert rig.turn(free=0, pods={"batch": 8 * GIB}, anon=GIB)["batch"] == GIB
    assert rig.turn(free=0, pods={"batch": GIB}, anon=0)["batch"] == 256 * MIB


def test_a_restart_keeps_bounds_and_raises_after_the_dwell(rig):
    before = rig.turn(free=0, pods={"batch": GIB}, yarn=GIB)
    rig.restart()
    assert rig.turn(pods={"batch": GIB}, yarn=GIB) == before
    inputs = rig.heard.records[-1].extra["inputs"]
    assert inputs["binding"] == "dwell"
    assert (inputs["found_bytes"], inputs["found_members"]) == (sum(before.values()), 2)
    for _ in range(6):
        after = rig.turn(pods={"batch": GIB}, yarn=GIB)
    assert sum(after.values()) == sum(before.values()) + 4 * GIB
    assert "found_bytes" not in rig.heard.records[-1].extra["inputs"]


def test_who_came_between_two_lives_begins_with_what_it_uses(rig):
    before = rig.turn(free=0, pods={"batch": GIB})
    rig.restart()
    start_pod(rig.node, "second")
    assert sum(rig.turn(pods={"batch": GIB, "second": 2 * GIB}).values()) == before["batch"] + 2 * GIB


def test_the_next_life_falls_from_there_at_once(rig):
    before = rig.turn(free=4 * GIB, pods={"batch": GIB})
    rig.restart()
    assert rig.turn(free=2 * GIB, pods={"batch": GIB})["batch"] == before["batch"] - 2 * GIB


def test_where_nobody_is_bounded_the_next_life_begins_anew(rig):
    rig.turn(free=GIB, pods={"batch": GIB})
    rig.restart()
    rig.worker.bounds = None
    assert rig.turn(pods={"batch": GIB})["batch"] == (9 * GIB - WATERMARK) // 4096 * 4096


def test_a_member_about_to_use_up_its_part_gets_another_one(rig):
    start_pod(rig.node, "second")
    before = rig.turn(pods={"batch": 4 * GIB, "second": 0})
    grown = int(before["second"] * 0.95)
    after = rig.turn(8 * GIB - grown, {"batch": 4 * GIB, "second": grown})
    assert after["second"] > before["second"]
    for _ in range(12):  # a new division of the same amount is written a minute later
        rig.turn(8 * GIB - grown, {"batch": 4 * GIB, "second": grown})
    assert rig.heard.said() == [("reclaim.memory", "headroom"), ("reclaim.memory", "members_asked")]


def test_memory_that_swings_is_one_record_a_minute(rig):
    for number in range(61):
        rig.turn((4 if number % 2 else 8) * GIB, {"batch": GIB}, anon=0)
    assert len(rig.heard.records) <= 3 + 5
    inputs = rig.heard.records[-1].extra["inputs"]
    assert inputs["low_bytes"] < inputs["high_bytes"]


def test_a_swing_of_both_directions_is_one_record_a_minute(rig):
    told_s: list[float] = []
    for number in range(140):  # 40 s with more memory: a rise waits for its dwell of 30 s
        rig.turn((8 if number % 10 < 8 else 4) * GIB, {"batch": GIB}, anon=0)
        if len(rig.heard.records) > len(told_s):
            told_s.append(rig.now)
    assert min(after - before for before, after in pairwise(told_s[4:])) >= 60.0
    assert len(told_s) > 8


def test_another_division_of_an_amount_waits_a_minute(rig):
    start_pod(rig.node, "second")
    rig.turn(pods={"batch": 4 * GIB, "second": 0})
    grown = 4 * GIB
    for _ in range(11):
        rig.turn(8 * GIB - grown, {"batch": 4 * GIB, "second": grown})
        assert len(rig.heard.records) == 1
    rig.turn(8 * GIB - grown, {"batch": 4 * GIB, "second": grown})
    assert len(rig.heard.records) == 2


def test_a_nearly_full_member_gets_no_other_part_without_room(rig):
    before = rig.turn(free=WATERMARK + 8 * MIB, pods={"batch": 4 * GIB})
    assert rig.turn(free=WATERMARK + 7 * MIB, pods={"batch": 4 * GIB}) == before


def test_a_limit_of_kubepods_that_appears_is_followed_at_once(rig):
    before = rig.turn(pods={"batch": GIB}, yarn=GIB)
    assert rig.turn(pods={"batch": GIB}, yarn=GIB, limit=2 * GIB)["batch"] < before["batch"]


def test_kubepods_limit_bounds_pods_and_spares_host_groups(rig):
    found = rig.turn(pods={"batch": GIB}, yarn=4 * GIB, limit=2 * GIB + MARGIN)
    assert (found["batch"], found[""]) == (2 * GIB, (13 * GIB - WATERMARK) // 4096 * 4096 - 2 * GIB)
    assert rig.turn(pods={"batch": GIB}, yarn=4 * GIB, limit=2 * GIB + MARGIN) == found
    assert "pods_high_bytes" in rig.heard.records[-1].extra["inputs"]


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        pytest.param(2 * GIB + MARGIN, "by_kubepods_limit=2 GiB", id="kubepods limit"),
        pytest.param(None, "by_node=8.2 GiB", id="free memory"),
    ],
)
def test_a_record_shows_the_sum_that_bounds(rig, limit: int | None, shown: str):
    rig.turn(pods={"batch": GIB}, limit=limit)
    assert f", {shown}, members=1)" in rig.heard.records[-1].because


def test_pods_that_use_more_than_they_may_alone_follow_every_fall(rig):
    assert rig.turn(pods={"batch": 2 * GIB}, yarn=GIB, limit=GIB + MARGIN, anon=0)["batch"] == GIB
    assert rig.turn(pods={"batch": 2 * GIB}, yarn=GIB, limit=GIB + MARGIN - MIB, anon=0)["batch"] == GIB - MIB


def test_a_pod_beyond_the_part_of_pods_gets_no_other_part(rig):
    before = rig.turn(pods={"batch": GIB}, yarn=GIB, limit=GIB + MARGIN)
    assert rig.turn(pods={"batch": GIB}, yarn=GIB + 8 * MIB, limit=GIB + MARGIN) == before
    assert len(rig.heard.records) == 1


def test_full_pods_do_not_divide_host_groups_again(rig):
    rig.turn(pods={"batch": GIB}, yarn=GIB, spark=GIB, limit=GIB + MARGIN)
    before = rig.worker.bounds
    rig.turn(pods={"batch": GIB}, yarn=GIB + 64 * MIB, spark=GIB - 64 * MIB, limit=GIB + MARGIN)
    assert rig.worker.bounds == before


def test_free_memory_is_divided_by_the_limits_of_pods(rig):
    start_pod(rig.node, "second")
    lend_memory(rig, "batch", 2 * GIB)
    lend_memory(rig, "second", GIB)
    found = rig.turn(free=GIB + WATERMARK, pods={"batch": GIB, "second": GIB})
    assert found["batch"] - found["second"] == pytest.approx(GIB // 3, abs=4096)


def test_a_limit_of_an_annotation_counts_instead_of_the_containers(rig):
    start_pod(rig.node, "second")
    lend_memory(rig, "second", GIB)
    create(
        rig.node,
        "of-batch",
        replace(kit.RECLAIMED, knobs=Knobs(memory_limit=2 * GIB)),
        0,
        "batch",
        limited=True,
    )
    found = rig.turn(free=GIB + WATERMARK, pods={"batch": GIB, "second": GIB})
    assert found["batch"] - found["second"] == pytest.approx(GIB // 3, abs=4096)


def test_a_host_group_gets_free_memory_by_its_use(rig):
    lend_memory(rig, "batch", GIB)
    found = rig.turn(free=GIB + WATERMARK, pods={"batch": GIB}, yarn=GIB)
    assert found["batch"] == pytest.approx(found[""], abs=4096)


def test_who_leaves_gives_its_part_to_the_others(rig):
    start_pod(rig.node, "second")
    before = rig.turn(pods={"batch": GIB, "second": GIB})
    rig.node.decide(PodRemoved("second"))
    after = rig.turn(9 * GIB, pods={"batch": GIB})
    assert set(after) == {"batch"}
    assert after["batch"] > before["batch"]


def test_the_last_one_leaves_and_that_is_told(rig):
    rig.turn(pods={"batch": GIB})
    rig.node.decide(PodRemoved("batch"))
    assert rig.turn(9 * GIB) == {}
    assert dict(rig.heard.records[-1].after) == {}
    assert set(rig.heard.records[-1].before) == {"memory.high", "memory.limit"}


def test_cgroup_v1_has_no_memory_high_to_miss(rig):
    files = frozenset({"memory.limit_in_bytes", "cpuset.cpus"})
    rig.node.learn(Capability(1, files, seen_below=frozenset({"kubepods"})))
    rig.turn(pods={"batch": GIB})
    rig.turn(4 * GIB, pods={"batch": GIB})
    rig.node.decide(PodRemoved("batch"))
    rig.turn(4 * GIB)
    assert rig.heard.said() == [("reclaim.memory", "headroom")] * 3
    for record in rig.heard.records:
        assert set(record.before) | set(record.after) == {"memory.limit"}


def test_whose_memory_is_not_ours_is_reckoned_with_and_left_alone():
    rig = Rig()
    start_pod(rig.node, "batch", Wish(QoSClass.RECLAIMED, preserve=frozenset({"memory"})))
    assert rig.turn(pods={"batch": GIB}) == {}
    assert rig.memory.headroom_bytes == 9 * GIB - WATERMARK, "it gives that back when it ends"


def test_an_observer_tells_what_it_would_do_and_submits_nothing():
    rig = Rig(Tuning(observe=True))
    start_pod(rig.node, "batch")
    rig.turn(pods={"batch": GIB})
    assert rig.worker.bounds is None
    assert rig.heard.said() == [("reclaim.memory", "headroom")]


def test_switched_off_everything_is_given_back(rig):
    rig.turn(pods={"batch": GIB})
    rig.node.tuning = Tuning(reclaim=ReclaimTuning(enabled=False))
    assert rig.turn(pods={"batch": GIB}) == {}
    assert rig.worker.bounds == {}
    inputs = rig.heard.records[-1].extra["inputs"]
    assert (inputs["binding"], inputs["low_bytes"]) == ("lending_disabled", 0)


def test_without_readings_bounds_fall_after_a_minute(rig):
    before = rig.turn(pods={"batch": GIB})
    rig.memory.turn(picture(30.0, {}), rig.node.state, {})
    assert rig.highs == before
    rig.memory.turn(picture(100.0, {}), rig.node.state, {})
    assert rig.highs["batch"] == before["batch"] - 256 * MIB


def test_headroom_is_known_by_memory_node(rig):
    assert rig.memory.headroom_by_node == {}
    nodes = {0: NumaMemory(8 * GIB, 4 * GIB), 1: NumaMemory(8 * GIB, 4 * GIB)}
    taken = picture(5.0, {}, held(99, 0), memory_total=16 * GIB, memory_free=8 * GIB, nodes=nodes)
    rig.memory.turn(taken, rig.node.state, {})
    assert dict(rig.memory.headroom_by_node) == {
        0: rig.memory.headroom_bytes // 2,
        1: rig.memory.headroom_bytes // 2,
    }


def test_without_readings_and_pods_nothing_is_written():
    rig = Rig()
    rig.memory.turn(picture(1.0, {}), rig.node.state, {})
    assert (rig.worker.bounds, rig.heard.records) == ({}, [])


def test_readings_may_be_missing_for_a_minute(rig):
    for _ in range(12):
        before = rig.turn(pods={"batch": GIB})
    rig.memory.turn(picture(100.0, {}), rig.node.state, {})
    assert rig.highs == before


def test_before_the_first_reading_nobody_is_bounded(rig):
    rig.memory.turn(picture(1.0, {}), rig.node.state, {})
    assert (rig.highs, rig.memory.headroom_bytes, rig.heard.records) == ({}, 0, [])


def test_the_parts_follow_from_the_record(rig):
    start_pod(rig.node, "second")
    lend_memory(rig, "batch", 2 * GIB)
    rig.turn(free=GIB, pods={"batch": 3 * GIB, "second": GIB}, anon=GIB // 2)
    record = rig.heard.records[0]
    figures = record.extra["inputs"]

    def of(name: str, key: str) -> int:
        return int(figures[f"{name}.{key}_bytes"])

    names = ("shop/batch", "shop/second")
    members = {k: Member(of(k, "use"), of(k, "request"), of(k, "unreclaimable")) for k in names}
    high, limit = (record.after[knob] for knob in ("memory.high", "memory.limit"))
    assert isinstance(high, int)
    assert isinstance(limit, int)
    goal = MemoryTarget(high=high, limit=limit)
    assert division.divide(goal, members) == {k: Part(of(k, "high"), of(k, "max")) for k in names}
    assert members["shop/batch"] == Member(3 * GIB, 2 * GIB, GIB // 2)


def test_many_members_are_not_all_named(rig):
    for number in range(20):
        start_pod(rig.node, f"p{number}")
    rig.turn(pods={})
    inputs = rig.heard.records[0].extra["inputs"]
    assert inputs["members"] == 21
    assert sum(name.endswith(".high_bytes") for name in inputs) == 8
