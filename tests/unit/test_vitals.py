"""The soak's own instruments find a rise, and ignore noise."""

import random
import subprocess
import sys

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
    program = [sys.executable, "-c", "print('there', flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        found = vitals.look(child.pid)
        child.communicate("go\n", timeout=60)
    assert found.pss_kib > found.anon_kib > 1000
    assert (found.threads, found.descriptors) == (1, 3)
