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


def test_partitions_of_other_cgroups_are_named(tmp_path):
    """The root of v2 has no cpuset.cpus, and its effective CPUs lack those of each partition."""
    layout = CgroupLayout(2, cpuset=str(tmp_path))
    has(layout, "", "0-5")
    has(layout, "kubepods", "0-5")
    found = granted.read(layout, ("kubepods",), ONLINE)
    assert granted.change(found, ONLINE) == (
        "pods may have CPUs 0-5 of 0-7: partitions of other cgroups have the others"
    )
    for said in (granted.remark(found, ONLINE), granted.problem(found._replace(cpus=0), ONLINE)):
        assert "partitions of other cgroups" in said
        assert "cpuset.cpus.partition" in said
        assert "AllowedCPUs" not in said


@pytest.mark.parametrize(
    ("outer", "inner", "wanted"),
    [
        ("0-2", "0-2", ("0-2", "/kubepods/cpuset.cpus")),
        ("2", "2", ("2", "/cpuset.cpus")),
        ("0-2", "1-2", ("1-2", "/kubepods/cpuset.cpus")),
    ],
    ids=["all pods", "beside a pod's own partition", "narrowed inside"],
)
def test_pods_in_a_partition_have_its_cpus(tmp_path, outer, inner, wanted):
    """The root has CPU 3 alone, as on Linux 6.12 where kubepods is a partition of CPUs 0-2."""
    layout = CgroupLayout(2, cpuset=str(tmp_path))
    has(layout, "", "3")
    has(layout, "kubepods", outer)
    has(layout, "kubepods/burstable", inner)
    found = granted.read(layout, ("kubepods",), cpuset.parse("0-3"))
    assert (cpuset.render(found.cpus), found.file) == wanted
    assert granted.problem(found, cpuset.parse("0-3")) == ""


def test_classes_of_pods_in_partitions_have_their_common_cpus(tmp_path):
    layout = CgroupLayout(2, cpuset=str(tmp_path))
    for path, cpus in (("", "0-7"), ("kubepods", "2-7"), ("kubepods/burstable", "0-3")):
        has(layout, path, cpus)
    assert read(layout, "kubepods") == ("2-3", "/kubepods/burstable/cpuset.cpus")


def test_the_root_of_a_cgroup_namespace_is_no_partition(tmp_path):
    layout = CgroupLayout(2, cpuset=str(tmp_path))
    has(layout, "", "0-5")
    (tmp_path / "cpuset.cpus").write_text("0-5\n")
    assert "AllowedCPUs" in granted.remark(granted.read(layout, ("kubepods",), ONLINE), ONLINE)


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
