"""The CPUs that pods may have are found, and the outermost file that withholds the others."""

from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import granted
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.granted import Granted

ONLINE = cpuset.parse("0-7")
FILES = {1: "cpuset.cpus", 2: "cpuset.cpus.effective"}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupLayout:
    return CgroupLayout(request.param, cpuset=str(tmp_path))


def has(layout: CgroupLayout, path: str, cpus: str) -> None:
    folder = Path(layout.folder("cpuset", path) or "")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILES[layout.version]).write_text(f"{cpus}\n")


def read(layout: CgroupLayout, place: str) -> tuple[str, str]:
    found = granted.read(layout, (place,) if place else (), ONLINE)
    return cpuset.render(found.cpus), found.file


def test_all_cpus_without_narrower_cgroup(layout):
    has(layout, "", "0-7")
    has(layout, "kubepods", "0-7")
    assert read(layout, "kubepods") == ("0-7", "")
    assert read(layout, "") == ("0-7", "")


def test_outermost_narrower_file_is_named(layout):
    has(layout, "kubelet", "0-5")
    has(layout, "kubelet/kubepods", "2-5")
    assert read(layout, "kubelet/kubepods") == ("2-5", "/kubelet/cpuset.cpus")


def test_burstable_cgroup_counts(layout):
    has(layout, "kubepods.slice/kubepods-burstable.slice", "0-3")
    found = read(layout, "kubepods.slice")
    assert found == ("0-3", "/kubepods.slice/kubepods-burstable.slice/cpuset.cpus")


def test_besteffort_cgroup_does_not_count(layout):
    has(layout, "kubepods/besteffort", "0")
    assert read(layout, "kubepods") == ("0-7", "")


def test_root_of_a_container_counts(layout):
    has(layout, "", "1")
    assert read(layout, "") == ("1", "/cpuset.cpus")


def test_garbage_narrows_nothing(layout):
    has(layout, "kubepods", "all of them")
    assert read(layout, "kubepods") == ("0-7", "")


def test_pods_of_two_kubelets_have_their_common_cpus(layout):
    has(layout, "kubepods", "0-5")
    has(layout, "kubelet/kubepods", "4-7")
    found = granted.read(layout, ("kubepods", "kubelet/kubepods"), ONLINE)
    assert (cpuset.render(found.cpus), found.file) == ("4-5", "/kubepods/cpuset.cpus")


def test_empty_set_leaves_no_cpu(layout):
    has(layout, "kubepods", "")
    found = granted.read(layout, ("kubepods",), ONLINE)
    assert "/kubepods/cpuset.cpus has no CPU" in granted.problem(found, ONLINE)


def test_without_cpuset_controller_nothing_is_known():
    assert granted.read(CgroupLayout(1), ("kubepods",), ONLINE) == Granted(ONLINE)


def test_sentences_are_short_enough_for_audit():
    far = Granted(cpuset.parse("0-127"), "/kubelet.slice/kubelet-kubepods.slice/cpuset.cpus")
    assert len(granted.change(far, cpuset.parse("0-255"))) <= 160
    assert granted.change(Granted(ONLINE), ONLINE) == "pods may have all online CPUs, 0-7"


@pytest.mark.parametrize(("has", "told"), [("", granted.problem), ("4-7", granted.remark)])
def test_remedy_names_every_cpu_for_systemd(has, told):
    """For an empty list systemd leaves the file as it is."""
    sentence = told(Granted(cpuset.parse(has), "/kubepods.slice/cpuset.cpus"), ONLINE)
    assert "(AllowedCPUs=0-7 of its systemd unit)" in sentence
