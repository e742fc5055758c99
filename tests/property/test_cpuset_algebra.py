"""Sets as integers obey the algebra of sets, and their text form loses nothing."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset

ids = st.sets(st.integers(0, cpuset.MAX_CPU_ID), max_size=64)
masks = ids.map(cpuset.of)


@given(ids)
def test_members_are_what_the_set_was_made_of_in_rising_order(numbers):
    assert list(cpuset.members(cpuset.of(numbers))) == sorted(numbers)


@given(masks)
def test_text_and_back_is_the_same_set(mask):
    assert cpuset.parse(cpuset.render(mask)) == mask


@given(masks)
def test_no_two_parts_of_the_text_touch(mask):
    parts = [tuple(map(int, part.split("-"))) for part in cpuset.render(mask).split(",") if part]
    assert all(left[-1] + 1 < right[0] for left, right in pairwise(parts))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 40)), max_size=12))
def test_any_order_and_overlap_of_ranges_is_their_union(ranges):
    text = ",".join(f"{first}-{first + length}" for first, length in ranges)
    union = {cpu for first, length in ranges for cpu in range(first, first + length + 1)}
    assert cpuset.parse(text) == cpuset.of(union)


@given(ids, ids)
def test_operators_of_integers_are_those_of_sets(left, right):
    a, b = cpuset.of(left), cpuset.of(right)
    assert set(cpuset.members(a | b)) == left | right
    assert set(cpuset.members(a & b)) == left & right
    assert set(cpuset.members(a & ~b)) == left - right
    assert (a & b == a) == (left <= right)
    assert a.bit_count() == len(left)


@given(masks, st.integers(-2, 70))
def test_the_lowest_members_are_a_prefix_of_all(mask, count):
    chosen = list(cpuset.members(cpuset.lowest(mask, count)))
    assert chosen == list(cpuset.members(mask))[: max(count, 0)]
