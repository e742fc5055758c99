"""From the state to what the fast loop looks at."""

from nri_coloc.daemon import lookout
from nri_coloc.model.readings import Role
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


def test_a_host_group_is_a_member_of_the_box():
    node = a_node()
    create(node, "app")
    found = lookout.groups_of(node.state, ("hadoop-yarn",))
    assert Group(Role.BOX, ("hadoop-yarn",)) in found
