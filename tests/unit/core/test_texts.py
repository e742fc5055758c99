"""Texts for people: how they are shortened."""

from nri_coloc.core.texts import counted, cut


def test_a_cut_text_is_as_long_as_allowed():
    assert cut("a long text", 6) == "a lon…"


def test_a_text_that_fits_is_not_cut():
    assert cut("a text", 6) == "a text"


def test_one_thing_is_singular():
    assert [counted(number, "core") for number in (0, 1, 1.0, 1.5)] == [
        "0 cores",
        "1 core",
        "1 core",
        "1.5 cores",
    ]
