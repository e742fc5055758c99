"""admin/page.py: self-contained, and safe with hostile names."""

import re

import pytest

from nri_coloc.admin import page

TEXT = page.PAGE.decode()


def test_nothing_is_fetched_from_elsewhere():
    assert re.findall(r"https?:|//[a-z]+\.|@import|url\(", TEXT) == []
    assert set(re.findall(r'(?:src|href)="([^"]*)"', TEXT)) == {"data:,"}


@pytest.mark.parametrize("way", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("])
def test_no_text_is_ever_parsed_as_markup(way):
    assert way not in TEXT


def test_it_asks_the_state_and_the_audit():
    assert set(re.findall(r"/v1/\w+", page._SCRIPT)) == {"/v1/state", "/v1/audit"}


def test_it_has_a_light_and_a_dark_face():
    assert "color-scheme: light dark" in TEXT
    assert "@media (prefers-color-scheme: dark)" in TEXT


def test_every_element_that_the_script_looks_for_exists():
    assert set(re.findall(r'byId\("(\w+)"\)', page._SCRIPT)) <= set(re.findall(r'id="(\w+)"', page._BODY))
