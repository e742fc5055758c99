"""Figures for people: seldom written, and never in the way of the report."""

import pytest

from nri_coloc.kubernetes.colocation_node import OBJECTS, ColocationNode
from nri_coloc.kubernetes.figures import Figures
from nri_coloc.kubernetes.publication import SUMMARY_S
from tests.unit.kubernetes.fake_api import Reply, serving
from tests.unit.kubernetes.test_companion import STATE

OTHER = STATE._replace(reason="floor")


def written(folder, turns, reply=None):
    """Return the calls that some turns, each a state and a time, cause; and the problem in the end."""
    with serving(folder, lambda _: reply or Reply()) as server:
        figures = Figures(ColocationNode(server.connect(), "a", lambda: "uid-a"))
        for state, now_s in turns:
            figures.turn(state, now_s)
    return [(asked.method, asked.path) for asked in server.asked], figures.problem


def test_an_object_is_patched(tmp_path):
    assert written(tmp_path, [(STATE, 0)]) == ([("PATCH", f"{OBJECTS}/a")], "")


def test_changes_wait_for_five_minutes(tmp_path):
    turns = [(STATE, 0), (OTHER, SUMMARY_S - 1), (OTHER, SUMMARY_S)]
    assert len(written(tmp_path, turns)[0]) == 2


def test_the_same_figures_are_repeated_each_five_minutes(tmp_path):
    turns = [(STATE, now_s) for now_s in (0, SUMMARY_S - 1, SUMMARY_S, SUMMARY_S + 1)]
    assert len(written(tmp_path, turns)[0]) == 2


def test_a_repetition_delays_no_change(tmp_path):
    turns = [(STATE, 0), (STATE, SUMMARY_S), (OTHER, SUMMARY_S + 1), (STATE, SUMMARY_S + 2)]
    assert len(written(tmp_path, turns)[0]) == 3


def test_a_deleted_object_returns(tmp_path):
    found = set[str]()

    def answers(asked):
        if asked.method == "POST":
            found.add(asked.body["metadata"]["name"])
        return Reply() if found else Reply(404)

    with serving(tmp_path, answers) as server:
        figures = Figures(ColocationNode(server.connect(), "a", lambda: "uid-a"))
        figures.turn(STATE, 0)
        found.clear()
        figures.turn(STATE, SUMMARY_S)
    assert found == {"a"}


def test_refusals_have_jitter(tmp_path, monkeypatch):
    monkeypatch.setattr("random.random", lambda: 0.0)
    half_s = SUMMARY_S / 2
    turns = [(STATE, now_s) for now_s in (0, half_s - 1, half_s, 2 * half_s)]
    assert len(written(tmp_path, turns, Reply(status=500))[0]) == 3


def test_a_refusal_is_tried_again_later(tmp_path):
    calls, problem = written(tmp_path, [(STATE, 0), (STATE, 1), (STATE, SUMMARY_S)], Reply(status=403))
    assert len(calls) == 2
    assert "403" in problem


@pytest.mark.parametrize(("status", "remedy"), [(403, "rights.yaml"), (404, "colocationnodes.yaml")])
def test_a_refusal_says_its_remedy(tmp_path, status, remedy):
    assert remedy in written(tmp_path, [(STATE, 0)], Reply(status=status))[1]
