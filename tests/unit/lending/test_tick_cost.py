"""The CPU time of the last tick is the cost of a growth; the mean of the latest ticks sets the pace."""

import pytest

from nri_coloc.lending.measured_groups import COST_OF_LATE, TickCost


class Ticks:
    """A thread whose CPU time the test sets."""

    def __init__(self) -> None:
        self.spent = 7.0
        self.cost = TickCost(lambda: self.spent)
        self.cost.begin()

    def take(self, seconds: float, ticks: int = 1):
        self.spent += seconds
        return self.cost.taken(ticks)


def test_what_was_spent_before_the_first_tick_is_nobodys():
    assert Ticks().take(0.002) == pytest.approx((0.002, 0.002))


def test_one_dear_tick_counts_with_all_others_of_late():
    ticks = Ticks()
    for _ in range(COST_OF_LATE - 1):
        ticks.take(0.0001)
    assert ticks.take(0.0049) == pytest.approx((0.0049, 0.0004))


def test_an_expensive_tick_leaves_the_mean_after_its_span():
    ticks = Ticks()
    ticks.take(1.0)
    after = [ticks.take(0.0001).mean_took_s for _ in range(COST_OF_LATE)]
    assert after[-2:] == pytest.approx([(1.0 + 15 * 0.0001) / 16, 0.0001])


def test_several_ticks_share_one_cost_in_the_mean():
    ticks = Ticks()
    ticks.take(0.001)
    assert ticks.take(0.0009, ticks=3) == pytest.approx((0.0003, (0.001 + 3 * 0.0003) / 4))


def test_no_more_quiet_ticks_count_than_the_mean_holds():
    ticks = Ticks()
    ticks.take(1.0)
    assert ticks.take(0.01, ticks=100).mean_took_s == pytest.approx(0.0001)
