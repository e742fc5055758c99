"""From the state to what the fast loop looks at."""

from dataclasses import replace

import pytest

from nri_coloc.daemon import lookout
from nri_coloc.model.readings import Role
from nri_coloc.model.tuning import PoolTuning, Tuning
from nri_coloc.sampling.groups import Group
from tests.unit.daemon.kit import a_node, create, start_pod
from tests.unit.policy import kit


def groups(node, role: Role) -> list[Group]:
    return [group for group in lookout.groups_of(node.state) if group.role is role]


def test_an_empty_node_has_nothing_to_look_at():
    assert lookout.groups_of(a_node().state) == ()


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
    assert [group.add for group in groups(node, Role.DEDICATED)] == [("kubepods/podweb/db",)]
    assert groups(node, Role.ONLINE) == []


def test_what_runs_beside_kubepods_is_the_rest_of_the_root():
    node = a_node()
    create(node, "app")
    assert [(group.add, group.less) for group in groups(node, Role.SYSTEM)] == [(("",), ("kubepods",))]


class TestTiers:
    PLAN = (PoolTuning("gold", band=(0.3, 0.5)), PoolTuning("name"))

    def found(self, node) -> list[tuple[str, tuple[str, ...]]]:
        return [(group.tier, group.add) for group in lookout.tier_groups_of(node.state)]

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
    found = lookout.groups_of(node.state, ("hadoop-yarn",))
    assert Group(Role.BOX, ("hadoop-yarn",)) in found
