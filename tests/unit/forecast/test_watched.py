"""The full snapshot has every pod and container by id."""

import pytest

from nri_coloc.core.decisions import PodStarted
from nri_coloc.core.workload import Pod
from nri_coloc.forecast import node_snapshots as watched
from nri_coloc.forecast.snapshot import Subjects
from nri_coloc.host.cgroup_layout import CgroupLayout
from tests.unit.parts import a_node, create
from tests.unit.placing import kit


def test_everybody_is_in_the_picture_by_id():
    node = a_node()
    create(node, "app")
    found = watched.subjects(node.state, node.state.pools.free, {"yarn": "yarn/nm"})
    assert (found.kubepods, found.pods, found.containers, found.host_groups) == (
        ("kubepods",),
        {"web": "kubepods/podweb"},
        {"app": "kubepods/podweb/app"},
        {"yarn": "yarn/nm"},
    )
    assert found.nodes == tuple(one.id for one in node.state.topology.nodes)


@pytest.mark.parametrize("parent", ["", "../..", "a\0b", "/kubepods/besteffort"])
def test_a_pod_without_a_cgroup_of_its_own_is_not(parent):
    node = a_node()
    node.decide(PodStarted(Pod("x", cgroup_parent=parent), kit.SHARED))
    found = watched.subjects(node.state, node.state.pools.free)
    assert (found.kubepods, found.pods) == ((), {})


@pytest.mark.parametrize(
    "name", ["kubepods", "kubepods.slice", "kubelet/kubepods", "kubelet.slice/kubelet-kubepods.slice"]
)
def test_kubepods_is_known_before_first_pod(name, tmp_path):
    (tmp_path / name).mkdir(parents=True)
    layout = CgroupLayout(2, cpu=str(tmp_path))
    assert watched.with_kubepods(Subjects(), layout).kubepods == (name,)
    known = Subjects(kubepods=("elsewhere/kubepods",))
    assert watched.with_kubepods(known, layout).kubepods == ("elsewhere/kubepods",)


def test_two_kubelets_show_no_kubepods_before_first_pod(tmp_path):
    for name in ("kubepods", "kubelet/kubepods"):
        (tmp_path / name).mkdir(parents=True)
    assert watched.with_kubepods(Subjects(), CgroupLayout(2, cpu=str(tmp_path))).kubepods == ()


def test_pods_of_two_kubelets_show_both_kubepods():
    node = a_node()
    for name in ("kubepods/podone", "kubelet/kubepods/podtwo", "kubepods/podthree"):
        node.decide(PodStarted(Pod(name, cgroup_parent=f"/{name}"), kit.SHARED))
    found = watched.subjects(node.state, node.state.pools.free)
    assert found.kubepods == ("kubepods", "kubelet/kubepods")


def test_where_there_is_no_such_cgroup_nothing_is_known(tmp_path):
    assert watched.with_kubepods(Subjects(), CgroupLayout(2, cpu=str(tmp_path))).kubepods == ()
    assert watched.with_kubepods(Subjects(), CgroupLayout(1)).kubepods == ()


def test_pods_of_both_cgroup_drivers_show_both_kubepods():
    node = a_node()
    for parent in ("/kubepods/podone", "/kubepods-burstable-podtwo.slice"):
        node.decide(PodStarted(Pod(parent, cgroup_parent=parent), kit.SHARED))
    found = watched.subjects(node.state, node.state.pools.free)
    assert found.kubepods == ("kubepods", "kubepods.slice")
