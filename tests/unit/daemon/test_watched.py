"""Who is in the full picture."""

import pytest

from nri_coloc.daemon import watched
from nri_coloc.model.events import PodStarted
from nri_coloc.model.workload import Pod
from tests.unit.daemon.kit import a_node, create
from tests.unit.policy import kit


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
    assert found.nodes == tuple(one.id for one in node.state.topology.nodes)


@pytest.mark.parametrize("parent", ["", "../..", "a\0b", "/kubepods/besteffort"])
def test_a_pod_without_a_cgroup_of_its_own_is_not(parent):
    node = a_node()
    node.decide(PodStarted(Pod("x", cgroup_parent=parent), kit.SHARED))
    found = watched.subjects(node.state)
    assert (found.kubepods, found.pods) == ("", {})
