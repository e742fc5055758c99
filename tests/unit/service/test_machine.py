"""A runtime with another cgroup driver, and cgroups of two kubelets, are named with a remedy."""

from pathlib import Path

from nri_coloc.host import cgroup_layout
from nri_coloc.service.machine import Machine
from tests.unit.placing import kit

SCOPE = "kubepods-burstable-podweb.slice:cri-containerd:app"


def problem(root: Path, path: str) -> str:
    """Return the problem of a machine on which a container's cgroup has this path below the hierarchy's root."""
    node = kit.Node()
    node.create("app", 1000, cgroups_path=SCOPE)
    return machine(root, path).problem(node.state)


def machine(root: Path, *paths: str) -> Machine:
    """Return a machine with these cgroups."""
    hierarchy = root / "sys/fs/cgroup"
    for path in paths:
        (hierarchy / path).mkdir(parents=True)
    (hierarchy / "cgroup.controllers").write_text("cpuset cpu io memory")
    return Machine(str(root), cgroup_layout.detect(str(root)))


def test_two_cgroup_drivers_are_named_with_a_remedy(tmp_path: Path):
    said = problem(tmp_path, SCOPE)
    assert said.startswith(
        f"containers lie outside their pods' cgroups, as /{SCOPE}: the kubelet's cgroup driver"
    )
    assert "SystemdCgroup = true" in said


def test_scope_in_its_slice_is_no_problem(tmp_path: Path):
    place = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podweb.slice/cri-containerd-app.scope"
    assert problem(tmp_path, place) == ""


def test_cgroups_of_two_kubelets_are_named(tmp_path: Path):
    said = machine(tmp_path, "kubepods", "kubepods.slice").remark(kit.Node().state)
    assert said.startswith("2 cgroups may be the cgroup of all pods (/kubepods, /kubepods.slice): ")


def test_first_pod_shows_its_kubelet(tmp_path: Path):
    found, node = machine(tmp_path, "kubepods", "kubepods.slice"), kit.Node()
    node.create("app", 1000)
    assert found.remark(node.state) == ""
