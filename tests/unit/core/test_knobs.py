"""core/knobs.py: values are recorded under the names of the audit."""

import pytest

from nri_coloc.core.knobs import AUDIT_NAMES, NO_KNOBS, Knobs, burst_of


def test_the_audits_names_are_the_contracts_in_its_order():
    names = "cpus mems shares quota period burst memory.limit memory.high memory.low memory.min oom_score_adj"
    rest = "io.weight blockio_class rdt_class io.max"
    assert [name for _, name in AUDIT_NAMES] == f"{names} {rest}".split()


def test_only_knobs_that_are_set_are_named():
    assert Knobs(shares=2, cpus="0-1", memory_high=5).named() == {
        "cpus": "0-1",
        "shares": 2,
        "memory.high": 5,
    }


def test_nothing_set_is_nothing_named():
    assert NO_KNOBS.named() == {}


def test_zero_and_the_empty_text_are_values():
    assert Knobs(cpus="", quota=0, oom_score_adj=0).named() == {"cpus": "", "quota": 0, "oom_score_adj": 0}


def test_what_is_set_elsewhere_can_be_left_out():
    assert Knobs(shares=2, quota=5).without(Knobs(quota=0, cpus="0")) == Knobs(shares=2)


class TestComparing:
    HAVE = Knobs(cpus="0-1", shares=2, quota=5)

    def test_differing_values_are_set_here_and_different_there(self):
        wanted = Knobs(cpus="0-1", shares=3, mems="0")
        assert wanted.differing(self.HAVE) == Knobs(shares=3, mems="0")

    def test_nothing_differs_from_itself(self):
        assert self.HAVE.differing(self.HAVE) == NO_KNOBS

    def test_where_set_keeps_our_values_of_the_others_names(self):
        assert self.HAVE.where_set(Knobs(shares=9, mems="0")) == Knobs(shares=2)

    def test_zero_counts_as_set(self):
        assert self.HAVE.where_set(Knobs(quota=0)) == Knobs(quota=5)

    def test_an_overlay_wins_where_it_says_something(self):
        over = Knobs(shares=0, mems="1")
        assert self.HAVE.overlaid(over) == Knobs(cpus="0-1", shares=0, quota=5, mems="1")

    def test_an_empty_overlay_changes_nothing(self):
        assert self.HAVE.overlaid(NO_KNOBS) == self.HAVE


@pytest.mark.parametrize(
    ("quota", "percent", "burst"),
    [
        (100_000, 50, 50_000),
        (100_000, 100, 100_000),
        (100_000, 1000, 100_000),
        (100_000, 0, 0),
        (100_000, -5, 0),
        (100_000, None, None),
        (99, 50, 49),
        (-1, 100, None),
        (0, 100, None),
        (None, 100, None),
    ],
)
def test_a_burst_is_a_part_of_the_quota_and_never_more(quota, percent, burst):
    assert burst_of(quota, percent) == burst
