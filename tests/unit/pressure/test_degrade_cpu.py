"""degrade_cpu: which container of a short pool is degraded, how far, and for how long."""

from pathlib import Path

import pytest

from nri_coloc.pressure.action import Cause
from nri_coloc.pressure.actions import degrade_cpu
from nri_coloc.pressure.actions.degrade_cpu import (
    LASTS_S,
    LONGEST_S,
    NO_COURSE,
    ROW,
    Course,
    Member,
    Pool,
    Step,
    refused,
    turn,
)

DOC = (Path(__file__).parents[3] / "docs" / "pressure.md").read_text()
WEB = Member("web", 900.0, 1000.0)


def hog(use: float | None = 3000.0, **more: object) -> Member:
    """Return a container that may be degraded and requests one CPU."""
    return Member("hog", use, 1000.0, may=True)._replace(**more)  # type: ignore[arg-type]  # any field


def pool(members: dict[str, Member], *, cpus: float = 4000.0, hurt: str = "web") -> dict[str, Pool]:
    return {"share": Pool(cpus, {"web": WEB, **members}, frozenset({hurt} if hurt else ()))}


def first(pools: dict[str, Pool], course: Course = NO_COURSE, now: float = 0.0) -> str | None:
    """Return the container that the first step degrades."""
    _, steps = turn(course, pools, now)
    return steps[0].container_id if steps else None


def days(pools: list[dict[str, Pool]]) -> tuple[Course, list[tuple[int, Step]]]:
    """Let seconds pass; return the last course, and each step with its second."""
    course, found = NO_COURSE, list[tuple[int, Step]]()
    for at, now in enumerate(pools):
        course, steps = turn(course, now, float(at))
        found += [(at, step) for step in steps]
    return course, found


def test_the_row_is_documented():
    assert f"| `{degrade_cpu.NAME}` | `cpu` | {ROW.when} | {ROW.does} | {ROW.undone} |" in DOC


def test_the_first_step_halves_the_excess():
    course, (step,) = turn(NO_COURSE, pool({"hog": hog()}), 0.0)
    assert (step.cause, step.container_id, step.before, step.limit) == (Cause.HURT, "hog", None, 2000.0)
    assert course.degraded["hog"].limit == 2000.0


@pytest.mark.parametrize(
    "pools",
    [
        pool({"hog": hog()}, hurt=""),
        pool({"hog": hog()}, cpus=8000.0),
        pool({"hog": hog(use=1000.0)}, cpus=2000.0),
        pool({"hog": hog(use=1099.0)}, cpus=2000.0),
        pool({"hog": hog(may=False)}),
        pool({"hog": hog(use=None)}, cpus=900.0),
        pool({"hog": hog(kube_priority=1)}),
        pool({"hog": hog(most=1900.0)}),
        pool({"hog": hog()}, hurt="hog"),
        pool({"web": WEB._replace(use=1001.0), "hog": hog()}),
        pool({"web": WEB._replace(use=None), "hog": hog()}, cpus=3000.0),
        {**pool({}, cpus=900.0), "gold": Pool(3000.0, {"hog": hog()})},
    ],
    ids=[
        *("no pod is hurt", "the pool has idle CPU", "within its request", "hardly above its request"),
        *("avoidance does not allow it", "use is unknown", "higher PriorityClass than the victim"),
        *("its own limit is lower", "the victim is its own culprit", "the victim is above its request"),
        *("the victim's use is unknown", "another pool"),
    ],
)
def test_nothing_is_degraded(pools: dict[str, Pool]):
    assert turn(NO_COURSE, pools, 0.0)[1] == ()


def test_lower_priority_classes_go_first():
    web = WEB._replace(kube_priority=10)
    heavy, light = hog(kube_priority=10), hog(use=1500.0, kube_priority=5)
    assert first(pool({"web": web, "heavy": heavy, "light": light})) == "light"


def test_the_heaviest_above_its_request_goes_first():
    greedy = hog(use=2500.0, request=100.0)
    assert first(pool({"heavy": hog(), "greedy": greedy})) == "greedy"


def test_priority_counts_within_its_namespace():
    heavy = hog(namespace="shop", priority=5)
    light, other = hog(use=2000.0, namespace="shop"), hog(use=2500.0, namespace="bank", priority=-9)
    assert first(pool({"heavy": heavy, "light": light, "other": other})) == "light"


