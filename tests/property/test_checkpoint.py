"""A forecast is read whole or not at all, with any damage to its text."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import checkpoint, expectations
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.forecast.use import Use

TUNING = ReclaimTuning()
USES = st.builds(
    Use, st.sampled_from(("a/x", "b/y", "c/\ud800ü")), st.integers(0, 1 << 20), st.integers(0, 1 << 40)
)
LIVES = st.lists(st.tuples(st.floats(0, 1e6), USES), max_size=8)


def lived(life: list[tuple[float, Use]]) -> Forecast:
    seen, now_s = Forecast(), 1.7e9
    for gap_s, use in life:
        now_s += gap_s
        seen = expectations.observe(seen, {"p": use}, now_s, TUNING)
    return seen


@given(LIVES)
def test_what_was_written_is_read_and_written_again_the_same(life):
    text = checkpoint.write(lived(life), 1.7e9)
    again = checkpoint.read(text, 1.7e9, TUNING).forecast
    assert again is not None
    assert checkpoint.write(again, 1.7e9) == text


@given(LIVES, st.integers(0), st.characters())
def test_one_changed_character_is_noticed(life, at, character):
    text = checkpoint.write(lived(life), 1.7e9)
    at %= len(text)
    changed = text[:at] + character + text[at + 1 :]
    if changed != text:
        assert checkpoint.read(changed, 1.7e9, TUNING).forecast is None


@given(LIVES, st.integers(0))
def test_a_text_that_ends_early_is_noticed(life, at):
    text = checkpoint.write(lived(life), 1.7e9)
    assert checkpoint.read(text[: at % len(text)], 1.7e9, TUNING).forecast is None


@given(st.text())
def test_any_text_is_an_answer_and_no_error(text):
    assert checkpoint.read(text, 0.0, TUNING).forecast is None
