"""service/http_loop.py: HTTP may use a part of a core on average, and a burst at once."""

from nri_coloc.service.http_loop import Allowance


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_needs_no_pause():
    allowance = Allowance(0.1, 1.0, Clock())
    assert [allowance.pause_after(0.5), allowance.pause_after(0.5)] == [0.0, 0.0]


def test_beyond_the_burst_the_share_holds():
    clock = Clock()
    allowance = Allowance(0.25, 0.1, clock)
    spent = 0.0
    for _ in range(1000):
        clock.now += 0.01 + allowance.pause_after(0.01)
        spent += 0.01
    assert 0.24 <= spent / clock.now <= 0.26


def test_a_quiet_time_earns_no_more_than_the_burst():
    clock = Clock()
    allowance = Allowance(0.5, 1.0, clock)
    clock.now = 1000.0
    assert allowance.pause_after(1.5) == 1.0


def test_at_most_one_burst_is_owed():
    allowance = Allowance(0.5, 1.0, Clock())
    assert allowance.pause_after(100.0) == 2.0
