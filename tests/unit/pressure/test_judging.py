"""pressure: online pods that reclaimed pods hurt get a verdict with the culprit's name, innocents get none."""

from dataclasses import replace

import pytest

from nri_coloc.core.settings import PressureTuning, RungTuning
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.culprit import Feeling
from nri_coloc.pressure.judging import Felt, Watched
from nri_coloc.pressure.rates import UNUSED
from nri_coloc.pressure.verdict import Level, Resource
from tests.unit.pressure.kit import MIB, Bench, Doing

READER = Doing(cpu=50, io_stall=0.9, read=20 * MIB, operations=5000)
SLOWED = replace(READER, io_stall=0.95, read=2 * MIB, operations=500)
IDLE = Doing()
DISK_HOG = Doing(read=400 * MIB, operations=6400)
BUSY = Doing(cpu=2000)

CASES = {
    Resource.IO: (READER, SLOWED, DISK_HOG),
    Resource.CPU: (Doing(cpu=300, cpu_stall=0.02), Doing(cpu=280, cpu_stall=0.5), BUSY),
    Resource.MEMORY: (Doing(), Doing(memory_stall=0.4), Doing(grows=300.0 * MIB)),
}


def bench() -> Bench:
    return Bench(PressureTuning(memory=RungTuning(), cpu=RungTuning()))


@pytest.mark.parametrize("resource", CASES, ids=str)
def test_a_hurt_pod_has_a_verdict_and_culprit(resource: Resource):
    calm, hurt, hog = CASES[resource]
    node = bench()
    assert not node.seconds(20, {"web": calm}, {"hog": IDLE, "quiet": IDLE})
    first, second = (node.second({"web": hurt}, {"hog": hog, "quiet": IDLE}) for _ in range(2))
    assert not first.verdicts
    (verdict,) = second.verdicts
    assert (verdict.victim, verdict.resource, verdict.readings) == ("web", resource, 2)
    assert [one.pod_id for one in verdict.evidence.culprits] == ["hog"]
    assert verdict.evidence.confidence > 0.9


def test_a_pause_beside_a_hog_is_no_calm_turn():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.seconds(20, {"web": IDLE}, {"hog": DISK_HOG})
    (verdict, *_) = node.seconds(2, {"web": SLOWED}, {"hog": DISK_HOG})
    assert [one.pod_id for one in verdict.evidence.culprits] == ["hog"]


def test_after_a_long_pause_its_turns_are_calm():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.seconds(64, {"web": IDLE}, {"hog": IDLE})
    assert node.seconds(2, {"web": SLOWED}, {"hog": DISK_HOG})


@pytest.mark.parametrize("resource", CASES, ids=str)
def test_no_reclaimed_pods_no_verdict(resource: Resource):
    calm, hurt, _ = CASES[resource]
    node = bench()
    node.seconds(20, {"web": calm}, {})
    assert not node.seconds(20, {"web": hurt}, {})


@pytest.mark.parametrize("resource", CASES, ids=str)
def test_a_steady_reclaimed_pod_is_innocent(resource: Resource):
    calm, hurt, hog = CASES[resource]
    node = bench()
    node.seconds(20, {"web": calm}, {"steady": hog})
    assert not node.seconds(20, {"web": hurt}, {"steady": hog})


@pytest.mark.parametrize("resource", CASES, ids=str)
def test_a_pod_that_works_in_bursts_is_innocent(resource: Resource):
    calm, hurt, hog = CASES[resource]
    node = bench()
    for _ in range(5):
        node.seconds(8, {"web": calm}, {"bursts": IDLE})
        node.seconds(2, {"web": calm}, {"bursts": hog})
    assert not node.seconds(5, {"web": hurt}, {"bursts": hog})


def test_a_pod_that_begins_after_the_hurt_is_suspected_later():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.second({"web": SLOWED}, {"hog": IDLE})
    found = [bool(node.second({"web": SLOWED}, {"hog": DISK_HOG}).verdicts) for _ in range(6)]
    assert found == [False, False, False, True, True, True]


def test_a_part_of_a_second_is_no_late_begin():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.second({"web": SLOWED}, {"hog": Doing(read=8 * MIB, operations=128)})
    assert node.second({"web": SLOWED}, {"hog": DISK_HOG}).verdicts


