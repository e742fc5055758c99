"""Without PSI, run-queue delay is read for the busiest tasks of the busiest online pods."""

from dataclasses import replace
from typing import cast

import pytest

from nri_coloc.core.readings import GroupReading, NodeReading, Picture
from nri_coloc.host.counters import Schedstat
from nri_coloc.host.readings import CgroupReader
from nri_coloc.lending.delayed_tasks import MOST_PODS, DelayedTasks
from nri_coloc.lending.run_delay import MOST_TASKS
from nri_coloc.lending.sampler import FastSampler
from tests.unit.parts import a_node, create
from tests.unit.placing import kit

QOS = "kubepods"


class Sampler:
    """Fake sampler of the fast loop."""

    def __init__(self) -> None:
        self.without_pressure: frozenset[str] = frozenset()
        self.told: list[dict[str, tuple[int, ...]]] = []

    def follow(self, tasks: dict[str, tuple[int, ...]]) -> None:
        self.told.append(tasks)


class Cgroups:
    """Fake reader: tasks by the path of their container, and the paths that were read."""

    def __init__(self) -> None:
        self.tasks_of: dict[str, dict[int, Schedstat]] = {}
        self.asked: list[str] = []

    def tasks(self, path: str) -> dict[int, Schedstat]:
        self.asked.append(path)
        return self.tasks_of.get(path, {})

    def tasks_within(self, path: str) -> dict[int, Schedstat]:
        return self.tasks_of.get(f"{path}/*", {})


def picture(at: float, **milli: int) -> Picture:
    """Return a snapshot in which each pod has used `milli` milli-CPU on average since the time 0."""
    pods = {pod: GroupReading(1, at, usage_us=round(used * at * 1000)) for pod, used in milli.items()}
    return Picture(at, NodeReading(at), pods=pods)


class Rig:
    def __init__(self) -> None:
        self.node = a_node()
        self.sampler, self.cgroups = Sampler(), Cgroups()
        self.waiting = DelayedTasks(cast("FastSampler", self.sampler), cast("CgroupReader", self.cgroups))
        self.at = 0.0
        self.before: Picture | None = None

    def container(self, pod: str, *tasks: int, name: str = "") -> None:
        name = name or f"app-{pod}"
        create(self.node, name, milli=10, on=pod)
        self.cgroups.tasks_of[f"kubepods/pod{pod}/{name}"] = {task: Schedstat(0, 10 * task) for task in tasks}

    def deaf(self, *paths: str) -> None:
        self.sampler.without_pressure = frozenset(paths)

    def turn(self, **milli: int) -> int:
        """Run one turn; return the number of its pauses."""
        self.at += 5
        after = picture(self.at, **milli)
        self.cgroups.asked.clear()
        stops = len(list(self.waiting.turn(self.before, after, self.node.state)))
        self.before = after
        return stops


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_where_the_kernel_tells_pressure_nothing_is_read(rig):
    rig.container("web", 1)
    assert rig.turn(web=100) == 0
    assert (rig.cgroups.asked, rig.sampler.told) == ([], [])


def test_a_pods_tasks_stand_for_its_group(rig):
    rig.container("web", 1, 2)
    rig.container("api", 3)
    rig.deaf("kubepods/podweb", "kubepods/podapi/app-api")
    assert rig.turn(web=100, api=100) == 2
    assert rig.sampler.told == [{"kubepods/podweb": (1, 2), "kubepods/podapi/app-api": (3,)}]


def test_threads_of_a_vm_stand_for_its_pod(rig):
    for name in ("app", "side"):
        create(rig.node, name, replace(kit.SHARED, handler="pod"), on="web")
    rig.cgroups.tasks_of["kubepods/podweb/*"] = {1: Schedstat(0, 10), 2: Schedstat(0, 10)}
    rig.deaf("kubepods/podweb")
    assert rig.turn(web=100) == 1
    assert rig.sampler.told == [{"kubepods/podweb": (1, 2)}]


def test_all_pods_of_a_qos_cgroup_are_one_group(rig):
    rig.container("web", 1)
    rig.container("api", 3)
    rig.deaf(QOS)
    rig.turn(web=100, api=100)
    assert rig.sampler.told == [{QOS: (1, 3)}]


def test_who_is_in_no_such_group_is_not_read(rig):
    rig.container("web", 1)
    rig.container("api", 3)
    rig.deaf("kubepods/podweb")
    rig.turn(web=100, api=900)
    assert rig.cgroups.asked == ["kubepods/podweb/app-web"]


def test_only_the_busiest_pods_are_asked_for_their_tasks(rig):
    pods = {f"p{number}": 100 + number for number in range(MOST_PODS + 3)}
    for number, pod in enumerate(pods):
        rig.container(pod, number + 1)
    rig.deaf(QOS)
    rig.turn(**pods)
    rig.turn(**pods)
    assert sorted(rig.cgroups.asked) == sorted(f"kubepods/pod{pod}/app-{pod}" for pod in list(pods)[3:])


def test_no_more_tasks_are_followed_than_the_bound(rig):
    rig.container("web", *range(1, 50))
    rig.deaf(QOS)
    rig.turn(web=100)
    assert rig.sampler.told == [{QOS: tuple(range(50 - MOST_TASKS, 50))}]


def test_tasks_that_wanted_most_are_followed_next(rig):
    rig.container("web", 1, 900)
    rig.deaf(QOS)
    rig.turn(web=100)
    rig.cgroups.tasks_of["kubepods/podweb/app-web"][1] = Schedstat(70, 10)
    rig.turn(web=100)
    assert rig.sampler.told[-1] == {QOS: (1,)}


def test_the_same_choice_is_not_told_again(rig):
    rig.container("web", 1)
    rig.deaf(QOS)
    for ran in range(3):
        rig.cgroups.tasks_of["kubepods/podweb/app-web"][1] = Schedstat(ran, 10)
        rig.turn(web=100)
    assert rig.sampler.told == [{QOS: (1,)}]


def test_pressure_that_comes_back_ends_it(rig):
    rig.container("web", 1)
    rig.deaf(QOS)
    rig.turn(web=100)
    rig.deaf()
    rig.turn(web=100)
    assert rig.sampler.told[-1] == {}


def test_a_pod_without_a_container_that_can_be_told_is_nobody(rig):
    rig.deaf(QOS)
    assert rig.turn(web=100) == 0
