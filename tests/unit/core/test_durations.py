"""core/durations.py: durations with units, bounded."""

import pytest

from nri_coloc.core.durations import LONGEST_S, seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", 0), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("24h", LONGEST_S), ("0s", 0), ("23h60m", 86400)],
)
def test_a_duration_has_units(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "10", "-1m", "1.5h", "10 m", "m", "30s1m", "1d", "٣m", "10M"])
def test_another_text_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration with units"):
        seconds(text)


@pytest.mark.parametrize("text", ["24h1s", "99999h", "1441m"])
def test_a_day_is_the_longest(text):
    with pytest.raises(ValueError, match="is longer than 24h"):
        seconds(text)
