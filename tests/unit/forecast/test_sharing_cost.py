"""forecast/sharing_cost.py: the rise of each counter is summed by group."""

import pytest

from nri_coloc.core.readings import GroupReading, IOReading, MemoryReading, SharingCost
from nri_coloc.forecast import sharing_cost

GROUPS = {"a": "shared", "b": "shared", "c": "reclaimed"}


def reading(key: int = 1, **counters) -> GroupReading:
    return GroupReading(key, 0.0, **counters)


def test_what_containers_bore_is_summed_by_group():
    before = {name: reading(throttled_us=10, cpu_stall_us=5, memory=MemoryReading(0)) for name in GROUPS}
    grown = reading(throttled_us=13, cpu_stall_us=9, memory=MemoryReading(0, oom_kills=1))
    assert sharing_cost.of_containers(before, dict.fromkeys(GROUPS, grown), GROUPS) == {
        "shared": SharingCost(throttled_us=6, waited_us=8, oom_kills=2),
        "reclaimed": SharingCost(throttled_us=3, waited_us=4, oom_kills=1),
    }


def test_what_pods_moved_and_bore_is_summed_by_group():
    before = {
        "a": reading(
            io=IOReading(1, 2, 3, 4),
            memory_stall_us=5,
            io_stall_us=6,
            memory=MemoryReading(0, high_events=7),
        )
    }
    after = {
        "a": reading(
            io=IOReading(11, 22, 33, 44),
            memory_stall_us=55,
            io_stall_us=66,
            memory=MemoryReading(0, high_events=77),
        )
    }
    (found,) = sharing_cost.of_pods(before, after, GROUPS).values()
    assert found == SharingCost(
        throttled_us=0,
        waited_us=0,
        oom_kills=0,
        read_bytes=10,
        written_bytes=20,
        reads=30,
        writes=40,
        memory_stalled_us=50,
        io_stalled_us=60,
        high_events=70,
    )


def test_without_psi_it_is_the_threads_delay_that_counts():
    found = sharing_cost.of_containers(
        {"a": reading(run_delay_us=3)}, {"a": reading(run_delay_us=10)}, GROUPS
    )
    assert found == {"shared": SharingCost(waited_us=7)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (reading(throttled_us=9, io=IOReading(9)), reading(throttled_us=3, io=IOReading(3))),
        (reading(), reading(throttled_us=3, io=IOReading(3))),
        (reading(throttled_us=3, io=IOReading(3)), reading()),
    ],
    ids=["it went back", "it was not known", "it is not known"],
)
def test_a_counter_that_tells_nothing_counts_nothing(before, after):
    for of in (sharing_cost.of_containers, sharing_cost.of_pods):
        assert of({"a": before}, {"a": after}, GROUPS) == {"shared": SharingCost()}


@pytest.mark.parametrize(
    ("before", "name"),
    [({"a": reading(key=2)}, "a"), ({}, "a"), ({"d": reading()}, "d")],
    ids=["made anew", "has just come", "of no group"],
)
def test_who_is_not_known_in_both_pictures_tells_nothing(before, name):
    for of in (sharing_cost.of_containers, sharing_cost.of_pods):
        assert of(before, {name: reading(throttled_us=3)}, GROUPS) == {}


def test_working_sets_are_summed_by_group():
    readings = {
        "a": reading(memory=MemoryReading(0, working_set=1)),
        "b": reading(memory=MemoryReading(0, working_set=2)),
        "c": reading(),
        "d": reading(memory=MemoryReading(0, working_set=4)),
    }
    assert sharing_cost.held(readings, GROUPS) == {"shared": 3}
