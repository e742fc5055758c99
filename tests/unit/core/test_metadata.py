"""core/workload.py: the texts of pods take little memory."""

import sys

import pytest

from nri_coloc.core.workload import KnownKeys, Texts

EMOJI = "\N{GRINNING FACE}"
TEXTS = Texts({"a": b"1", "b": EMOJI.encode()})


def test_texts_read_as_a_mapping():
    assert dict(TEXTS) == {"a": "1", "b": EMOJI}
    assert ("a" in TEXTS, "c" in TEXTS, TEXTS.get("c"), len(TEXTS)) == (True, False, None, 2)


def test_texts_are_equal_by_content():
    assert Texts({"a": b"1", "b": EMOJI.encode()}) == TEXTS
    assert dict(TEXTS) == TEXTS
    assert Texts({}) != TEXTS
    assert TEXTS != "a"


def test_bytes_that_are_no_text_read_as_signs():
    assert Texts({"a": b"\xff"})["a"] == "\ufffd"


@pytest.mark.parametrize("sign", ["x", EMOJI])
def test_a_character_takes_a_byte_beside_any_other(sign):
    text = "x" * 10_000 + sign
    kept = Texts({"a": text.encode()})
    assert sum(map(sys.getsizeof, kept._encoded.values())) < 10_100


def test_names_of_two_are_known_together():
    one = KnownKeys(frozenset({"a"}), frozenset({"l"}), frozenset({("a", "1")}))
    other = KnownKeys(frozenset({"b"}), frozenset({"l", "m"}), frozenset({("a", "2")}))
    both = KnownKeys(frozenset({"a", "b"}), frozenset({"l", "m"}), frozenset({("a", "1"), ("a", "2")}))
    assert one.with_also(other) == both
    assert one.with_also(one) == one
