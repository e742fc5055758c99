"""The cases of the pressure benchmark follow from its seed, and their outcomes from hurt and verdicts."""

import pytest

from benchmarks.pressure import KINDS, cases, outcome

HOG, OTHER = "default/hog", "default/steady"


def test_a_seed_gives_the_same_cases():
    assert cases(7, 3, [*KINDS]) == cases(7, 3, [*KINDS])
    assert cases(7, 3, [*KINDS]) != cases(8, 3, [*KINDS])


def test_kinds_follow_each_other():
    assert [one.kind for one in cases(1, 2, ["busy", "disk"])] == ["busy", "disk", "busy", "disk"]


@pytest.mark.parametrize(
    ("hurt", "named", "expected"),
    [
        (True, [(HOG,)], "named"),
        (True, [], "missed"),
        (True, [(HOG, OTHER)], "innocent"),
        (True, [(HOG,), (OTHER,)], "innocent"),
        (False, [], "quiet"),
        (False, [(HOG,)], "false"),
    ],
)
def test_an_outcome(*, hurt: bool, named: list[tuple[str, ...]], expected: str):
    assert outcome(hurt=hurt, named=named, hog=HOG) == expected
