"""The cases of the pressure benchmark follow from its seed, and their outcomes from hurt and verdicts."""

import pytest

from benchmarks.pressure_cases import (
    KINDS,
    RESOLUTION,
    Case,
    Part,
    Played,
    Result,
    Shares,
    Stalls,
    alone,
    cases,
    is_only_slower,
    outcome,
    results,
    summary,
    told,
)

HOG, OTHER = "default/hog-busy-0", "default/steady"
CASE = Case("busy", 0, ("sh",))
CALM: Shares = {"cpu": 0.02, "memory": 0.0, "io": 0.05, "own": 0.1}
USUAL = Part(2.0, CALM)
Named = tuple[tuple[str, ...], ...]


def played(p99_ms: float, named: Named = (), **shares: float) -> Played:
    return Played(CASE, Part(p99_ms, {**CALM, **shares}), tuple(("cpu", pods) for pods in named))


def test_a_seed_gives_the_same_cases():
    assert cases(7, 3, [*KINDS]) == cases(7, 3, [*KINDS])
    assert cases(7, 3, [*KINDS]) != cases(8, 3, [*KINDS])


def test_kinds_follow_each_other():
    assert [one.kind for one in cases(1, 2, ["busy", "disk"])] == ["busy", "disk", "busy", "disk"]


@pytest.mark.parametrize(
    ("p99_ms", "named", "expected"),
    [
        (5.0, ((HOG,),), "named"),
        (5.0, (), "missed"),
        (5.0, ((HOG, OTHER),), "innocent"),
        (5.0, ((HOG,), (OTHER,)), "innocent"),
        (2.4, (), "quiet"),
        (2.4, ((HOG,),), "false"),
    ],
)
def test_an_outcome(p99_ms: float, named: Named, expected: str):
    assert outcome(USUAL, played(p99_ms, named)) == expected


def test_a_hurt_that_enforcing_prevents_is_protected():
    before = results("observe", [USUAL], [played(5.0, ((HOG,),))])
    (after,) = results("enforce", [USUAL], [played(2.0)], before)
    assert (after.outcome, after.right) == ("protected", True)


def test_a_quiet_case_was_not_protected():
    before = results("observe", [USUAL], [played(2.0)])
    assert [one.outcome for one in results("enforce", [USUAL], [played(2.0)], before)] == ["quiet"]


def test_a_hurt_without_a_wait_is_counted_apart():
    assert outcome(USUAL, played(5.0, own=0.12)) == "apart"


@pytest.mark.parametrize(
    ("own", "cpu", "expected"),
    [
        (0.12, 0.02, True),
        (0.12, 0.02 + 0.9 * RESOLUTION, True),
        (0.2, 0.02 + 1.1 * RESOLUTION, False),
        (0.105, 0.02, False),
    ],
    ids=["slower", "below-resolution", "waits-too", "as-fast"],
)
def test_slower_requests_wait_no_longer(*, own: float, cpu: float, expected: bool):
    assert is_only_slower(CALM, {**CALM, "own": own, "cpu": cpu}) == expected


def test_one_slow_calm_part_does_not_count():
    slow = Part(80.0, {**CALM, "io": 0.9})
    assert alone([slow, USUAL, USUAL]) == USUAL


def test_all_cases_have_the_same_p99_alone():
    found = results("observe", [Part(1.0, CALM), USUAL, Part(9.0, CALM)], [played(5.0), played(2.0)])
    assert [one.p99_ms for one in found] == [(2.0, 5.0), (2.0, 2.0)]


def result(p99_ms: float, named: Named = (), **shares: float) -> Result:
    return results("observe", [USUAL], [played(p99_ms, named, **shares)])[0]


def test_a_line_has_figures_culprit_and_judgement():
    line = told(result(5.0, ((HOG,),), cpu=0.2))
    assert "right (named)" in line
    assert "p99 alone 2.00 ms, beside 5.00 ms (2.50 x)" in line
    assert f"verdict cpu: {HOG}" in line
    assert "cpu 2.0% -> 20.0%" in line


def test_the_summary_counts_named_hurts():
    (line,) = summary([result(5.0, ((HOG,),)), result(5.0), result(2.0), result(5.0, own=0.2)])
    assert "right 2 of 3, hurts named 1 of 2" in line


def test_stalls_are_shares_of_the_time():
    shares = Stalls(12.0, 300_000, 0, 1_000_000).shares_since(Stalls(10.0, 100_000, 0, 0))
    assert shares == {"cpu": 0.1, "memory": 0.0, "io": 0.5, "own": 0.0}
