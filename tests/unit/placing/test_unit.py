"""placing/vm_pods.py: a VM's unit is its pod's cgroup (DESIGN 4.2), with the sum of its containers' requests."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.decisions import ContainerCreating, PodStarted
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import Numa, Pod, Resources, Wish
from nri_coloc.placing import protection, reclaim_cgroups
from nri_coloc.placing.protection import Protection
from tests.unit.placing import kit
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, Node, asking, container, first

SLOWED = replace(SHARED, handler="pod", knobs=Knobs(memory_high=100), cpu_burst_percent=50)
PLAIN = replace(SHARED, handler="pod")
BOUND = replace(DEDICATED, handler="pod", numa=Numa.SINGLE)
LENT = replace(RECLAIMED, handler="pod", knobs=Knobs(shares=2, quota=200, memory_limit=9, oom_score_adj=1000))
NIGHT = Pod(
    "night", "uid-night", "night", "shop", cgroup_parent="/kubepods/besteffort/podnight", handler="kata"
)


def of(node: Node, pod_id: str = "web") -> Knobs:
    return reclaim_cgroups.knobs(node.state, pod_id)


def of_two(wish: Wish, other: Wish, **facts: Any) -> Knobs:
    node = Node()
    node.create("a", 100, wish, resources=Resources(quota=1000))
    node.create("b", 100, other, **facts)
    return of(node)


def a_night(*wishes: Wish, pod: Pod = NIGHT) -> Node:
    node = Node()
    node.happen(PodStarted(pod, wishes[0]))
    for number, wish in enumerate(wishes):
        node.happen(ContainerCreating(pod, container(f"c{number}", pod.id), wish))
    return node


class TestCPUs:
    def test_the_pod_has_the_memory_nodes_of_its_containers(self):
        node = Node()
        node.create("a", 2000, BOUND)
        node.create("b", 4000, BOUND)
        assert (of(node).cpus, of(node).mems) == ("0-1,4-7", "0-1")

    def test_where_one_of_them_is_not_bound_the_pod_is_not(self):
        node = Node()
        node.create("a", 2000, BOUND)
        node.create("b", 100, PLAIN)
        assert of(node).mems is None
        assert not node.state.mems_bound("web")

    def test_bursts_are_added_and_one_without_a_burst_adds_none(self):
        assert of_two(SLOWED, PLAIN).burst == 500
        assert of_two(SLOWED, SLOWED, resources=Resources(quota=600)).burst == 800

    def test_nothing_of_the_cpu_is_written_where_the_pod_preserves_it(self):
        node = Node()
        node.create("a", 100, replace(SLOWED, preserve=frozenset({"cpu"})), resources=Resources(quota=1000))
        assert of(node) == Knobs(memory_high=100)

    def test_a_container_that_preserves_cpus_is_outside_its_unit(self):
        node = Node()
        node.start_pod(wish=PLAIN)
        node.create("a", 2000, replace(DEDICATED, handler="pod"))
        node.create("b", 100, replace(SLOWED, preserve=frozenset({"cpu"})), resources=Resources(quota=1000))
        assert (of(node).cpus, of(node).burst) == ("0-1", None)


class TestMemory:
    def test_a_vms_memory_high_is_a_sum(self):
        heavy = replace(kit.pod(), overhead_bytes=7)
        node = Node()
        for name, wish, limit in (("a", SLOWED, 300), ("b", PLAIN, 50)):
            asked = container(name, resources=asking(100, memory_limit=limit))
            node.happen(ContainerCreating(heavy, asked, wish))
        assert of(node).memory_high == 157
        found = _pod_limit(node, heavy).inputs or {}
        assert {"b.cpus": "0-7", "b.memory.limit": 50, "overhead_bytes": 7}.items() <= found.items()

    @pytest.mark.parametrize("limit", [None, -1], ids=["none", "no limit"])
    def test_a_container_without_any_bound_leaves_the_pod_without(self, limit):
        assert of_two(SLOWED, PLAIN, resources=Resources(memory_limit=limit)).memory_high is None

    def test_one_that_preserves_its_memory_does_so_too(self):
        kept = replace(PLAIN, preserve=frozenset({"memory"}))
        assert of_two(SLOWED, kept, resources=Resources(memory_limit=50)).memory_high is None

    def test_protections_are_summed_for_it_as_for_every_pod(self):
        node = Node()
        wish = replace(PLAIN, knobs=Knobs(memory_low=5, memory_min=2))
        outcome = node.create("a", wish=wish, resources=Resources(memory_limit=5))
        assert node["a"].knobs == NO_KNOBS
        assert protection.by_pod(node.state) == {"web": Protection(5, 2)}
        assert outcome.decisions[2].after == Knobs(memory_low=5, memory_min=2)

    def test_in_the_box_it_is_the_boxs(self):
        held = replace(LENT, knobs=Knobs(memory_high=100))
        node = a_night(held)
        assert of(node, "night").memory_high is None
        assert (first(a_second(node, held.knobs)).inputs or {})["not_set"] == "memory.high"


class TestQuota:
    def test_a_best_effort_pod_has_what_its_containers_were_lent_together(self):
        assert of(a_night(LENT, LENT), "night") == Knobs(cpus="0-7", shares=2, quota=400)

    def test_there_is_none_where_a_container_was_lent_none(self):
        assert of(a_night(LENT, replace(RECLAIMED, handler="pod")), "night").quota is None

    def test_another_pods_quota_is_the_kubelets(self):
        burstable = replace(NIGHT, cgroup_parent="/kubepods/burstable/podnight")
        assert of(a_night(LENT, pod=burstable), "night").quota is None


class TestFigures:
    def test_an_admission_names_values_without_a_file(self):
        outcome = a_second(a_night(LENT), LENT.knobs)
        assert (first(outcome).inputs or {})["not_set"] == "memory.limit oom_score_adj"

    def test_the_pods_record_has_its_containers_values(self):
        told = a_second(a_night(LENT), LENT.knobs).decisions[1]
        assert (told.before, told.after) == (Knobs(quota=200), Knobs(quota=400))
        assert {"c0.shares": 2, "c0.quota": 200}.items() <= (told.inputs or {}).items()

    def test_a_cgroup_with_other_users_gets_nothing(self):
        node = Node()
        stranger = replace(NIGHT, cgroup_parent="/kubepods/besteffort")
        outcome = node.happen(ContainerCreating(stranger, container("c", "night"), SLOWED))
        assert of(node, "night") == NO_KNOBS
        assert "memory.high" in str((first(outcome).inputs or {})["not_set"])

    def test_a_container_without_values_has_no_figures(self):
        node = Node()
        node.happen(
            ContainerCreating(
                NIGHT,
                container("c", "night", resources=Resources()),
                replace(RECLAIMED, handler="pod", knobs=NO_KNOBS),
            )
        )
        assert not [name for name in _pod_limit(node, NIGHT).inputs or {} if name.startswith("c.")]


class TestLife:
    def test_a_container_that_ends_gives_back_its_part_of_the_pods(self):
        node = Node()
        node.create("a", wish=SLOWED, resources=Resources(quota=1000))
        node.create("b", wish=SLOWED, resources=Resources(quota=600))
        outcome = node.stop("b")
        assert outcome.moves.pods == ("web",)
        assert outcome.decisions[1].after == Knobs(burst=500, memory_high=100)
        assert [each.event.value for each in node.stop("a").decisions] == ["container.release"]

    def test_a_resize_of_one_changes_the_pods(self):
        node = Node()
        node.create("a", wish=SLOWED, resources=Resources(quota=1000))
        outcome = node.update("a", Resources(quota=2000), SLOWED)
        assert outcome.moves.pods == ("web",)
        assert outcome.decisions[0].after == Knobs(burst=1000)
        assert node.update("a", Resources(quota=2000), SLOWED).moves.pods == ()

    def test_a_registration_comes_to_the_same_and_tells_of_it(self):
        node = Node()
        node.create("a", 2000, BOUND)
        node.create("b", 100, SLOWED, on="other", resources=Resources(quota=1000))
        again = node.anew()
        assert [of(again, k) for k in ("web", "other")] == [of(node, k) for k in ("web", "other")]
        other = Node()
        other.listed = dict(node.listed)
        told = [d.after for d in other.happen(node.listing()).decisions if d.event.value == "pod.limit"]
        assert Knobs(cpus="0-1", mems="0") in told

    def test_other_settings_for_the_handler_move_the_pod(self):
        node = Node()
        node.create("a", wish=SLOWED, resources=Resources(quota=1000))
        plain = replace(SLOWED, handler="container")
        assert node.reconfigure(wishes={"a": plain}, pod_wishes={"web": plain}).moves.pods == ("web",)
        assert of(node) == NO_KNOBS


def a_second(node: Node, knobs: Knobs) -> Any:
    return node.happen(ContainerCreating(NIGHT, container("second", "night"), replace(LENT, knobs=knobs)))


@pytest.mark.parametrize(("handler", "is_vm"), [("pod", True), ("", False)], ids=["vm", "plain"])
def test_only_a_vms_limit_names_its_runtime_handler(handler, is_vm):
    node = a_night(replace(RECLAIMED, handler=handler))
    assert ("runtime handler kata" in _pod_limit(node, NIGHT).because) is is_vm


def _pod_limit(node: Node, pod: Pod) -> Any:
    return reclaim_cgroups.limit(Node().state, node.state, pod, node.state.pods[pod.id].wish)