def test_light_containers_delay_no_heavy_one():
    decoys = {f"decoy{at}": hog(use=1250.0, priority=-1, pod_id=f"decoy{at}") for at in range(31)}
    assert first(pool({"hog": hog(use=9000.0), **decoys})) == "hog"


def test_steps_end_at_the_request():
    course, limits = NO_COURSE, list[float | None]()
    use = 3000.0
    for at in range(20):
        course, steps = turn(course, pool({"hog": hog(use=use)}, cpus=2000.0), float(at))
        limits += [step.limit for step in steps]
        use = course.degraded["hog"].limit
    assert limits == [2000.0, 1500.0, 1250.0, 1125.0, 1000.0]


def test_a_container_without_a_request_keeps_a_tenth():
    _, (step,) = turn(NO_COURSE, pool({"hog": hog(use=250.0, request=0.0)}, cpus=1000.0), 0.0)
    assert step.limit == 100.0


def test_a_pool_has_one_step_in_two_seconds():
    three = pool({"one": hog(), "two": hog(), "three": hog()})
    _, found = days([three] * 6)
    assert [at for at, _ in found] == [0, 2, 4]


def test_a_degraded_pod_is_no_victim():
    course, _ = turn(NO_COURSE, pool({"hog": hog(), "other": hog(use=1500.0, pod_id="other")}), 0.0)
    later = pool({"hog": hog(use=1000.0), "other": hog(use=3000.0, pod_id="other")}, hurt="hog")
    assert first(later, course, 10.0) is None


@pytest.mark.parametrize(("hurt", "cause"), [("", Cause.CALM), ("web", Cause.NO_RELIEF)])
def test_a_timer_restores(hurt: str, cause: Cause):
    short, after = pool({"hog": hog()}), pool({"hog": hog(use=1050.0)}, hurt=hurt)
    course, found = days([short, *[after] * 61])
    ((at, step),) = found[1:]
    assert (at, step.cause, step.limit) == (int(LASTS_S), cause, None)
    assert (step.pool, step.candidates) == ("share", None)
    assert course.degraded == {}


def test_no_relief_rests_as_long():
    short, in_vain = pool({"hog": hog()}), pool({"hog": hog(use=1050.0)})
    _, found = days([short, *[in_vain] * 60, *[short] * 62])
    assert [at for at, step in found if step.cause is Cause.HURT] == [0, 120]


def test_each_return_lasts_twice_as_long():
    short, calm = pool({"hog": hog()}), pool({"hog": hog(use=1050.0)}, hurt="")
    course, ends = NO_COURSE, list[float]()
    since = 0
    for at in range(3000):
        course, steps = turn(course, calm if course.degraded else short, float(at))
        since = at if any(step.cause is Cause.HURT for step in steps) else since
        ends += [float(at - since) for step in steps if step.cause is Cause.CALM]
    assert ends[:5] == [60.0, 120.0, 240.0, 480.0, LONGEST_S]


@pytest.mark.parametrize(
    "changed",
    [{"may": False}, {"most": 1900.0}, {"request": 2500.0}],
    ids=["avoidance", "own quota", "request"],
)
def test_a_changed_container_is_restored_at_once(changed: dict[str, object]):
    course, _ = turn(NO_COURSE, pool({"hog": hog()}), 0.0)
    course, (step,) = turn(course, pool({"hog": hog(use=1050.0, **changed)}, hurt=""), 1.0)
    assert (step.cause, step.before, step.limit) == (Cause.NOT_ALLOWED, 2000.0, None)


def test_a_container_that_ended_is_forgotten():
    course, _ = turn(NO_COURSE, pool({"hog": hog()}), 0.0)
    assert turn(course, pool({}), 1.0) == (course._replace(degraded={}), ())


def test_a_refused_container_rests():
    course, (step,) = turn(NO_COURSE, pool({"hog": hog()}), 0.0)
    course = refused(course, step, 0.0)
    assert course.degraded == {}
    assert first(pool({"hog": hog()}), course, 59.0) is None
    assert first(pool({"hog": hog()}), course, 61.0) == "hog"