def test_a_pod_that_was_busy_before_is_suspected_later():
    node = bench()
    node.seconds(20, {"web": READER}, {"job": IDLE})
    node.seconds(3, {"web": READER}, {"job": DISK_HOG})
    found = [bool(node.second({"web": SLOWED}, {"job": DISK_HOG}).verdicts) for _ in range(8)]
    assert found == [False] * 5 + [True] * 3


def test_calm_turns_within_a_hurt_clear_no_pod():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    found = [
        bool(node.second({"web": READER if number % 4 else SLOWED}, {"hog": DISK_HOG}).verdicts)
        for number in range(9)
    ]
    assert found == [False] * 4 + [True] + [False] * 3 + [True]


def test_pods_that_take_turns_are_all_named():
    node, hogs = bench(), ("first", "second", "third")
    node.seconds(20, {"web": READER}, dict.fromkeys(hogs, IDLE))
    named = set[str]()
    for number in range(30):
        doing = dict.fromkeys(hogs, IDLE) | {hogs[number % 3]: DISK_HOG}
        for verdict in node.second({"web": SLOWED}, doing).verdicts:
            named |= {one.pod_id for one in verdict.evidence.culprits}
    assert named == {*hogs}


def test_a_short_look_does_not_end_a_small_hurt():
    calm, hurt = Doing(cpu=100, cpu_stall=0.02), Doing(cpu=100, cpu_stall=0.06)
    node = bench()
    node.seconds(20, {"web": calm}, {"hog": IDLE})
    looks = [node.second({"web": hurt}, {"hog": BUSY}, lasts_s=each) for each in (1.0, 0.25, 1.0)]
    assert [len(look.verdicts) for look in looks] == [0, 0, 1]


@pytest.mark.parametrize("resource", [Resource.IO, Resource.CPU])
def test_waits_beside_a_limit_are_learned_slowly(resource: Resource):
    node, slower = bench(), replace(READER, io_stall=0.95, operations=4500, cpu_stall=0.01)
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    before = level(node, resource)
    node.protected = {resource: {"web"}}
    node.seconds(120, {"web": slower}, {"hog": IDLE})
    assert level(node, resource).mean == pytest.approx(before.mean, rel=0.02, abs=0.001)
    node.protected = {}
    node.seconds(120, {"web": slower}, {"hog": IDLE})
    assert level(node, resource).mean > before.mean * 1.1


def level(node: Bench, resource: Resource) -> Level:
    felt = node.watch["web"].felt[resource]
    assert felt.judgement.hurt is False
    (found,) = felt.baseline.values()
    return found


def test_a_hurt_without_a_culprit_is_expected_again():
    node = bench()
    for _ in range(2):
        node.seconds(20, {"web": READER}, {"hog": IDLE})
        node.seconds(3, {"web": SLOWED}, {"hog": IDLE})
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    (verdict,) = node.seconds(5, {"web": SLOWED}, {"hog": DISK_HOG})
    assert verdict.readings == 5


def test_a_hurt_hardly_longer_than_one_alone_is_expected():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.seconds(3, {"web": SLOWED}, {"hog": IDLE})
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    spans_s = (1.0, 1.0, 1.0, 1.0, 0.75, 0.25)
    looks = [node.second({"web": SLOWED}, {"hog": DISK_HOG}, lasts_s=each) for each in spans_s]
    assert [len(look.verdicts) for look in looks] == [0, 0, 0, 0, 0, 1]


def test_short_turns_make_no_hurt_longer():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.seconds(3, {"web": SLOWED}, {"hog": IDLE})
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    spans_s = (1.0, 0.25, 0.75, 1.0)
    looks = [node.second({"web": SLOWED}, {"hog": DISK_HOG}, lasts_s=each) for each in spans_s]
    assert not any(look.verdicts for look in looks)


def test_a_hurt_outlasts_single_calm_turns():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    found = [node.second({"web": each}, {"hog": DISK_HOG}).verdicts for each in (SLOWED, READER, SLOWED)]
    assert [len(verdicts) for verdicts in found] == [0, 0, 1]
    assert found[2][0].readings == 2


def test_four_calm_turns_end_a_hurt():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.second({"web": SLOWED}, {"hog": DISK_HOG})
    node.seconds(4, {"web": READER}, {"hog": IDLE})
    assert not node.second({"web": SLOWED}, {"hog": DISK_HOG}).verdicts


