"""core/readings.py: an unknown value differs from a measured zero."""

from dataclasses import fields

from nri_coloc.core.readings import GroupReading, NodeReading, Picture, Role, Sample


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
