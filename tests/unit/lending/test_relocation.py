"""A new pool size moves cgroups in a safe order, by the fast loop or by the actuator."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import ContainerCreating, PodRemoved, PodStarted, PoolsSized
from nri_coloc.core.seams import Change
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.lending.relocation import GUARD_EVERY_S, FileWatch, Relocation
from tests.unit.parts import a_node, a_report, create, start_pod
from tests.unit.placing import kit

TUNING = Tuning(reclaim=ReclaimTuning(partition=True))


class Groups:
    """Fake host groups that note their calls in a list."""

    def __init__(self, told: list[tuple[Any, ...]]) -> None:
        self.members: tuple[str, ...] = ()
        self._told = told

    def place(self) -> None:
        self._told.append(("place host groups",))

    def guard(self, path: str) -> None:
        self._told.append(("guard", path))

    def files_of(self, path: str) -> tuple[str, ...]:
        return ()


class Crew:
    """Fake actuator and pusher that keep the order of their calls."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.host_groups = Groups(self.told)

    def submit(self, moves: Any, *barrier: Any) -> None:
        if barrier:
            owner, taken, leaving = barrier
            self.told.append(("move", moves.containers, owner, cpuset.render(taken), leaving.containers))
        else:
            self.told.append(("move", moves.containers))

    def changed(self, change: Change) -> None:
        if change.moves:
            self.submit(change.moves)
        self.told.append(("push", change.specs))

    def await_departure(self, owner: str, seconds: float) -> None:
        self.told.append(("await", owner))

    def place_pods(self, pod_ids: Iterable[str]) -> None:
        self.told += (("place", pod_id) for pod_id in pod_ids)

    def files_of_pod(self, pod_id: str) -> tuple[str, ...]:
        return ()

    def guard_pod(self, pod_id: str) -> None:
        self.told.append(("guard", pod_id))


class Rig:
    """Eight CPUs; `a` is online and `batch` is a reclaimed pod."""

    def __init__(self, tuning: Tuning = TUNING, *, eevdf: bool = True) -> None:
        self.node = a_node(tuning)
        self.crew = Crew()
        crew = cast("Any", self.crew)
        self.file_watch = FileWatch(a_report(self.node)[0])
        self.relocation = Relocation(
            self.node, crew, self.file_watch, after=(self.crew.changed,), eevdf=eevdf
        )
        create(self.node, "a", on="one")
        start_pod(self.node, "batch")

    def size(self, **counts: int) -> list[tuple[Any, ...]]:
        before = self.node.state
        self.crew.told.clear()
        self.relocation.carry_out(
            self.node.decide(PoolsSized(counts, "pool resized: a test wants it")), before
        )
        return self.crew.told


def test_a_shrinking_pool_is_written_before_other_cgroups():
    rig = Rig()
    rig.size(share=2, reclaim=6)
    assert rig.size(share=6, reclaim=2) == [("place", "batch"), ("move", ("a",)), ("push", ("a",))]


def test_a_box_that_grows_waits_for_those_who_leave():
    rig = Rig()
    rig.size(share=6, reclaim=2)
    assert rig.size(share=2, reclaim=6) == [
        ("move", ("a",), "reclaim", "2-5", ("a",)),
        ("await", "reclaim"),
        ("place", "batch"),
        ("push", ("a",)),
    ]


def test_a_box_inside_of_share_waits_for_nobody():
    rig = Rig()
    rig.size(reclaim=2)
    assert rig.size(reclaim=6) == [("place", "batch")]


def test_who_only_loses_cpus_goes_first():
    plan = (PoolTuning("gold", band=(0.3, 0.5)),)
    rig = Rig(Tuning(pools=plan, reclaim=TUNING.reclaim))
    create(rig.node, "b", replace(kit.SHARED, pool="gold"), on="two")
    rig.size(gold=4, share=2, reclaim=2)
    assert rig.size(gold=2, share=4, reclaim=2)[0] == ("move", ("b", "a"))
    assert rig.size(gold=4, share=2, reclaim=2)[0] == ("move", ("a", "b"))


def test_members_outside_kubernetes_follow():
    rig = Rig()
    rig.crew.host_groups.members = ("yarn",)
    assert ("place host groups",) in rig.size(share=6, reclaim=2)
    assert rig.relocation.has_members(rig.node.state)


def test_members_are_looked_for_once_for_the_same_state():
    rig = Rig()
    assert rig.relocation.has_members(rig.node.state)
    assert rig.relocation.has_members(rig.node.state)
    crew = cast("Any", Crew())
    assert not Relocation(rig.node, crew, rig.file_watch, after=(), eevdf=True).has_members(a_node().state)


OF_BEST_EFFORT = "/kubepods/besteffort/podnight"


def boxed(node: Any, cgroup_parent: str, pod_id: str = "night") -> None:
    pod = replace(kit.pod(pod_id), cgroup_parent=cgroup_parent)
    node.decide(PodStarted(pod, kit.RECLAIMED))


