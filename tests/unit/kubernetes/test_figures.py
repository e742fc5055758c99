"""Figures for people: seldom written, and never in the way of the report."""

import pytest

from nri_coloc.kubernetes.figures import OBJECTS, Figures
from nri_coloc.kubernetes.publication import SUMMARY_S
from tests.unit.kubernetes.fake_api import Reply, serving
from tests.unit.kubernetes.test_companion import STATE

OTHER = STATE._replace(reason="floor")


def written(folder, turns, reply=None):
    """Return the calls that some turns, each a state and a time, cause; and the problem in the end."""
    with serving(folder, lambda _: reply or Reply()) as server:
        figures = Figures(server.connect(), "a")
        for state, now_s in turns:
            figures.turn(state, now_s)
    return [(asked.method, asked.path) for asked in server.asked], figures.problem


def test_an_object_is_patched(tmp_path):
    assert written(tmp_path, [(STATE, 0)]) == ([("PATCH", f"{OBJECTS}/a")], "")


def test_changes_wait_for_five_minutes(tmp_path):
    turns = [(STATE, 0), (OTHER, SUMMARY_S - 1), (OTHER, SUMMARY_S)]
    assert len(written(tmp_path, turns)[0]) == 2


def test_the_same_figures_are_not_written_again(tmp_path):
    assert len(written(tmp_path, [(STATE, 0), (STATE, SUMMARY_S)])[0]) == 1


def test_a_refusal_is_tried_again_later(tmp_path):
    calls, problem = written(tmp_path, [(STATE, 0), (STATE, 1), (STATE, SUMMARY_S)], Reply(status=403))
    assert len(calls) == 2
    assert "403" in problem


@pytest.mark.parametrize(("status", "remedy"), [(403, "rights.yaml"), (404, "colocationnodes.yaml")])
def test_a_refusal_says_its_remedy(tmp_path, status, remedy):
    assert remedy in written(tmp_path, [(STATE, 0)], Reply(status=status))[1]
