"""core/lending.py: before the first measurement nothing is lent, and the targets change nothing."""

import re

import pytest

from nri_coloc.core.lending import Binding, Capacity, Change, CPUTarget, Headroom, MemoryTarget


@pytest.mark.parametrize("amount", [Headroom(), Capacity()], ids=["headroom", "capacity"])
def test_nothing_is_lent_before_it_is_measured(amount):
    assert (amount.cpu_milli, amount.memory_bytes) == (0, 0)
    assert amount.binding is Binding.NOT_MEASURED


def test_a_target_changes_nothing_unless_it_says_so():
    assert CPUTarget(4).change is Change.KEEP


def test_a_memory_target_limits_nothing_unless_it_says_so():
    target = MemoryTarget()
    assert (target.high, target.limit) == (None, None)


def test_a_binding_is_a_code_that_can_be_told_to_others():
    assert all(re.fullmatch("[a-z_]+", binding.value) for binding in Binding)