@pytest.mark.parametrize(
    ("cgroup_parent", "yields"),
    [(OF_BEST_EFFORT, True), ("/kubepods/burstable/podnight", False), ("/kubepods/podnight", False)],
)
def test_beside_a_guaranteed_pod_a_box_of_best_effort_pods_yields(cgroup_parent, yields):
    rig = Rig()
    rig.node.decide(PodRemoved("batch"))
    boxed(rig.node, cgroup_parent)
    assert rig.relocation.yields(rig.node.state) is yields


def test_an_online_pod_of_equal_weight_is_named():
    rig = Rig()
    rig.node.decide(PodRemoved("batch"))
    boxed(rig.node, OF_BEST_EFFORT)
    assert rig.relocation.equal(rig.node.state) == ""
    pod = replace(kit.pod("day"), cgroup_parent="/kubepods/besteffort/podday")
    rig.node.decide(ContainerCreating(pod, kit.container("day", "day"), kit.SHARED))
    assert (rig.relocation.yields(rig.node.state), rig.relocation.equal(rig.node.state)) == (
        False,
        "shop/day",
    )


def test_new_cpus_of_share_are_compared_with_pods_again():
    rig = Rig()
    rig.node.decide(PodRemoved("batch"))
    boxed(rig.node, OF_BEST_EFFORT)
    pod = replace(kit.pod("day"), cgroup_parent="/kubepods/besteffort/podday")
    kept = replace(kit.SHARED, preserve=frozenset({"cpu"}))
    container = kit.container("day", "day", resources=kit.asking(0, cpus="0"))
    rig.node.decide(ContainerCreating(pod, container, kept))
    state = rig.node.state
    assert not rig.relocation.yields(state)
    pools = replace(state.pools, reserved=0b1, share=0b11111110, reclaim=0b11111110)
    assert rig.relocation.yields(replace(state, pools=pools))


def test_one_member_that_does_not_yield_is_enough():
    rig = Rig()
    boxed(rig.node, OF_BEST_EFFORT)
    boxed(rig.node, "/kubepods/podnight", "odd")
    assert not rig.relocation.yields(rig.node.state)


def test_a_reclaimed_container_in_an_online_pod_has_its_weight():
    rig = Rig()
    rig.node.decide(PodRemoved("batch"))
    create(rig.node, "helper", kit.RECLAIMED, on="one")
    assert not rig.relocation.yields(rig.node.state)


def test_members_outside_kubernetes_do_not_yield():
    rig = Rig()
    rig.crew.host_groups.members = ("yarn",)
    rig.node.decide(PodRemoved("batch"))
    boxed(rig.node, OF_BEST_EFFORT)
    assert not rig.relocation.yields(rig.node.state)


def test_nobody_yields_on_a_kernel_before_eevdf():
    rig = Rig(eevdf=False)
    rig.node.decide(PodRemoved("batch"))
    boxed(rig.node, OF_BEST_EFFORT)
    assert not rig.relocation.yields(rig.node.state)


def test_one_member_is_looked_at_once_in_a_while():
    rig = Rig()
    rig.relocation.look_at(rig.node.state)
    rig.size(share=6, reclaim=2)
    rig.crew.told.clear()
    for tick in range(9):
        rig.relocation.guard(rig.node.state, 100.0 + tick * GUARD_EVERY_S / 4)
    assert rig.crew.told == [("guard", "batch")] * 3


def test_members_outside_kubernetes_have_their_turn():
    rig = Rig()
    rig.crew.host_groups.members = ("yarn",)
    rig.relocation.look_at(rig.node.state)
    rig.size(share=6, reclaim=2)
    rig.crew.told.clear()
    for look in range(2):
        rig.relocation.guard(rig.node.state, 100.0 + look * GUARD_EVERY_S)
    assert set(rig.crew.told) == {("guard", "batch"), ("guard", "yarn")}


def test_a_box_without_members_has_nobody_to_look_at():
    rig = Rig()
    rig.size(share=6, reclaim=2)
    rig.node.decide(PodRemoved("batch"))
    rig.relocation.look_at(rig.node.state)
    rig.crew.told.clear()
    rig.relocation.guard(rig.node.state, 100.0)
    assert rig.crew.told == []


def test_a_box_that_is_not_held_back_needs_no_guard():
    rig = Rig()
    rig.relocation.look_at(rig.node.state)
    rig.relocation.guard(rig.node.state, 100.0)
    assert rig.crew.told == []


def test_who_only_observes_looks_at_nobody():
    rig = Rig(replace(TUNING, observe=True))
    rig.relocation.look_at(rig.node.state)
    rig.size(share=6, reclaim=2)
    rig.crew.told.clear()
    rig.relocation.guard(rig.node.state, 100.0)
    assert rig.crew.told == []
