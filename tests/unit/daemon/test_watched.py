"""Who is measured as what."""

import pytest

from nri_coloc.daemon import watched
from nri_coloc.model.events import ContainerCreating, PodStarted
from nri_coloc.model.readings import Role
from nri_coloc.model.workload import Pod, QoSClass, Resources, Wish
from nri_coloc.sampling.groups import ContainerFacts, PodFacts
from tests.unit.daemon.kit import a_node, create, start_pod
from tests.unit.policy import kit


def roles(node) -> dict[str, Role]:
    return {pod.path: pod.role for pod in watched.facts(node.state).pods}


def test_a_pod_of_the_box_is_its_member_and_others_are_online():
    node = a_node()
    start_pod(node, "batch")
    create(node, "job", kit.RECLAIMED, 0, on="batch")
    create(node, "app")
    assert roles(node) == {"kubepods/podbatch": Role.BOX, "kubepods/podweb": Role.ONLINE}


def test_an_agents_waiting_is_nobodys_business():
    node = a_node()
    start_pod(node, "agent", Wish(QoSClass.SYSTEM))
    assert roles(node) == {"kubepods/podagent": Role.SYSTEM}


def test_an_offline_pod_that_the_box_cannot_hold_is_not_in_it():
    node = a_node()
    start_pod(node, "mixed", Wish(QoSClass.RECLAIMED, mixed=True))
    assert roles(node) == {"kubepods/podmixed": Role.SYSTEM}


def test_a_container_with_cpus_of_its_own_is_dedicated_and_shares_none_with_the_box():
    node = a_node()
    create(node, "main", kit.DEDICATED, 2000, on="db")
    (pod,) = watched.facts(node.state).pods
    assert pod.containers == (ContainerFacts("kubepods/poddb/main", dedicated=True),)
    assert not pod.shares_box


def test_a_shared_container_shares_its_cpus_with_the_box():
    node = a_node()
    create(node, "app")
    (pod,) = watched.facts(node.state).pods
    assert pod == PodFacts("kubepods/podweb", Role.ONLINE, (ContainerFacts("kubepods/podweb/app"),))


def test_a_quota_is_told():
    node = a_node()
    asked = Resources(shares=1024, quota=100_000, period=100_000)
    container = kit.container("app", resources=asked, cgroups_path="/kubepods/podweb/app")
    node.decide(ContainerCreating(kit.pod(), container, kit.SHARED))
    assert watched.facts(node.state).pods[0].containers[0].limited


def test_a_pod_that_shares_its_cgroup_with_others_is_told_as_such():
    node = a_node()
    pod = Pod("x", cgroup_parent="/kubepods/besteffort")
    node.decide(PodStarted(pod, kit.RECLAIMED))
    assert roles(node) == {"kubepods/besteffort": Role.SYSTEM}
    assert watched.subjects(node.state).pods == {}


@pytest.mark.parametrize("parent", ["", "../..", "a\0b"])
def test_a_pod_whose_cgroup_cannot_be_told_is_left_out(parent):
    node = a_node()
    node.decide(PodStarted(Pod("x", cgroup_parent=parent), kit.SHARED))
    assert roles(node) == {}
    assert watched.facts(node.state).kubepods == ""


def test_everybody_is_in_the_picture_by_id():
    node = a_node()
    create(node, "app")
    found = watched.subjects(node.state, {"yarn": "yarn/nm"})
    assert (found.kubepods, found.pods, found.containers, found.host_groups) == (
        "kubepods",
        {"web": "kubepods/podweb"},
        {"app": "kubepods/podweb/app"},
        {"yarn": "yarn/nm"},
    )
    assert found.nodes == tuple(node.id for node in node.state.topology.nodes)