@pytest.mark.parametrize("pods", [["web"], ["web", "second", "third"]], ids=["one", "more than are searched"])
def test_a_hurt_with_a_culprit_is_none_alone(pods: list[str]):
    node = bench()
    calm, slowed = dict.fromkeys(pods, READER), dict.fromkeys(pods, SLOWED)
    node.seconds(20, calm, {"hog": IDLE})
    assert node.seconds(5, slowed, {"hog": DISK_HOG})
    node.seconds(20, calm, {"hog": IDLE})
    assert {one.readings for one in node.seconds(2, slowed, {"hog": DISK_HOG})} == {2}
    assert not any(node.watch[pod].felt[Resource.IO].feeling.alone_s for pod in pods)


def test_a_hurt_without_a_culprit_is_forgotten():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    node.seconds(3, {"web": SLOWED}, {"hog": IDLE})
    node.seconds(3 * 1800 + 10, {"web": READER}, {"hog": IDLE})
    (verdict,) = node.seconds(2, {"web": SLOWED}, {"hog": DISK_HOG})
    assert verdict.readings == 2


def test_an_online_neighbour_is_told_apart():
    node = bench()
    node.seconds(20, {"web": READER, "db": IDLE}, {"batch": IDLE})
    slight = replace(DISK_HOG, read=30 * MIB, operations=100)
    assert not node.seconds(10, {"web": SLOWED, "db": DISK_HOG}, {"batch": slight})


def test_own_throttling_makes_no_verdict():
    node = bench()
    node.seconds(20, {"web": Doing(cpu=300, cpu_stall=0.02)}, {"batch": IDLE})
    held = Doing(cpu=500, cpu_stall=0.8, throttled=0.8)
    assert not node.seconds(20, {"web": held}, {"batch": BUSY})


def test_stolen_time_makes_no_verdict():
    node = bench()
    node.seconds(20, {"web": Doing(cpu=300, cpu_stall=0.02)}, {"batch": IDLE})
    node.stolen = 0.6
    assert not node.seconds(20, {"web": Doing(cpu=300, cpu_stall=0.6)}, {"batch": BUSY})


def test_a_pod_at_its_own_memory_limit_has_no_verdict():
    node = bench()
    full = Doing(memory_stall=0.5, limit=100 * MIB)
    node.seconds(20, {"web": replace(full, memory_stall=0.0)}, {"batch": IDLE})
    assert not node.seconds(20, {"web": full}, {"batch": Doing(grows=300.0 * MIB)})


def test_a_container_at_its_own_memory_limit_has_no_verdict():
    node = bench()
    node.seconds(20, {"web": Doing()}, {"batch": IDLE})
    full = Doing(memory_stall=0.5, hits=3)
    assert not node.seconds(20, {"web": full}, {"batch": Doing(grows=300.0 * MIB)})


def test_own_burst_beyond_known_loads_is_unknown():
    node = bench()
    node.seconds(20, {"web": replace(READER, io_stall=0.1, operations=100)}, {"batch": IDLE})
    burst = replace(READER, io_stall=1.0, operations=40_000)
    assert not node.seconds(5, {"web": burst}, {"batch": DISK_HOG})


LARGE = Doing(io_stall=0.9, read=200.0 * MIB, operations=200)
"""Operations of 1 MiB: on an idle disk each waits longer than one of `READER`, which reads 4 KiB."""


@pytest.mark.parametrize("operations", [5000, 500, 250], ids=["far", "near", "same"])
def test_larger_operations_make_no_verdict(operations: int):
    node = bench()
    small = Doing(io_stall=operations * 0.00018, read=operations * 4096.0, operations=operations)
    node.seconds(20, {"web": small}, {"batch": IDLE})
    assert not node.seconds(120, {"web": LARGE}, {"batch": DISK_HOG})


@pytest.mark.parametrize(
    ("cpu", "stall", "expected"),
    [(100, 0.05, True), (100, 0.04, False), (1000, 0.2, False), (1000, 0.3, True)],
    ids=["small", "small calm", "large calm", "large"],
)
def test_a_cpu_wait_is_compared_with_own_use(cpu: float, stall: float, *, expected: bool):
    node = bench()
    calm = Doing(cpu=cpu, cpu_stall=0.02)
    node.seconds(20, {"web": calm}, {"hog": IDLE})
    assert bool(node.seconds(2, {"web": replace(calm, cpu_stall=stall)}, {"hog": BUSY})) is expected


