"""The state gives the cgroups that the fast loop reads."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, ContainerUpdating, PodStarted, PoolsSized
from nri_coloc.core.readings import Role
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Pod, QoSClass, Resources, Wish
from nri_coloc.lending import measured_groups
from nri_coloc.lending.groups import Group
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from tests.unit.parts import MEMORY, a_node, create, start_pod
from tests.unit.placing import kit


def groups(node, role: Role) -> list[Group]:
    return [
        group for group in measured_groups.groups_of(node.state, node.state.pools.free) if group.role is role
    ]


def test_on_an_empty_node_all_is_the_systems():
    state = a_node().state
    assert measured_groups.groups_of(state, state.pools.free) == (Group(Role.PODS), Group(Role.SYSTEM, ("",)))


def test_a_member_of_the_box_is_measured_as_such():
    node = a_node()
    start_pod(node, "batch")
    assert [group.add for group in groups(node, Role.BOX)] == [("kubepods/podbatch",)]


def test_an_online_pod_is_listened_to_for_stalls():
    node = a_node()
    create(node, "app")
    assert [group.stalled for group in groups(node, Role.ONLINE)] == ["kubepods/podweb"]


def test_a_dedicated_container_is_left_out_of_the_online_use():
    node = a_node()
    create(node, "db", kit.DEDICATED, 2000)
    assert [group.add for group in groups(node, Role.DEDICATED)] == [("kubepods/podweb",)]
    assert groups(node, Role.ONLINE) == []


def test_a_dedicated_container_beside_one_in_share_is_left_out_alone():
    node = a_node()
    create(node, "db", kit.DEDICATED, 2000)
    create(node, "exporter")
    assert [group.add for group in groups(node, Role.DEDICATED)] == [("kubepods/podweb/db",)]
    assert [group.stalled for group in groups(node, Role.ONLINE)] == ["kubepods/podweb/exporter"]


def test_only_a_wholly_known_pod_stands_for_owners():
    node = a_node()
    create(node, "db", kit.DEDICATED, 2000)
    for name in ("a", "b"):
        create(node, name, kit.DEDICATED, 100)
    create(node, "other")
    (found,) = groups(node, Role.DEDICATED)
    assert (found.add, found.less) == (("kubepods/podweb",), ("kubepods/podweb/other",))
    elsewhere = kit.container("elsewhere", "web", cgroups_path="")
    node.decide(ContainerCreating(kit.pod("web"), elsewhere, kit.SHARED))
    assert [group.less for group in groups(node, Role.DEDICATED)] == [(), (), ()]


def test_an_online_pods_reclaimed_container_counts_as_reclaimed():
    node = a_node()
    create(node, "app")
    create(node, "job", kit.RECLAIMED)
    assert [group.add for group in groups(node, Role.BOX)] == [("kubepods/podweb/job",)]
    assert [group.stalled for group in groups(node, Role.ONLINE)] == ["kubepods/podweb/app"]


class TestVM:
    """A VM's stall is read from its pod's cgroup, because its containers have no cgroups."""

    VM = replace(kit.SHARED, handler="pod")

    def limit(self, node: Node, name: str, wish: Wish) -> None:
        create(node, name, wish, 1000)
        known = node.state.containers[name]
        resources = Resources(shares=1024, quota=100_000, period=100_000)
        node.decide(ContainerUpdating(kit.pod("web"), known.container, known.wish, resources))

    def test_a_limited_containers_stall_excludes_the_pods_throttled_time(self):
        node = a_node()
        self.limit(node, "app", self.VM)
        create(node, "side", self.VM)
        (heard,) = groups(node, Role.ONLINE)
        assert (heard.stalled, heard.throttled) == ("kubepods/podweb", ("kubepods/podweb",))

    def test_a_limited_container_has_its_own_and_its_pods_quota(self):
        node = a_node()
        self.limit(node, "app", kit.SHARED)
        (heard,) = groups(node, Role.ONLINE)
        assert heard.throttled == ("kubepods/podweb/app", "kubepods/podweb")

    def test_without_one_it_was_never_held_back(self):
        node = a_node()
        create(node, "app", self.VM)
        (heard,) = groups(node, Role.ONLINE)
        assert (heard.stalled, heard.throttled) == ("kubepods/podweb", ())

    def test_a_vms_containers_count_as_one_pod(self):
        node = a_node()
        create(node, "db", replace(kit.DEDICATED, handler="pod"), 2000)
        create(node, "side", self.VM)
        assert groups(node, Role.DEDICATED) == []
        assert [group.stalled for group in groups(node, Role.ONLINE)] == ["kubepods/podweb"]

    def test_with_own_cpus_it_is_dedicated_as_a_whole(self):
        node = a_node()
        create(node, "db", replace(kit.DEDICATED, handler="pod"), 2000)
        assert [group.add for group in groups(node, Role.DEDICATED)] == [("kubepods/podweb",)]
        assert groups(node, Role.ONLINE) == []

    def test_a_pod_without_a_cgroup_of_its_own_is_not_heard(self):
        node = a_node()
        pod = replace(kit.pod("web"), cgroup_parent="/kubepods/besteffort")
        container = kit.container("app", "web", cgroups_path="/kubepods/besteffort/app")
        node.decide(ContainerCreating(pod, container, self.VM))
        assert groups(node, Role.ONLINE) == []


@pytest.mark.parametrize(
    "wish", [replace(kit.SHARED, pool="gold"), replace(kit.SYSTEM, pool="agents")], ids=["online", "system"]
)
def test_members_of_a_pool_with_own_cpus_are_omitted(wish):
    agents = PoolTuning("agents", qos=QoSClass.SYSTEM, minimum=1)
    node = a_node(Tuning(pools=(PoolTuning("gold", minimum=2), agents)))
    create(node, "app", wish)
    assert [group.add for group in groups(node, Role.DEDICATED)] == [("kubepods/podweb",)]
    assert groups(node, Role.ONLINE) == []


def test_use_that_preserves_its_cpus_is_claimed():
    node = a_node()
    start_pod(node, "batch", replace(kit.RECLAIMED, preserve=frozenset({"cpu"})))
    assert node.state.boxed("batch")
    found = measured_groups.groups_of(node.state, node.state.pools.free)
    assert [group.role for group in found] == [Role.PODS, Role.SYSTEM]


def test_a_neighbour_in_a_qos_cgroup_is_subtracted_from_members_use():
    node = a_node()
    for name in ("a", "b", "c"):
        node.decide(PodStarted(best_effort(name), kit.RECLAIMED))
    node.decide(PodStarted(best_effort("free"), replace(kit.RECLAIMED, preserve=frozenset({"cpu"}))))
    (found,) = groups(node, Role.BOX)
    assert (found.add, found.less) == (("kubepods/besteffort",), ("kubepods/besteffort/podfree",))


def best_effort(name: str) -> Pod:
    return replace(kit.pod(name), cgroup_parent=f"/kubepods/besteffort/pod{name}")


def test_a_member_pinned_by_the_kubelet_is_left_out_once():
    node = a_node(Tuning(kept_by_kubelet={"uid-batch": {"job": kit.mask("2-3")}}))
    pinned = replace(kit.RECLAIMED, preserve=frozenset({"cpu"}))
    start_pod(node, "batch", pinned)
    resources = kit.asking(1000, cpus="2-3")
    container = kit.container("job", "batch", resources=resources, cgroups_path="/kubepods/podbatch/job")
    node.decide(ContainerCreating(kit.pod("batch"), container, pinned))
    assert [group.add for group in groups(node, Role.DEDICATED)] == [("kubepods/podbatch",)]
    assert groups(node, Role.BOX) == []


def test_cpus_that_are_nobodys_are_measured_by_themselves():
    machine = kit.machine("isolated")
    node = Node(pools.initial(machine, Tuning(reserved_count=1)), Tuning(reserved_count=1), MEMORY)
    create(node, "app", replace(kit.DEDICATED, pool="isolated"))
    (found,) = groups(node, Role.RESERVED)
    assert found.cpus == kit.mask("0,2-3")


def test_a_container_directly_below_a_qos_cgroup_splits_it():
    node = a_node()
    for name in ("a", "b", "c"):
        node.decide(PodStarted(best_effort(name), kit.RECLAIMED))
    assert [group.add for group in groups(node, Role.BOX)] == [("kubepods/besteffort",)]
    straight = replace(kit.pod("by-hand"), cgroup_parent="/kubepods/besteffort")
    container = kit.container("x", "by-hand", cgroups_path="/kubepods/besteffort/x")
    node.decide(ContainerCreating(straight, container, kit.SHARED))
    assert len(groups(node, Role.BOX)) == 3


class TestAcquaintance:
    """Known pods are not looked up again. That this finds the same as a new search is tested as a property."""

    def test_who_stayed_is_not_looked_at_again(self):
        node, known = a_node(), measured_groups.PodFactsCache()
        create(node, "app")
        (before,) = known.of(node.state, 0)
        start_pod(node, "batch")
        assert known.of(node.state, 0)[0] is before

    def test_who_has_another_container_is(self):
        node, known = a_node(), measured_groups.PodFactsCache()
        create(node, "app")
        known.of(node.state, 0)
        create(node, "side")
        (found,) = known.of(node.state, 0)
        assert [container.path for container in found.containers] == [
            "kubepods/podweb/app",
            "kubepods/podweb/side",
        ]

    def test_all_are_where_cpus_got_another_owner(self):
        node, known = a_node(), measured_groups.PodFactsCache()
        create(node, "app")
        assert [pod.apart for owned in (0, 0b11111111) for pod in known.of(node.state, owned)] == [
            False,
            True,
        ]


class TestSame:
    """Groups that a change of the state does not affect are not chosen again."""

    def same(self, before, after) -> bool:
        return measured_groups.is_the_same(before, after, Tuning().reclaim)

    def test_a_state_is_itself(self):
        state = a_node().state
        assert self.same(state, state)

    def test_another_size_of_the_box_changes_nobodys_group(self):
        node = a_node()
        before = node.state
        node.decide(PoolsSized({"reclaim": 2}, "pool resized: a test wants it"))
        assert self.same(before, node.state)

    def test_who_comes_is_looked_for(self):
        node = a_node()
        before = node.state
        create(node, "app")
        assert not self.same(before, node.state)

    @pytest.mark.parametrize("changed", [{"reserved": 0b1}, {"kept": 0b1}, {"tiers": {"gold": 0b1}}])
    def test_cpus_that_are_lent_no_more_change_whose_use_counts(self, changed):
        state = a_node().state
        fewer = replace(state.pools, share=0b11111110, reclaim=0b11111110, **changed)
        assert not self.same(state, replace(state, pools=fewer))


def test_what_runs_beside_kubepods_is_the_rest_of_the_root():
    node = a_node()
    create(node, "app")
    assert [(group.add, group.less) for group in groups(node, Role.SYSTEM)] == [(("",), ("kubepods",))]


class TestTiers:
    PLAN = (PoolTuning("gold", band=(0.3, 0.5)), PoolTuning("name"))

    def found(self, node) -> list[tuple[str, tuple[str, ...]]]:
        return [(group.tier, group.add) for group in measured_groups.tier_groups_of(node.state)]

    def node(self):
        return a_node(Tuning(pools=self.PLAN))

    def test_a_pod_is_measured_as_its_containers_tier(self):
        node = self.node()
        create(node, "app", replace(kit.SHARED, pool="gold"), on="one")
        create(node, "other", replace(kit.SHARED, pool="name"), on="two")
        assert self.found(node) == [("gold", ("kubepods/podone",)), ("share", ("kubepods/podtwo",))]

    def test_containers_of_several_tiers_are_measured_one_by_one(self):
        node = self.node()
        create(node, "app", replace(kit.SHARED, pool="gold"))
        create(node, "side")
        assert self.found(node) == [("gold", ("kubepods/podweb/app",)), ("share", ("kubepods/podweb/side",))]

    @pytest.mark.parametrize(
        "wish",
        [kit.RECLAIMED, kit.DEDICATED, kit.SYSTEM, replace(kit.SHARED, preserve=frozenset({"cpu"}))],
        ids=["reclaimed", "dedicated", "system", "left alone"],
    )
    def test_who_is_in_no_pool_by_load_is_not_measured(self, wish):
        node = self.node()
        create(node, "app", wish, 2000)
        assert self.found(node) == []

    def test_a_sidecar_on_owned_cpus_is_no_tiers(self):
        node = self.node()
        create(node, "main", kit.DEDICATED, 2000)
        create(node, "side", kit.DEDICATED, 100)
        assert self.found(node) == []

    def test_a_pod_without_a_container_is_not_measured(self):
        node = self.node()
        start_pod(node, "web", kit.SHARED)
        assert self.found(node) == []


def test_a_host_group_is_a_member_of_the_box():
    node = a_node()
    create(node, "app")
    found = measured_groups.groups_of(node.state, node.state.pools.free, ("hadoop-yarn",))
    assert Group(Role.HOST, ("hadoop-yarn",)) in found
