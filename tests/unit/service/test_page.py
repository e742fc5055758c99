"""service/page.py: self-contained, and safe with hostile names."""

import re

import pytest

from nri_coloc.cli.picture import KINDS
from nri_coloc.service import page

TEXT = page.PAGE.decode()


def test_nothing_is_fetched_from_elsewhere():
    assert re.findall(r"https?:|//[a-z]+\.|@import|url\(", TEXT) == []
    assert set(re.findall(r'(?:src|href)="([^"]*)"', TEXT)) == {"data:,"}


@pytest.mark.parametrize("way", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("])
def test_no_text_is_ever_parsed_as_markup(way):
    assert way not in TEXT


def test_it_asks_for_its_words_and_the_audit():
    asked = set(re.findall(r"/v1/\w+|/page\.json", page._SCRIPT))
    assert asked == {"/page.json", "/v1/audit"}


def test_every_kind_of_owner_has_a_colour():
    assert all(f".{kind} " in page._STYLE or f".{kind}," in page._STYLE for kind in [*KINDS, "dedicated"])


def test_lent_cpus_have_a_pattern():
    assert ".lent, .reclaim { background: repeating-linear-gradient" in page._STYLE


def test_it_has_a_light_and_a_dark_face():
    assert "color-scheme: light dark" in TEXT
    assert "@media (prefers-color-scheme: dark)" in TEXT


def test_every_element_that_the_script_looks_for_exists():
    asked = set(re.findall(r'(?:byId|list)\("(\w+)"', page._SCRIPT))
    assert asked == set(re.findall(r'id="(\w+)"', page._BODY))
