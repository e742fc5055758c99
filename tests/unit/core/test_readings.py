"""core/readings.py: an unknown value differs from a measured zero."""

from dataclasses import fields, replace

from nri_coloc.core.readings import (
    GroupReading,
    MemoryReading,
    NodeReading,
    Picture,
    Role,
    Sample,
    milli_between,
    together,
)


def test_a_sample_without_figures_has_none_and_no_zero():
    sample = Sample(1, Role.BOX, 2.0)
    assert (sample.usage_us, sample.stalled_us, sample.throttled_us) == (None, None, None)


def test_every_part_of_a_groups_reading_can_be_missing():
    reading = GroupReading(1, 2.0)
    assert {getattr(reading, part.name) for part in fields(reading)} == {1, 2.0, None}


def test_a_picture_of_nobody_has_nobody_and_no_memory_to_lend():
    picture = Picture(1.0, NodeReading(1.0))
    assert (picture.kubepods, picture.pods, picture.containers, picture.host_groups) == (None, {}, {}, {})
    assert (picture.node.memory_total, picture.node.memory_free, picture.node.usage_us) == (0, 0, None)


def test_limits_of_several_cgroups_are_added():
    one = GroupReading(1, 2.0, usage_us=5, memory=MemoryReading(7, working_set=6, limit=10))
    other = GroupReading(2, 2.5, usage_us=50, memory=MemoryReading(70, working_set=60, limit=100))
    both = together((one, other))
    assert both is not None
    assert (both.usage_us, both.memory) == (55, MemoryReading(77, working_set=66, limit=110))
    unlimited = replace(other, memory=MemoryReading(70))
    assert together((one, unlimited)) == replace(both, memory=MemoryReading(77, working_set=6))
    assert milli_between(one, replace(both, at=3.0)) is None


def test_several_cgroups_with_an_unknown_one_are_unknown():
    one = GroupReading(1, 2.0, usage_us=5, memory=MemoryReading(7))
    both = together((one, GroupReading(2, 2.0)))
    assert both is not None
    assert (both.usage_us, both.memory) == (None, None)


def test_one_cgroup_is_its_own_reading():
    one = GroupReading(1, 2.0, throttled_us=3)
    assert together((one,)) is one
    assert together(()) is None
