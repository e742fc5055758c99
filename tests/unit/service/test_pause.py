"""A pause has a sentence and an end, and changes the settings while it lasts."""

from nri_coloc.core.settings import Tuning
from nri_coloc.service.retuning import Pause

NOON_NS = 1_763_640_000 * 1_000_000_000
UNTIL = "2025-11-20T12:10:00.000000Z"


def test_it_says_until_when_and_why():
    pause = Pause()
    assert pause.begin(100.0, NOON_NS, 600, "load test") == UNTIL
    assert pause.words == f"lending is paused until {UNTIL}: load test"


def test_without_a_reason_it_says_until_when():
    pause = Pause()
    pause.begin(100.0, NOON_NS, 600, "")
    assert pause.words == f"lending is paused until {UNTIL}"


def test_it_is_over_after_its_time_and_not_before():
    pause = Pause()
    pause.begin(100.0, NOON_NS, 600, "")
    assert [pause.is_over(now) for now in (100.0, 699.9, 700.0)] == [False, False, True]


def test_another_pause_takes_its_place():
    pause = Pause()
    pause.begin(100.0, NOON_NS, 600, "")
    pause.begin(650.0, NOON_NS, 100, "once more")
    assert not pause.is_over(749.0)
    assert pause.words.endswith(": once more")


def test_its_end_is_the_end():
    pause = Pause()
    pause.begin(100.0, NOON_NS, 600, "")
    assert (pause.end(), pause.end()) == (True, False)
    assert not pause.is_over(1000.0)


def test_it_lies_over_the_settings_while_it_lasts():
    pause, settings = Pause(), Tuning(strict=True)
    assert pause.over(settings) is settings
    pause.begin(100.0, NOON_NS, 600, "")
    found = pause.over(settings)
    assert (found.reclaim.paused, found.strict) == (pause.words, True)
