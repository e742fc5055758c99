"""pressure.ladder: down while victims are hurt, up again while they are calm, and never to and fro."""

from itertools import pairwise

import pytest

from nri_coloc.core.settings import RungTuning
from nri_coloc.pressure.action import Cause
from nri_coloc.pressure.ladder import (
    AT_REST,
    Accused,
    Floor,
    Freed,
    Hindrance,
    InVain,
    Ladder,
    Move,
    Step,
    Turn,
    climb,
    hindrance,
    refused,
)
from nri_coloc.pressure.verdict import Resource

MIB = 1 << 20
RUNG = RungTuning(throttles=True)
FLOORS = {Resource.IO: Floor(float(MIB), RUNG)}
HOG = Accused("hog", "web", 400.0 * MIB)


class Climber:
    """Takes turns of one second with one culprit and one victim."""

    def __init__(self) -> None:
        self.ladder: Ladder = AT_REST
        self.at = 0.0
        self.may = {"hog"}
        self.gone: set[str] = set()
        self.floors = FLOORS
        self.idle: set[tuple[str, Resource]] = set()

    def second(self, *, hurt: bool, accused: bool = True) -> tuple[Step, ...]:
        self.at += 1
        turn = Turn(
            self.at,
            {Resource.IO: (HOG,) if hurt and accused else ()},
            hurt={Resource.IO: {"web"} if hurt else set()},
            may=self.may,
            gone=self.gone,
            idle=self.idle,
        )
        self.ladder, steps = climb(self.ladder, turn, self.floors)
        return steps

    def seconds(self, count: int, *, hurt: bool) -> list[Step]:
        return [step for _ in range(count) for step in self.second(hurt=hurt)]


def limits(steps: list[Step]) -> list[float | None]:
    return [None if one.limit is None else one.limit / MIB for one in steps]


def test_a_culprit_gets_half_of_its_use():
    (step,) = Climber().second(hurt=True)
    assert (step.move, step.limit, step.before) == (Move.THROTTLE, 200.0 * MIB, None)


def test_a_lasting_hurt_halves_to_the_floor():
    assert limits(Climber().seconds(30, hurt=True)) == [200, 100, 50, 25, 12.5, 6.25, 3.125, 1.5625, 1]


def test_a_floor_in_vain_sets_free():
    climber = Climber()
    last = climber.seconds(60, hurt=True)[-1]
    assert (last.move, last.cause, last.limit) == (Move.FREE, Cause.NO_RELIEF, None)
    assert not climber.seconds(15, hurt=True), "and is not tried again at once"


def test_a_calm_reading_ends_the_count_of_its_pod():
    climber = Climber()
    climber.seconds(17, hurt=True)
    for _ in range(10):
        assert not climber.seconds(9, hurt=True)
        assert not climber.seconds(1, hurt=False)


class Both:
    """A hog that reads, a pod that it hurts above 60 MiB/s, and a pod that pretends to be hurt."""

    def __init__(self) -> None:
        self.ladder: Ladder = AT_REST
        self.at = 0.0
        self.hurt_s = 0

    def second(self, *, fakes: bool, reads: bool = True) -> tuple[Step, ...]:
        self.at += 1
        limit = self.limit or 400.0
        honest = {"web"} if reads and limit > 60 else set[str]()
        hurt = honest | ({"faker"} if fakes else set())
        accused = [HOG._replace(victim=one) for one in hurt if reads and limit > 2]
        self.hurt_s += len(honest)
        turn = Turn(self.at, {Resource.IO: accused}, {Resource.IO: hurt}, {"hog"})
        self.ladder, steps = climb(self.ladder, turn, FLOORS)
        return steps

    @property
    def limit(self) -> float | None:
        one = self.ladder.throttled.get(("hog", Resource.IO))
        return None if one is None else one.limit / MIB


def test_a_faked_stall_frees_no_hog_of_another_pod():
    both = Both()
    steps = [step for _ in range(1800) for step in both.second(fakes=True)]
    assert both.hurt_s <= 14, "the seconds without the fake"
    assert all(one.move is not Move.FREE for one in steps)


def test_a_limit_in_vain_for_one_pod_holds_for_another():
    both = Both()
    while not both.ladder.in_vain:
        both.second(fakes=True)
    assert both.ladder.in_vain.keys() == {("hog", Resource.IO, "faker")}
    assert both.ladder.throttled["hog", Resource.IO].victims == {"web"}


def test_a_limit_in_vain_for_one_pod_begins_for_another():
    climber, turn = Climber(), Turn(48.0, {Resource.IO: [HOG]}, {Resource.IO: {"web"}}, {"hog"})
    climber.seconds(47, hurt=True)
    assert climb(climber.ladder, turn, FLOORS)[1] == ()
    other = turn._replace(accused={Resource.IO: [HOG, HOG._replace(victim="db")]})
    (step,) = climb(climber.ladder, other, FLOORS)[1]
    assert step.throttle.victims == {"db"}


def test_a_later_relief_ends_the_memory_of_a_limit_in_vain():
    climber = Climber()
    climber.seconds(47, hurt=True)
    assert climber.ladder.in_vain
    climber.seconds(31, hurt=True)
    climber.seconds(70, hurt=False)
    assert not climber.ladder.in_vain


