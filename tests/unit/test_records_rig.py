"""The rig finds records of the audit that are too long, or without the figures of their decision."""

import pytest

from tests.rig.records import broken, lines, mistakes, sentence_of, unknown_figures

GOOD = {"event": "container.admit", "reason": "threads", "because": "x" * 160, "inputs": {"n": 2}}


def test_a_good_record_is_none_of_them():
    assert list(broken([GOOD])) == []


def test_a_long_sentence_is_found():
    (found,) = broken([GOOD | {"because": "x" * 161}])
    assert "a sentence of 161 characters" in found


def test_a_decision_without_figures_is_found():
    (found,) = broken([GOOD | {"inputs": {}}])
    assert "no inputs" in found


def test_other_events_need_no_figures():
    assert list(broken([{"event": "daemon.start", "reason": "started", "because": "it started"}])) == []


def test_a_line_that_is_not_whole_is_left_out():
    assert list(lines(b'{"seq": 1}\n{"se{"seq": 2}\n{"seq": 3}\n{"se')) == [{"seq": 1}, {"seq": 3}]


def test_details_are_the_whole_sentence():
    assert sentence_of(GOOD | {"inputs": {"details": "all of it"}}) == "all of it"


FIGURES = {
    "request_milli": 1500,
    "wait": 0.3142,
    "limit": 10 << 20,
    "available_bytes": None,
    "scope": "node",
    "drain": True,
    "pods": 3,
}


@pytest.mark.parametrize(
    "shown",
    [
        *("request=1.5 cores", "wait=31.42 %", "limit=10.0 MiB/s", "available=unknown", "scope=node"),
        *("drain=True", "scope=node, pods=3"),
    ],
)
def test_a_known_figure_is_found(shown: str):
    assert list(unknown_figures(f"lowered: it waits ({shown})", FIGURES)) == []


@pytest.mark.parametrize(
    "shown",
    [
        *(
            "request=2 cores",
            "wait=30 %",
            "limit=11.0 MiB/s",
            "scope=images",
            "pods=three",
            "pods=3 readings",
        ),
        *("line=5 %", "space=12.5%", "available=1 GiB"),
    ],
)
def test_a_figure_that_inputs_lack_is_reported(shown: str):
    (found,) = unknown_figures(f"lowered: it waits (scope=node, {shown})", FIGURES)
    assert found.startswith(f"{shown!r} is not in the inputs")


def test_brackets_of_a_clause_hold_no_figures():
    assert list(unknown_figures("order (drain=yes): done", {})) == []


def test_a_sentence_without_a_cause_is_reported():
    (found,) = mistakes("memory no longer taken back (pods=3)", FIGURES)
    assert found.startswith("not `<what was done>: <cause> (figures)`")
