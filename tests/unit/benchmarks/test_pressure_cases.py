"""The cases of the pressure benchmark follow from its seed, and their outcomes from hurt and verdicts."""

import pytest

from benchmarks.pressure import KINDS, Result, Stalls, cases, is_slower, outcome, told

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


def test_an_unseen_hurt_is_counted_apart():
    assert outcome(hurt=True, named=[], hog=HOG, unseen=True) == "apart"


@pytest.mark.parametrize(
    ("own", "cpu", "slower"), [(0.12, 0.03, True), (0.12, 0.05, False), (0.105, 0.02, False)]
)
def test_more_cpu_time_counts_beside_less_waiting(*, own: float, cpu: float, slower: bool):
    before = {"cpu": 0.02, "memory": 0.0, "io": 0.0, "own": 0.1}
    assert is_slower(before, {**before, "own": own, "cpu": cpu}) == slower


def test_a_line_has_figures_culprit_and_judgement():
    calm = {"cpu": 0.02, "memory": 0.0, "io": 0.05, "own": 0.1}
    beside = {"cpu": 0.2, "memory": 0.0, "io": 0.06, "own": 0.1}
    line = told(
        Result(
            "busy",
            "sh",
            p99_ms=(2.0, 5.0),
            stalls=(calm, beside),
            verdicts=(("cpu", (HOG,)),),
            outcome="named",
        )
    )
    assert "right (named)" in line
    assert "p99 alone 2.00 ms, beside 5.00 ms (2.50 x)" in line
    assert f"verdict cpu: {HOG}" in line
    assert "cpu 2.0% -> 20.0%" in line


def test_stalls_are_shares_of_the_time():
    shares = Stalls(12.0, 300_000, 0, 1_000_000).shares_since(Stalls(10.0, 100_000, 0, 0))
    assert shares == {"cpu": 0.1, "memory": 0.0, "io": 0.5, "own": 0.0}
