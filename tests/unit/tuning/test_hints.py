"""Tasks get the scheduling hint of their class once, while lending is on; later it is restored."""

from dataclasses import replace
from typing import cast

import pytest

from nri_coloc.core.decisions import ContainerCreating, ContainerGone
from nri_coloc.core.scheduler_hints import Hint, Policy, SchedulerCapability
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.workload import Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.tuning import hints as module
from nri_coloc.tuning.hints import Hints
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit

SHORT, OFFLINE = Hint(Policy.OTHER, 100), Hint(Policy.IDLE)
APP = "kubepods/podweb/app"


class Tasks:
    """Fake writer: the hint of each container, by path."""

    def __init__(self) -> None:
        self.hints: dict[str, Hint] = {}
        self.told: list[str] = []
        self.refuses: KernelInterfaceError | None = None

    def hint(self, path: str, hint: Hint) -> KernelInterfaceError | None:
        self.told.append(path)
        self.hints[path] = hint
        return self.refuses

    def unhint(self, path: str) -> KernelInterfaceError | None:
        self.hints.pop(path)
        return self.refuses

    def hinted(self) -> set[str]:
        return set(self.hints)


EVERY_HINT = SchedulerCapability(slices=True, returns=True)


class Rig:
    def __init__(
        self,
        tuning: Tuning | None = None,
        wish: Wish = kit.SHARED,
        can: SchedulerCapability | None = EVERY_HINT,
    ) -> None:
        self.node = a_node(tuning)
        self.report, self.heard = a_report(self.node)
        self.tasks = Tasks()
        self.hints = Hints(self.node, cast("CgroupWriter", self.tasks), self.report, can)
        create(self.node, "app", wish)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize(("wish", "hint"), [(kit.SHARED, SHORT), (kit.RECLAIMED, OFFLINE)])
def test_a_container_that_starts_is_told_by_its_class(wish, hint):
    rig = Rig(wish=wish)
    rig.hints.place("app")
    assert rig.tasks.hints == {APP: hint}


OFF = Tuning(reclaim=ReclaimTuning(enabled=False))


@pytest.mark.parametrize(
    ("tuning", "wish"),
    [
        (OFF, kit.SHARED),
        (Tuning(observe=True), kit.SHARED),
        (Tuning(), kit.DEDICATED),
        (Tuning(), kit.SYSTEM),
        (Tuning(), replace(kit.SHARED, handler="pod")),
        (Tuning(), replace(kit.SHARED, preserve=frozenset({"cpu"}))),
    ],
    ids=["lending is off", "observing", "dedicated", "system", "a VM", "preserved"],
)
def test_nobody_else_is_told_anything(tuning, wish):
    rig = Rig(tuning, wish)
    rig.hints.place("app")
    rig.hints.sweep()
    assert rig.tasks.told == []


def test_where_tasks_cannot_be_told_nothing_is_tried():
    rig = Rig(can=None)
    rig.hints.place("app")
    rig.hints.place("nobody")
    rig.hints.sweep()
    assert rig.tasks.told == []


def test_who_ran_before_we_came_is_told_in_the_sweep(rig):
    rig.hints.sweep()
    assert rig.tasks.hints == {APP: SHORT}


def test_who_has_not_started_has_no_tasks_to_tell():
    rig = Rig()
    facts = kit.container("later", cgroups_path="/kubepods/podweb/later")
    rig.node.decide(ContainerCreating(kit.pod(), facts, kit.SHARED))
    rig.hints.sweep()
    assert rig.tasks.told == [APP]


def test_a_crowd_is_told_in_turns(rig):
    for number in range(module.A_SWEEP + 8):
        create(rig.node, f"n{number}")
    rig.hints.sweep()
    assert len(rig.tasks.told) == module.A_SWEEP
    rig.hints.sweep()
    assert len(rig.tasks.hints) == module.A_SWEEP + 9


def test_what_came_in_from_outside_is_told_one_container_a_turn(rig):
    create(rig.node, "second")
    rig.hints.sweep()
    rig.tasks.told.clear()
    for _ in range(4):
        rig.hints.sweep()
    assert sorted(rig.tasks.told) == [APP, APP, "kubepods/podweb/second", "kubepods/podweb/second"]


def test_when_lending_is_switched_off_all_are_told_back(rig):
    rig.hints.sweep()
    rig.node.tuning = OFF
    rig.hints.sweep()
    assert rig.tasks.hints == {}


def test_a_causeless_hint_of_earlier_processes_is_reverted():
    rig = Rig(OFF)
    rig.tasks.hints = {APP: SHORT, "kubepods/podgone/app": SHORT}
    rig.hints.sweep()
    assert rig.tasks.hints == {"kubepods/podgone/app": SHORT}


def test_another_class_is_told_anew_from_the_default(rig):
    rig.hints.sweep()
    create(rig.node, "app", kit.RECLAIMED)
    rig.hints.sweep()
    assert rig.tasks.hints == {APP: OFFLINE}


def test_who_ended_is_forgotten(rig):
    rig.hints.sweep()
    rig.node.decide(ContainerGone("app"))
    rig.hints.sweep()
    assert rig.hints._told == {}


def test_a_path_that_is_none_is_left_out():
    rig = Rig()
    facts = kit.container("odd", pid=7, cgroups_path="/a/../../b")
    rig.node.decide(ContainerCreating(kit.pod(), facts, kit.SHARED))
    rig.hints.place("odd")
    assert rig.tasks.told == []


def test_the_same_refusal_of_many_is_said_once(rig):
    create(rig.node, "second")
    rig.tasks.refuses = KernelInterfaceError("/proc/7/sched", "tell", "Operation not permitted")
    rig.hints.sweep()
    assert rig.heard.said() == [("write.failed", "refused")]
    (record,) = rig.heard.records
    assert record.because == "cannot tell /proc/PID/sched: Operation not permitted"
    assert record.extra["inputs"]["file"] == "/proc/PID/sched"


def test_tasks_that_refuse_are_not_told_at_every_sweep_nor_back(rig):
    rig.tasks.refuses = KernelInterfaceError("/proc/7/sched", "tell", "Operation not permitted")
    for _ in range(20):
        rig.hints.sweep()
    assert rig.tasks.told == [APP]
    rig.node.tuning = OFF
    rig.tasks.refuses = None
    rig.hints.refusals.forgive()
    rig.hints.sweep()
    assert rig.tasks.hints == {}


def test_what_is_wanted_anew_is_told_although_the_former_was_refused(rig):
    rig.tasks.refuses = KernelInterfaceError("/proc/7/sched", "tell", "Operation not permitted")
    rig.hints.sweep()
    create(rig.node, "app", kit.RECLAIMED)
    rig.hints.sweep()
    assert rig.tasks.hints == {APP: OFFLINE}


def test_a_refusal_of_one_who_ended_is_forgotten(rig):
    rig.tasks.refuses = KernelInterfaceError("/proc/7/sched", "tell", "Operation not permitted")
    rig.hints.sweep()
    rig.node.decide(ContainerGone("app"))
    rig.hints.sweep()
    assert rig.hints.refusals.ids == set()