FAST = Doing(io_stall=0.023, read=500 * 4096.0, operations=500)
"""A virtio disk that serves an operation in 0.046 ms."""


def test_a_fast_disk_beside_a_throttled_hog_hurts():
    node = bench()
    node.seconds(20, {"web": FAST}, {"hog": IDLE})
    slowed = replace(FAST, io_stall=0.26)
    (verdict,) = node.seconds(2, {"web": slowed}, {"hog": DISK_HOG})
    assert verdict.judgement.wait == pytest.approx(0.00052, rel=0.01)


@pytest.mark.parametrize("latency_ms", [8.0, 0.1, 0.02], ids=["hdd", "ssd", "nvme"])
@pytest.mark.parametrize("waits", [0.03, 0.9], ids=["seldom", "always"])
def test_each_disk_has_its_own_scale(latency_ms: float, waits: float):
    node = bench()
    operations = waits / latency_ms * 1000
    calm = Doing(io_stall=waits, read=4096 * operations, operations=operations)
    node.seconds(20, {"web": calm}, {"hog": IDLE})
    slow = replace(calm, io_stall=min(0.99, 4 * waits))
    if waits > 0.5:
        slow = replace(slow, operations=operations / 4, read=calm.read / 4)
    assert node.seconds(2, {"web": slow}, {"hog": DISK_HOG})


def test_a_little_time_lost_is_no_hurt():
    node = bench()
    node.seconds(20, {"web": FAST}, {"hog": IDLE})
    assert not node.seconds(20, {"web": replace(FAST, io_stall=0.04)}, {"hog": DISK_HOG})


SERVER = Doing(cpu=120, io_stall=0.019, read=250 * 16384.0, operations=250)
"""A server that computes for six times as long as it waits for the disk."""


@pytest.mark.parametrize(("stall", "expected"), [(0.046, False), (0.048, True), (0.067, True)])
def test_an_io_wait_is_compared_with_own_work(stall: float, *, expected: bool):
    node = bench()
    node.seconds(20, {"web": SERVER}, {"hog": IDLE})
    assert bool(node.seconds(2, {"web": replace(SERVER, io_stall=stall)}, {"hog": DISK_HOG})) is expected


@pytest.mark.parametrize(("stall", "expected"), [(0.068, False), (0.07, True)])
def test_busy_pod_bears_a_twentieth_of_its_time_for_io(stall: float, *, expected: bool):
    node = bench()
    busy = replace(SERVER, cpu=3000)
    node.seconds(20, {"web": busy}, {"hog": IDLE})
    assert bool(node.seconds(2, {"web": replace(busy, io_stall=stall)}, {"hog": DISK_HOG})) is expected


def test_usual_variation_is_no_hurt():
    node = bench()
    varied = [replace(SERVER, io_stall=stall) for stall in (0.0, 0.038)]
    for number in range(40):
        node.second({"web": varied[number % 2]}, {"hog": IDLE})
    assert not node.seconds(2, {"web": replace(SERVER, io_stall=0.08)}, {"hog": DISK_HOG})


def test_a_learned_pattern_is_judged_again():
    node = bench()
    node.seconds(20, {"web": READER}, {"batch": IDLE})
    node.seconds(60, {"web": LARGE}, {"batch": IDLE})
    slowed = replace(LARGE, io_stall=1.0, read=20.0 * MIB, operations=20)
    assert node.seconds(5, {"web": slowed}, {"batch": DISK_HOG})


@pytest.mark.parametrize("resource", CASES, ids=str)
def test_a_pod_that_begins_later_is_a_culprit(resource: Resource):
    calm, hurt, hog = CASES[resource]
    node = bench()
    node.seconds(20, {"web": calm}, {"quiet": IDLE})
    verdicts = node.seconds(3, {"web": hurt}, {"quiet": IDLE, "hog": hog})
    assert [one.pod_id for one in verdicts[0].evidence.culprits] == ["hog"]


