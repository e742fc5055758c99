"""cli/asking.py: texts of pods and operators are made safe for a terminal."""

import pytest

from nri_coloc.core.texts import plain


@pytest.mark.parametrize("space", ["\n", "\t", "\r\n"], ids=ascii)
def test_white_space_becomes_one_space(space):
    assert plain(f"line 1: mode{space}line 2: strict") == "line 1: mode line 2: strict"


@pytest.mark.parametrize("sign", ["\x1b", "\x07", "\u202e"], ids=ascii)
def test_control_characters_become_question_marks(sign):
    assert plain(f"a{sign}b") == "a?b"
