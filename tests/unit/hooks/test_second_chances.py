"""One waiting pod a second gets a second chance; other pods are moved off its CPUs first."""

from typing import Any, cast

import pytest

from nri_coloc.core.decisions import ContainerGone, ContainerStarting, Moves
from nri_coloc.core.seams import Change
from nri_coloc.hooks.second_chances import EVERY_S, SecondChances
from nri_coloc.placing import waiting
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit


class Crew:
    """Fake actuator that keeps its orders, and the specs to push."""

    def __init__(self) -> None:
        self.left_behind = 0
        self.handed_over: list[tuple[int, Moves, Moves]] = []
        self.pushed: tuple[str, ...] = ()

    def hand_over(self, taken: int, leaving: Moves, owners: Moves, _seconds: float) -> int:
        self.handed_over.append((taken, leaving, owners))
        return self.left_behind

    def changed(self, change: Change) -> None:
        self.pushed = change.specs


class Rig:
    """A node whose `other` owns seven CPUs beside `shop`; `waits` makes pods wait for two of them."""

    def __init__(self) -> None:
        self.node, self.crew = a_node(), Crew()
        self.report, self.heard = a_report(self.node)
        self.asked = 0
        self.knows_all = True
        crew = cast("Any", self.crew)
        after = (self.crew.changed, self.report.changed)
        self.chances = SecondChances(self.node, crew, self.report, after=after, knows_all=self.is_told)
        create(self.node, "shop", kit.SHARED, on="shop")
        create(self.node, "other", kit.DEDICATED, 7000, on="other")

    def is_told(self) -> bool:
        self.asked += 1
        return self.knows_all

    def waits(self, *names: str) -> "Rig":
        for name in names:
            create(self.node, name, kit.DEDICATED, 2000, on=name)
            facts = self.node.state.containers[name].container
            self.node.decide(ContainerStarting(kit.pod(name), facts, kit.DEDICATED, running=True))
        self.node.decide(ContainerGone("other"))
        return self

    def owners(self) -> set[str]:
        return set(self.node.state.owners)


def test_others_leave_before_the_owner_comes():
    rig = Rig().waits("web")
    rig.chances.look(0)
    assert rig.crew.handed_over == [(0b11, Moves(containers=("shop",)), Moves(containers=("web",)))]
    assert ("container.update", "cpus_freed") in rig.heard.said()


def test_the_owners_spec_is_pushed_first():
    rig = Rig().waits("web")
    rig.chances.look(0)
    assert rig.crew.pushed == ("web", "shop")


def test_one_pod_a_second():
    rig = Rig().waits("web", "db")
    for now, owners in ((0, {"web"}), (EVERY_S / 2, {"web"}), (1, {"web", "db"})):
        rig.chances.look(now)
        assert rig.owners() == owners


def test_lateness_is_audited():
    rig = Rig().waits("web")
    rig.crew.left_behind = 3
    rig.chances.look(0)
    late = next(r for r in rig.heard.records if r.event.value == "container.late")
    assert (late.container, late.because) == (
        "web",
        "pinned before its CPUs were free: 3 cgroups not yet off CPUs 0-1",
    )


def test_nothing_is_decided_while_containers_may_be_unknown():
    rig = Rig().waits("web")
    rig.knows_all = False
    rig.chances.look(0)
    assert rig.owners() == set()


def test_a_state_that_stays_is_looked_at_once():
    rig = Rig()
    for now in range(9):
        rig.chances.look(now)
    assert rig.asked == 1
    create(rig.node, "more", kit.SHARED, on="shop")
    rig.chances.look(9)
    assert rig.asked == 2


def test_a_state_of_very_many_requests_has_further_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "turns", lambda _state: 3)
    rig = Rig()
    for now in range(9):
        rig.chances.look(now)
    assert rig.asked == 3
