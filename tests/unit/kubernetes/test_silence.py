"""A node whose reports stop is closed, and later reports its floor alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.kubernetes import requests, silence
from nri_coloc.kubernetes.presets import Amounts, Shown
from nri_coloc.kubernetes.requests import Demand, Floor
from nri_coloc.kubernetes.silence import Correction, Heard, Lists

OPEN = Shown(Amounts(8000, 64), 110)
CLOSED = Shown(Amounts(8000, 64), None)
FLOOR = Floor(bound=Amounts(3000, 70))


def test_a_new_text_is_a_new_report():
    assert silence.hear(Heard("10:00", 5.0), "10:01", 65.0) == Heard("10:01", 65.0)


def test_the_same_text_grows_old():
    assert silence.hear(Heard("10:00", 5.0), "10:00", 65.0) == Heard("10:00", 5.0)


def test_a_node_with_a_wrong_clock_is_heard():
    assert silence.hear(Heard("2026", 5.0), "1970", 65.0).since_s == 65.0


LISTED = Lists(100.0, 1000.0, {"u1": Heard("10:00", 70.0)})


@pytest.mark.parametrize(
    ("now_s", "expected"),
    [
        (1030.0, LISTED._replace(clock_s=130.0, last_s=1030.0)),
        (1180.0, LISTED._replace(clock_s=130.0, last_s=1180.0)),
        (1180.1, Lists(130.0, 1180.1)),
        (990.0, LISTED._replace(last_s=990.0)),
    ],
    ids=["in time", "after failed lists", "after an outage", "a clock that went back"],
)
def test_a_list_counts_for_thirty_seconds(now_s, expected):
    assert silence.begin(LISTED, now_s) == expected


def test_the_first_list_begins_at_zero():
    assert silence.begin(Lists(), 1000.0) == Lists(0.0, 1000.0)


@pytest.mark.parametrize(
    ("silent_s", "shown", "expected"),
    [
        (179.9, OPEN, None),
        (180.0, OPEN, Correction(None, 180.0)),
        (180.0, CLOSED, None),
        (180.0, Shown(None, 0), Correction(None, 180.0)),
        (899.9, CLOSED, None),
        (900.0, CLOSED, Correction(Amounts(3000, 64), 900.0)),
        (900.0, OPEN, Correction(Amounts(3000, 64), 900.0)),
        (900.0, Shown(Amounts(3000, 64), None), None),
        (900.0, Shown(), None),
    ],
    ids=[
        "reporting", "silent for 3 min", "closed already", "a zero gate", "silent for 15 min almost",
        "silent for 15 min", "15 min and open", "at the floor already", "a node without our resources",
    ],
)  # fmt: skip
def test_silence_closes_and_then_lowers(silent_s, shown, expected):
    assert silence.correction(silent_s, shown, FLOOR) == expected


@pytest.mark.parametrize(
    "demand", [Demand(Amounts(2**63 - 1, 0)), Demand(is_readable=False)], ids=["large", "unreadable"]
)
def test_one_large_pod_keeps_no_amounts(demand):
    floor = requests.floor([demand])
    assert silence.correction(900.0, OPEN, floor) == Correction(Amounts(), 900.0)


AMOUNTS = st.builds(Amounts, st.integers(0, 9), st.integers(0, 9))


@given(st.floats(0, 2000), st.builds(Shown, st.none() | AMOUNTS, st.none() | st.integers(0, 9)), AMOUNTS)
def test_a_correction_settles_at_once(silent_s, shown, bound):
    floor = Floor(bound=bound)
    found = silence.correction(silent_s, shown, floor)
    if found is not None:
        assert silence.correction(silent_s, Shown(found.amounts or shown.amounts, found.gate), floor) is None


@given(st.floats(900, 2000), AMOUNTS, AMOUNTS)
def test_an_amount_never_rises_nor_passes_its_floor(silent_s, amounts, bound):
    found = silence.correction(silent_s, Shown(amounts, 1), Floor(bound=bound))
    lowered = amounts if found is None or found.amounts is None else found.amounts
    assert all(new == min(old, low) for old, low, new in zip(amounts, bound, lowered, strict=True))
