"""core/kubepods.py: the kubelet's cgroups are recognised by their names."""

import pytest

from nri_coloc.core import kubepods
from nri_coloc.core.kubepods import kubepods_of

UID = "0f9b2c1e-7d1a-4c5e-9b60-3a1f2d4c5b6a"
IN_SLICE = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("kubepods/burstable/pod1", "kubepods"),
        ("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice", "kubepods.slice"),
        ("kubelet/kubepods/pod1", "kubelet/kubepods"),
        ("kubelet.slice/kubelet-kubepods.slice/x", "kubelet.slice/kubelet-kubepods.slice"),
        ("my-kubepods/pod1", ""),
        ("system.slice/pod1", ""),
        ("", ""),
    ],
    ids=["cgroupfs", "systemd", "cgroup root", "systemd root", "other name", "elsewhere", "none"],
)
def test_kubepods_is_found_in_a_pods_path(path, found):
    assert kubepods_of(path) == found


def test_pods_show_kubepods_of_each_kubelet():
    pods = ("kubepods/pod1", "kubelet/kubepods/burstable/pod2", "kubepods/besteffort/pod3", "elsewhere/pod4")
    assert kubepods.of_pods(pods) == ("kubepods", "kubelet/kubepods")
    assert kubepods.of_pods(()) == ()


@pytest.mark.parametrize(
    "folder",
    [
        f"/kubepods/pod{UID}",
        f"/sys/fs/cgroup/cpuset/kubepods/burstable/pod{UID}",
        f"/kubelet/kubepods/besteffort/pod{UID}",
        f"/kubepods.slice/kubepods-pod{IN_SLICE}.slice",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{IN_SLICE}.slice",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{IN_SLICE}.slice",
    ],
)
def test_a_pods_cgroup_is_known_under_either_driver(folder):
    assert kubepods.is_a_pods(folder)


@pytest.mark.parametrize(
    "folder",
    [
        "/hadoop-pods.slice",
        "/batch/worker-pod1",
        "/batch.slice/batch-pod1.slice",
        "/podman",
        "/machine.slice/pod1",
        "/my-kubepods/pod1",
        "/kubepods",
        "/kubepods/pod",
        "/kubepods/besteffort",
        "/kubepods.slice/kubepods-pod.slice",
        "/kubepods.slice/kubepods-besteffort.slice",
        f"/kubepods/pod{UID}/1f2e3d",
        f"/kubepods/pod{UID}/1f2e3d/pod2",
        f"/kubepods.slice/kubepods-pod{IN_SLICE}.slice/cri-containerd-1f2e.scope",
        "",
    ],
)
def test_no_other_cgroup_is_taken_for_one(folder):
    assert not kubepods.is_a_pods(folder)


V1 = ("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset")
POD = "/sys/fs/cgroup/cpuset/kubepods/burstable/pod1/cpuset.cpus"
SLICE = f"/sys/fs/cgroup/kubepods.slice/kubepods-pod{IN_SLICE}.slice/cpu.weight"
YARN = "/sys/fs/cgroup/cpu,cpuacct/yarn/cpu.shares"


@pytest.mark.parametrize(
    ("files", "mounts", "there"),
    [
        ([POD], V1, {POD}),
        ([POD, YARN], V1, {"/sys/fs/cgroup/cpuset/kubepods", *V1}),
        ([SLICE], ["/sys/fs/cgroup"], {"/sys/fs/cgroup/kubepods.slice", "/sys/fs/cgroup"}),
        ([YARN], V1, {*V1}),
        ([POD, YARN], V1, {*V1}),
        ([], V1, {*V1}),
        ([], [], set()),
    ],
    ids=[
        "the file is there",
        "all pods ended",
        "all pods ended under systemd",
        "a cgroup outside ended",
        "one outside ended too",
        "nothing was written",
        "nothing was written, nothing is mounted",
    ],
)
def test_what_pods_leave_tells_where_they_were(files, mounts, there):
    assert not kubepods.is_elsewhere(files, mounts, there.__contains__)


@pytest.mark.parametrize(
    ("files", "mounts", "there"),
    [
        ([POD, YARN], [], {"/sys/fs/cgroup"}),
        ([POD], V1, {*V1}),
        ([SLICE], ["/sys/fs/cgroup"], {"/sys/fs/cgroup"}),
        ([SLICE], V1, {"/sys/fs/cgroup/cpuset/kubepods", *V1}),
    ],
    ids=["no hierarchy", "no kubelet", "a container's own hierarchy", "another version"],
)
def test_where_nothing_of_a_kubelet_is_they_never_were(files, mounts, there):
    assert kubepods.is_elsewhere(files, mounts, there.__contains__)


@pytest.mark.parametrize(
    ("path", "best_effort"),
    [
        ("kubepods/burstable/pod1", "kubepods/besteffort"),
        ("kubepods/pod1", "kubepods/besteffort"),
        ("kubepods/besteffort/pod1", "kubepods/besteffort"),
        (
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice",
            "kubepods.slice/kubepods-besteffort.slice",
        ),
        (
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice",
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice",
        ),
        ("system.slice/pod1", ""),
        ("", ""),
    ],
)
def test_the_cgroup_of_best_effort_pods_lies_beside(path, best_effort):
    assert kubepods.best_effort_of(path) == best_effort