def test_a_refused_removal_of_a_limit_in_vain_is_tried_again():
    climber = Climber()
    (step,) = climber.seconds(47, hurt=True)[-1:]
    climber.ladder = refused(climber.ladder, step, climber.at)
    assert [one.cause for one in climber.second(hurt=True)] == [Cause.NO_RELIEF]


def test_a_refused_first_limit_rests_not_in_vain():
    climber = Climber()
    (step,) = climber.second(hurt=True)
    climber.ladder = refused(climber.ladder, step, climber.at)
    assert not climber.ladder.in_vain
    assert not climber.seconds(29, hurt=True), "no storm of retries"
    assert climber.seconds(1, hurt=True), "and is tried again after the hold"


def test_calm_doubles_after_the_hold_then_frees():
    climber = Climber()
    climber.seconds(3, hurt=True)
    assert not climber.seconds(29, hurt=False)
    steps = climber.seconds(20, hurt=False)
    assert limits(steps) == [200, 400, None]
    assert [one.move for one in steps] == [Move.EASE, Move.EASE, Move.FREE]


def test_an_idle_culprit_is_set_free_beside_a_hurt():
    climber = Climber()
    climber.seconds(3, hurt=True)
    climber.idle = {("hog", Resource.IO)}
    assert limits([step for _ in range(50) for step in climber.second(hurt=True, accused=False)]) == [
        200,
        400,
        None,
    ]


def test_idle_seconds_end_no_count_of_hurt_readings():
    climber = Climber()
    climber.second(hurt=True)
    steps: list[Step] = []
    for second in range(1, 13):
        climber.idle = {("hog", Resource.IO)} if second % 3 else set()
        steps += climber.second(hurt=True)
    assert limits(steps) == [100, 50]


def test_a_second_throttling_holds_twice_as_long():
    climber = Climber()
    climber.seconds(3, hurt=True)
    climber.seconds(60, hurt=False)
    climber.seconds(1, hurt=True)
    assert not climber.seconds(59, hurt=False)
    assert climber.seconds(2, hurt=False)


def eased() -> Climber:
    """Return a climber whose culprit had a first step up in the last turn."""
    climber = Climber()
    climber.seconds(3, hurt=True)
    assert limits(climber.seconds(30, hurt=False)) == [200]
    return climber


def test_one_hurt_reading_undoes_a_step_up():
    assert limits(eased().seconds(1, hurt=True)) == [100]


def test_a_step_up_that_hurt_is_repeated_later():
    climber = eased()
    climber.seconds(1, hurt=True)
    assert not climber.seconds(59, hurt=False)
    assert limits(climber.seconds(2, hurt=False)) == [200]


def test_hurts_after_steps_up_are_ever_rarer():
    climber, hurts = eased(), []
    while climber.at < 1000:
        one = climber.ladder.throttled["hog", Resource.IO]
        hurts += [climber.at] if one.eased else []
        climber.seconds(1, hurt=one.eased)
    assert [round(then - before) for before, then in pairwise(hurts)] == [61, 121, 241, 241, 241]


def test_a_pod_that_may_not_is_left_alone():
    climber = Climber()
    climber.may = set()
    assert not climber.seconds(5, hurt=True)


def test_a_permission_that_ends_sets_free():
    climber = Climber()
    climber.seconds(1, hurt=True)
    climber.may = set()
    (step,) = climber.second(hurt=True)
    assert (step.move, step.cause) == (Move.FREE, Cause.NOT_ALLOWED)


def test_switched_off_sets_free():
    climber = Climber()
    climber.seconds(1, hurt=True)
    climber.floors = {}
    (step,) = climber.second(hurt=True)
    assert step.move is Move.FREE


def test_an_ended_pod_is_forgotten_without_a_step():
    climber = Climber()
    climber.seconds(1, hurt=True)
    climber.gone = {"hog"}
    assert not climber.second(hurt=False)
    assert climber.ladder == AT_REST


def test_use_at_the_floor_is_not_throttled():
    turn = Turn(1.0, {Resource.IO: (HOG._replace(use=float(MIB)),)}, {Resource.IO: {"web"}}, {"hog"})
    assert climb(AT_REST, turn, FLOORS)[1] == ()


REFUSED = AT_REST._replace(freed={("hog", Resource.IO): Freed(0.0, 30.0, refused=True)})
VAIN = AT_REST._replace(in_vain={("hog", Resource.IO, "web"): InVain(0.0, 30.0)})


@pytest.mark.parametrize(
    ("one", "may", "before", "expected"),
    [
        (HOG, {"hog"}, AT_REST, None),
        (HOG, set(), AT_REST, Hindrance.NOT_ALLOWED),
        (HOG._replace(use=1.0 * MIB), {"hog"}, AT_REST, Hindrance.LITTLE_USE),
        (HOG, {"hog"}, REFUSED, Hindrance.REFUSED),
        (HOG, {"hog"}, VAIN, Hindrance.IN_VAIN),
        (HOG._replace(victim="db"), {"hog"}, VAIN, None),
    ],
    ids=["none", "avoidance", "little use", "refused", "in vain", "in vain for another"],
)
def test_a_culprit_is_throttled_or_says_why_not(
    one: Accused, may: set[str], before: Ladder, expected: Hindrance | None
):
    turn = Turn(29.0, {Resource.IO: [one]}, {Resource.IO: {one.victim}}, may)
    found = hindrance(Resource.IO, one, turn, FLOORS[Resource.IO], before)
    assert found is expected
    assert bool(climb(before, turn, FLOORS)[1]) is (expected is None)