def test_another_disk_is_no_evidence():
    node = bench()
    node.seconds(20, {"web": READER}, {"batch": IDLE})
    assert not node.seconds(10, {"web": SLOWED}, {"batch": replace(DISK_HOG, disk="8:16")})


def test_a_high_tolerance_bears_more():
    calm, worse = (
        replace(READER, read=12 * MIB, operations=3000),
        replace(READER, read=4.8 * MIB, operations=1200),
    )
    for tolerance, expected in ((Tolerance.LOW, True), (Tolerance.HIGH, False)):
        node = bench()
        node.tolerance = tolerance
        node.seconds(20, {"web": calm}, {"batch": IDLE})
        assert bool(node.seconds(5, {"web": worse}, {"batch": DISK_HOG})) is expected


def test_unknown_steal_makes_no_cpu_verdict():
    node = bench()
    node.seconds(20, {"web": Doing(cpu=300, cpu_stall=0.02)}, {"batch": IDLE})
    node.stolen = None
    assert not node.seconds(5, {"web": Doing(cpu=300, cpu_stall=0.6)}, {"batch": BUSY})


def test_equal_hogs_are_named_together():
    node = bench()
    hogs = [f"hog{n}" for n in range(5)]
    node.seconds(20, {"web": READER}, dict.fromkeys(hogs, IDLE))
    verdicts = node.seconds(2, {"web": SLOWED}, dict.fromkeys(hogs, DISK_HOG))
    assert [one.pod_id for one in verdicts[0].evidence.culprits] == hogs


def test_many_equal_hogs_are_culprits():
    node = bench()
    hogs = [f"hog{n:02}" for n in range(17)]
    node.seconds(20, {"web": READER}, dict.fromkeys(hogs, IDLE))
    (verdict,) = node.seconds(2, {"web": SLOWED}, dict.fromkeys(hogs, DISK_HOG))
    assert [one.pod_id for one in verdict.evidence.culprits] == hogs[:8]
    assert verdict.evidence.confidence > 0.9


def test_small_rises_lower_the_confidence():
    node = bench()
    small = [f"small{n:02}" for n in range(20)]
    node.seconds(20, {"web": READER}, dict.fromkeys(("hog", *small), IDLE))
    slight = replace(DISK_HOG, read=60 * MIB, operations=960)
    assert not node.seconds(5, {"web": SLOWED}, {"hog": DISK_HOG} | dict.fromkeys(small, slight))


def test_a_pod_that_ended_is_forgotten():
    node = bench()
    node.seconds(3, {"web": READER}, {"batch": IDLE})
    node.seconds(1, {}, {})
    assert node.watch == {}


def test_one_turn_searches_for_the_worst_hurt():
    node = bench()
    pods = [f"web{number}" for number in range(4)]
    node.seconds(20, dict.fromkeys(pods, READER), {"hog": IDLE})
    counts = {pod: 500 - 100 * at for at, pod in enumerate(pods)}
    worse = {pod: replace(SLOWED, read=4096.0 * count, operations=count) for pod, count in counts.items()}
    verdicts = node.seconds(2, worse, {"hog": DISK_HOG})
    assert [one.victim for one in verdicts] == ["web3", "web2"]


def test_turns_that_read_no_pod_count_as_unknown():
    felt = Felt(feeling=Feeling(calm=0b10, hurt=0b01))
    pod = Watched(rates=(UNUSED,) * 63, felt={Resource.IO: felt}, turn=5).at(7)
    assert pod.felt[Resource.IO].feeling == Feeling(calm=0b1000, hurt=0b0100)
    assert pod.rates == (None, None, *(UNUSED,) * 62)
    assert pod.at(500).felt[Resource.IO].feeling == Feeling()


def test_an_unread_pod_has_no_newest_use():
    node = bench()
    assert node.second({"web": READER}, {"hog": IDLE}).newest("hog") is not None
    judged = node.failed_turn("web", "hog")
    assert (judged.newest("hog"), judged.newest("gone")) == (None, None)


def test_a_pod_that_is_not_read_keeps_its_baseline():
    node = bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    known = node.watch["web"].felt[Resource.IO].baseline
    judged = node.failed_turn("web", "hog")
    assert judged.watch["web"].felt[Resource.IO].baseline == known
    assert not any(judged.hurt.values())
