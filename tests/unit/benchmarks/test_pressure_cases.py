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
    cases,
    is_only_slower,
    neighbours,
    outcome,
    results,
    summary,
    told,
)

HOG, OTHER = "default/hog-busy-0", "default/steady"
CASE = Case("busy", 0, ("sh",))
CALM: Shares = {"cpu": 0.02, "memory": 0.0, "io": 0.05, "own": 0.1}
USUAL = Part((2.0, 2.0), CALM)
BESIDE_CALM = [Part((2.0,), CALM)] * 3
"""Calm parts around one or two cases."""

Named = tuple[tuple[str, ...], ...]


def played(p99_ms: float, named: Named = (), **shares: float) -> Played:
    return Played(CASE, Part((p99_ms, p99_ms), {**CALM, **shares}), tuple(("cpu", pods) for pods in named))


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
        (2.4, ((OTHER,),), "innocent"),
    ],
)
def test_an_outcome(p99_ms: float, named: Named, expected: str):
    assert outcome(USUAL, played(p99_ms, named)) == expected


def test_a_hurt_that_enforcing_prevents_is_protected():
    before = results("observe", BESIDE_CALM, [played(5.0, ((HOG,),))])
    (after,) = results("enforce", BESIDE_CALM, [played(2.0)], before)
    assert (after.outcome, after.right) == ("protected", True)


def test_a_quiet_case_was_not_protected():
    before = results("observe", BESIDE_CALM, [played(2.0)])
    assert [one.outcome for one in results("enforce", BESIDE_CALM, [played(2.0)], before)] == ["quiet"]


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


@pytest.mark.parametrize(
    ("alone_ms", "beside_ms", "expected"),
    [
        ((2.0, 3.0), (3.7, 5.0), "missed"),
        ((2.0, 3.0), (2.4, 1.0), "quiet"),
        ((2.0, 4.0), (4.7, 4.7), "undecided"),
        ((2.0, 2.0), (2.3, 9.0), "undecided"),
        ((2.0,), (9.0, 9.0), "undecided"),
    ],
    ids=["hurt", "calm", "alone-differs", "beside-differs", "no-neighbour"],
)
def test_all_parts_must_agree(alone_ms: tuple[float, ...], beside_ms: tuple[float, ...], expected: str):
    case = Played(CASE, Part(beside_ms, {**CALM, "cpu": 0.5}), ())
    assert outcome(Part(alone_ms, CALM), case) == expected


def test_an_innocent_is_told_of_undecided_cases():
    noisy = Part((1.0, 9.0), CALM)
    assert outcome(noisy, played(5.0, ((HOG,),))) == "undecided"
    assert outcome(noisy, played(5.0, ((HOG, OTHER),))) == "innocent"


@pytest.mark.parametrize("p99_ms", [2.0, 5.0])
def test_a_verdict_on_a_sleeping_pod_is_false(p99_ms: float):
    sleeps = Case("none", 0, ("sh",))
    named = played(p99_ms, (("default/hog-none-0",),))._replace(case=sleeps)
    assert outcome(USUAL, named) == "false"


def test_a_case_has_its_own_neighbours():
    first, second, third = (Part((float(ms),), CALM) for ms in (1, 2, 3))
    assert neighbours([USUAL, first, second, third], 0) == [first, second]
    assert neighbours([USUAL, first, second, third], 1) == [second, third]


def test_overdue_requests_leave_the_next_neighbours():
    first, last = (Part((float(ms),), CALM) for ms in (1, 3))
    assert neighbours([USUAL, first, None, last], 0) == [first, last]
    assert neighbours([USUAL, first, None, last], 1) == [first, last]


def test_an_interrupted_case_has_one_neighbour():
    assert neighbours([USUAL, USUAL], 0) == [USUAL]


def result(p99_ms: float, named: Named = (), **shares: float) -> Result:
    return results("observe", BESIDE_CALM, [played(p99_ms, named, **shares)])[0]


def test_a_line_has_figures_culprit_and_judgement():
    line = told(result(5.0, ((HOG,),), cpu=0.2))
    assert "right (named)" in line
    assert "p99 alone 2.00 and 2.00 ms, beside 5.00 and 5.00 ms" in line
    assert f"verdict cpu: {HOG}" in line
    assert "cpu 2.0% -> 20.0%" in line


def test_the_summary_counts_named_hurts():
    judged = [result(5.0, ((HOG,),)), result(5.0), result(2.0), result(5.0, own=0.2)]
    (line,) = summary([*judged, *results("observe", BESIDE_CALM[:2], [played(5.0)])])
    assert "right 2 of 3, undecided 1, hurts named 1 of 2" in line


def test_stalls_are_shares_of_the_time():
    shares = Stalls(12.0, 300_000, 0, 1_000_000).shares_since(Stalls(10.0, 100_000, 0, 0))
    assert shares == {"cpu": 0.1, "memory": 0.0, "io": 0.5, "own": 0.0}
