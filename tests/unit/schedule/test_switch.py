"""schedule/switch.py: orders of an operator, and the file that keeps them over a restart and a reboot."""

import json

import pytest

from nri_coloc.schedule.lending import at
from nri_coloc.schedule.switch import MOST_CHARACTERS, ON, Clocks, Switch, parsed, switched_off, text_of
from tests.unit.schedule.kit import NIGHT, in_berlin

NIGHTLY_S = in_berlin("2026-11-26T23:00").timestamp()
MINUTE_S = 60.0
BEFORE = Clocks("one", 1000.0, NIGHTLY_S)
ORDER = switched_off(ON, BEFORE.boot_s, 600, drain=True)
TEXT = text_of(ORDER, BEFORE)


def off(before: Switch, now_s: float, grace_s: float = 0, *, drain: bool = False) -> Switch:
    return switched_off(before, now_s, grace_s, drain=drain)


# --- orders ------------------------------------------------------------------------------------------------


def test_the_same_order_keeps_its_time():
    order = off(ON, 1000, 600, drain=True)
    assert off(order, 1300, 600, drain=True) is order


def test_another_grace_counts_from_its_own_order():
    order = off(off(ON, 1000, 600), 1300, 900)
    assert (order.ends_s, order.drains_s) == (2200, 2200)


def test_a_grace_can_be_cut_short():
    assert off(off(ON, 1000, 600), 1300, 0).ends_s == 1300


def test_a_drain_does_not_lend_again_for_its_grace():
    order = off(off(ON, NIGHTLY_S), NIGHTLY_S + MINUTE_S, 600, drain=True)
    found = at(NIGHT, NIGHTLY_S + 2 * MINUTE_S, order)
    assert (found.factor, found.drains) == (0, False)
    assert found.until_s == NIGHTLY_S + 11 * MINUTE_S
    assert at(NIGHT, found.until_s, order).drains


def test_lending_that_ends_now_has_ended():
    assert off(off(ON, 1000, 600), 1600, 900).ends_s == 1600


def test_off_ends_a_drain():
    order = off(off(ON, NIGHTLY_S, drain=True), NIGHTLY_S + 1)
    assert not at(NIGHT, NIGHTLY_S + 2, order).drains


# --- the file ----------------------------------------------------------------------------------------------


def test_a_restart_keeps_the_order():
    later = Clocks("one", 1100.0, NIGHTLY_S + 100)
    assert parsed(TEXT, later) == ORDER


def test_a_clock_that_was_set_changes_no_grace():
    assert parsed(TEXT, Clocks("one", 1100.0, NIGHTLY_S + 86400)) == ORDER


def test_a_reboot_counts_the_grace_by_the_wall_clock():
    found = parsed(TEXT, Clocks("two", 20.0, NIGHTLY_S + 120))
    assert (found.at_s, found.ends_s, found.drains_s) == (-100, 500, 500)


def test_an_order_of_the_future_counts_as_new():
    found = parsed(TEXT, Clocks("two", 20.0, NIGHTLY_S - 86400))
    assert (found.at_s, found.ends_s) == (20, 620)


def test_an_unknown_boot_is_another_boot():
    text = text_of(ORDER, BEFORE._replace(boot=""))
    assert parsed(text, Clocks("", 20.0, NIGHTLY_S + 120)).ends_s == 500


@pytest.mark.parametrize(("boot", "kept", "ahead_s"), [("one", "one", 7), ("two", "one", 80), ("", "", 80)])
def test_a_kept_time_follows_its_own_boot(boot, kept, ahead_s):
    assert Clocks(boot, 20.0, 100.0).ahead_of(kept, 7) == ahead_s


def test_on_has_no_times():
    assert parsed(text_of(ON, BEFORE), BEFORE) == ON


FIELDS = json.loads(TEXT)
ODD = {
    "empty": "",
    "cut off": TEXT[:40],
    "a list": "[]",
    "another version": json.dumps(FIELDS | {"version": 2}),
    "no number": json.dumps(FIELDS | {"at_s": "soon"}),
    "a truth as a number": json.dumps(FIELDS | {"at_s": True}),
    "not a number": json.dumps(FIELDS | {"at_s": float("nan")}),
    "infinite": json.dumps(FIELDS | {"ends_s": float("-inf")}),
    "huge": json.dumps(FIELDS | {"at_s": 10**400}),
    "no flag": json.dumps(FIELDS | {"drain": 1}),
    "a long grace": json.dumps(FIELDS | {"grace_s": 86401}),
    "a late end": json.dumps(FIELDS | {"ends_s": FIELDS["ends_s"] + 1}),
    "too long": TEXT + " " * MOST_CHARACTERS,
    "deep": "[" * 4000,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match=r"^(is|has) "):
        parsed(text, BEFORE)
