"""pressure.rounds: the choice of the pods that a turn reads."""

from collections import Counter

import pytest

from nri_coloc.pressure.rounds import round_robin


@pytest.mark.parametrize("pods", [1, 8, 9, 20, 110])
def test_turns_name_each_pod_equally_often(pods: int):
    ids = [f"pod-{number}" for number in range(pods)]
    named = Counter(one for turn in range(pods) for one in round_robin(ids, 8, turn))
    assert named == dict.fromkeys(ids, min(8, pods))


def test_a_turn_names_the_next_pods():
    ids = ["a", "b", "c", "d", "e"]
    assert [round_robin(ids, 2, turn) for turn in range(3)] == [["a", "b"], ["c", "d"], ["e", "a"]]


def test_no_pods_are_no_turn():
    assert round_robin([], 8, 3) == []
