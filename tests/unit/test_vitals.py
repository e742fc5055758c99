"""The soak's own instruments: a rise is seen, noise is none."""

import os
import random

import pytest

from tests.rig import vitals


def test_a_steady_rise_is_told_in_full():
    assert vitals.growth([0, 1, 2, 3], [10, 12, 14, 16]) == pytest.approx(6)


def test_what_is_flat_but_for_two_bad_moments_does_not_rise():
    assert vitals.growth(range(20), [5.0] * 9 + [90.0] + [5.0] * 9 + [400.0]) == 0


def test_a_leak_is_seen_through_noise():
    dice = random.Random(1)
    values = [at * 0.5 + dice.uniform(-5, 5) for at in range(80)]
    assert 30 < vitals.growth(range(80), values) < 50


def test_one_point_is_no_line():
    with pytest.raises(ValueError, match="two points"):
        vitals.growth([1.0], [1.0])


def test_a_process_has_memory_a_descriptor_and_a_thread():
    with open(os.devnull) as file:  # noqa: PTH123 - an open descriptor is what is wanted
        before = vitals.look(os.getpid())
        assert file.fileno() >= 0
    after = vitals.look(os.getpid())
    assert before.pss_kib > before.anon_kib > 1000
    assert before.threads >= 1
    assert before.descriptors == after.descriptors + 1
