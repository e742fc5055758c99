"""pressure.starvation: reclaimed pods that wait for CPU for minutes."""

import pytest

from nri_coloc.pressure import starvation
from nri_coloc.pressure.starvation import Streak, Want

STARVED_AFTER, MOVED_AFTER, SUPPRESSED_AFTER = 3, 5, 10
"""Snapshots a minute apart."""

WITHOUT = Want(waited=0.97, used_milli=4, granted_milli=2000, seconds=60.0)
BUSY = WITHOUT._replace(used_milli=1900)
IDLE = WITHOUT._replace(waited=0.0, used_milli=0)


def after(*wants, headroom_milli=8000):
    """Return the streak of a pod after some snapshots."""
    found: dict[str, Streak] = {}
    for want in wants:
        found = starvation.turn(found, {"a": want}, headroom_milli)
    return found["a"]


def test_a_pod_without_cpu_is_starved():
    assert not after(*[WITHOUT] * (STARVED_AFTER - 1)).is_starved
    found = after(*[WITHOUT] * STARVED_AFTER)
    assert found.is_starved
    assert found.starved_s == 180


@pytest.mark.parametrize("want", [BUSY, IDLE], ids=["busy", "idle"])
def test_a_pod_that_lacks_nothing_is_not_starved(want):
    assert not any(after(*[want] * count).is_starved for count in range(1, 12))


def test_a_moved_pod_was_starved_before():
    assert not after(*[WITHOUT] * (MOVED_AFTER - 1)).is_moved
    assert after(*[WITHOUT] * MOVED_AFTER).is_moved
    assert any(after(*[WITHOUT] * count).is_starved for count in range(1, MOVED_AFTER))


@pytest.mark.parametrize("seconds", [59.0, 180.0, 360.0])
def test_time_counts_not_the_number_of_snapshots(seconds):
    wants = [WITHOUT._replace(seconds=seconds)] * 9
    counted = next(count for count in range(1, 9) if after(*wants[:count]).is_starved)
    assert counted == max(1, round(180 / seconds))


@pytest.mark.parametrize(
    "want",
    [
        WITHOUT._replace(waited=0.49),
        WITHOUT._replace(used_milli=160),
        WITHOUT._replace(used_milli=160, waited=1.0),
    ],
    ids=["waits less than half", "a twelfth of its CPU", "a twelfth, and waits always"],
)
def test_a_pod_without_an_event_is_not_moved(want):
    assert not after(*[want] * 20).is_moved


def test_one_good_minute_ends_a_streak():
    assert not after(WITHOUT, WITHOUT, BUSY, WITHOUT).is_starved


def test_a_lasting_streak_counts_again():
    counted = [count for count in range(1, 10) if after(*[WITHOUT] * count).is_starved]
    assert counted == [3, 6, 9]


@pytest.mark.parametrize(
    ("used", "granted", "starved"), [(9, 0, True), (10, 0, False), (99, 2000, True), (100, 2000, False)]
)
def test_the_bound_follows_the_grant(used, granted, starved):
    want = WITHOUT._replace(used_milli=used, granted_milli=granted)
    assert after(*[want] * STARVED_AFTER).is_starved is starved


def test_little_headroom_for_long_suppresses():
    assert not after(*[BUSY] * (SUPPRESSED_AFTER - 1), headroom_milli=400).is_suppressed
    assert after(*[BUSY] * SUPPRESSED_AFTER, headroom_milli=400).is_suppressed


@pytest.mark.parametrize("headroom", [1000, None], ids=["enough to lend", "lending is off"])
def test_without_low_headroom_nothing_is_suppressed(headroom):
    assert not after(*[BUSY] * SUPPRESSED_AFTER, headroom_milli=headroom).is_suppressed


def test_a_pod_that_does_not_wait_is_not_suppressed():
    assert not after(*[IDLE] * SUPPRESSED_AFTER, headroom_milli=0).is_suppressed


def test_one_snapshot_shows_a_starved_and_suppressed_pod():
    found = after(BUSY, *[WITHOUT] * (SUPPRESSED_AFTER - 1), headroom_milli=400)
    assert found.is_starved
    assert found.is_suppressed


def test_a_pod_that_is_gone_is_forgotten():
    found = starvation.turn({}, {"a": WITHOUT}, 0)
    assert starvation.turn(found, {}, 0) == {}
