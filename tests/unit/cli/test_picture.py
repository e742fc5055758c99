"""cli/picture.py: CPUs are readable without colours, on narrow terminals and on large machines."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from nri_coloc.cli.picture import NodePicture
from tests.unit.service.test_overview import JOB, WEB, container, state

BIG = state(WEB, JOB, share="2-255", reclaim="4-7") | {
    "node": {"cpus": "0-255", "numa": [{"id": 0, "cpus": "0-127"}, {"id": 1, "cpus": "128-255"}]}
}


def screen(shown: dict[str, Any], width: int = 100, **options: object) -> str:
    out = io.StringIO()
    Console(file=out, width=width, **options).print(NodePicture().drawn(shown, []))  # type: ignore[arg-type]  # options of rich, by name
    return out.getvalue()


def test_signs_tell_online_from_lent_without_colours():
    shown = screen(state(WEB, JOB))
    assert "0a   1a   2.   3.   4~   5~   6~   7~" in shown
    assert "~  online pods, lent to reclaimed pods: CPUs 4-7" in shown


def test_online_and_lent_cpus_have_different_colours():
    drawn = screen(state(WEB, JOB), force_terminal=True, color_system="256")
    colours = dict(re.findall(r"48;5;(\d+)m +[34]([.~])", drawn))
    assert sorted(colours.values()) == [".", "~"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_of_cpus_is_broken(width):
    cells = re.findall(r"\d+[a.~]", screen(BIG, width))
    assert len(cells) == 256


def test_a_container_that_needs_a_look_says_so():
    late = container("late", "dedicated", "share")
    assert "2-7, none of its own" in screen(state(late))


def test_an_observer_sees_what_would_be():
    assert "CPUs as they would be" in screen(state(WEB, mode="observe"))
