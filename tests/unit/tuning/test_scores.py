"""OOM scores of processes are written once for each process, and again when the wanted score changes."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, Reconfigured
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.tuning.scores import Scores
from tests.unit.parts import Cgroups, a_node, a_report, an_actuator, create
from tests.unit.placing import kit

SCORED = Wish(QoSClass.SHARED, knobs=Knobs(oom_score_adj=700))


class Rig:
    def __init__(self) -> None:
        self.node = a_node()
        self.cgroups = Cgroups({"kubepods/podweb/app": kit.mask("0-7")})
        writer, report = self.cgroups.as_writer(), a_report(self.node)[0]
        self.scores = Scores(self.node, writer, report)
        self.actuator = an_actuator(self.node, writer, report, scores=self.scores)
        self.node.learn(kit.EVERYTHING)

    def rewish(self, wish: Wish) -> None:
        self.node.retune(Reconfigured(self.node.state.topology, {"app": wish}, {}), Tuning())

    def placed(self, times: int = 2) -> list[tuple[int, int]]:
        """Place the container more than once; return all scores that were written."""
        for _ in range(times):
            self.actuator.place("app")
        return self.cgroups.scores


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_one_that_the_runtime_could_not_set_is_written_once(rig):
    create(rig.node, "app", SCORED)
    rig.scores.write(rig.node.state.containers["app"])
    assert rig.placed() == [(7, 700)]


def test_one_of_whose_cgroup_nothing_tells_has_its_first_process_written(rig):
    facts = kit.container("app", pid=7, cgroups_path="")
    rig.node.decide(ContainerCreating(kit.pod(), facts, SCORED))
    assert rig.placed() == [(7, 700)]


def test_an_observer_writes_none(rig):
    create(rig.node, "app", SCORED)
    rig.node.retune(Reconfigured(rig.node.state.topology, {}, {}), Tuning(observe=True))
    assert rig.placed() == []


def test_one_that_is_another_by_now_is_written_again_and_once(rig):
    create(rig.node, "app")
    for score in (300, 200):
        rig.rewish(Wish(QoSClass.SHARED, knobs=Knobs(oom_score_adj=score)))
        rig.placed()
    assert rig.cgroups.scores == [(7, 300), (7, 200)]


def test_a_score_told_to_the_runtime_is_left_to_it(rig):
    create(rig.node, "app", SCORED)
    rig.actuator.answered(rig.node.state.containers["app"], rig.node.state)
    assert rig.placed() == []


def test_an_earlier_containers_score_is_written_once(rig):
    create(rig.node, "app", SCORED)
    assert not rig.node.state.containers["app"].by_file
    assert rig.placed() == [(7, 700)]


def test_one_that_came_to_be_the_kubelets_own_is_written_too(rig):
    made = kit.container("app", pid=7, oom_score_adj=900, cgroups_path="/kubepods/podweb/app")
    rig.node.decide(ContainerCreating(kit.pod(), made, SCORED))
    rig.actuator.answered(rig.node.state.containers["app"], rig.node.state)
    rig.rewish(replace(SCORED, knobs=Knobs(oom_score_adj=900)))
    assert rig.placed() == [(7, 900)]


@pytest.mark.parametrize("handler", ["pod", "ignore"])
def test_who_is_not_ours_to_write_has_none(rig, handler):
    create(rig.node, "app", replace(SCORED, handler=handler))
    rig.scores.write(rig.node.state.containers["app"])
    assert rig.placed() == []


def test_a_container_in_creation_has_no_process_to_write(rig):
    create(rig.node, "app", SCORED)
    known = rig.node.state.containers["app"]
    rig.scores.write(replace(known, container=replace(known.container, pid=0)))
    assert rig.cgroups.scores == []
