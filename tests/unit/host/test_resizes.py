"""host/resizes.py: the kubelet's value in a file of a pod's cgroup is told from every value of ours."""

import pytest

from nri_coloc.host import resizes
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import FileValue
from tests.rig.journals import load, restored
from tests.unit.host.host import SHARES, WEIGHT, Host

POD = "/sys/fs/cgroup/kubepods/burstable/pod1"
PATH = "kubepods/burstable/pod1"
FILES = ("cpu.shares", "2048"), ("cpu.weight", "79"), ("cpu.max", "400000 100000"), ("memory.max", "max")


@pytest.mark.parametrize(
    ("file", "shown", "original", "is_kubelets"),
    [
        ("cpu.shares", "2048", "102", True),
        ("cpu.shares", "2", "102", False),
        ("cpu.shares", "102\n", "102", False),
        ("cpu.weight", "79", "4", True),
        ("cpu.weight", "1", "4", False),
        ("memory.max", "max", "4096", True),
        ("memory.max", "2048", "4096", False),
        ("memory.limit_in_bytes", "8192", "4096", True),
        ("memory.limit_in_bytes", "4096", "-1", False),
        ("cpu.max", "400000 100000", "200000 100000", True),
        ("cpu.max", "max 100000", "200000 100000", True),
        ("cpu.max", "250001 100000", "200000 100000", False),
        ("cpu.max", "400000 100000", "max 100000", False),
        ("cpu.cfs_quota_us", "400000", "200000", True),
        ("cpu.cfs_quota_us", "250001", "200000", False),
        ("memory.min", "1024", "4096", True),
        ("memory.low", "0", "max", True),
        ("memory.min", "8192", "4096", False),
        ("io.weight", "default 50", "default 100", False),
        ("cpuset.cpus", "0-3", "0-7", False),
    ],
)
def test_values_of_ours_have_marks(file, shown, original, is_kubelets):
    assert resizes.is_kubelets(f"{POD}/{file}", shown, original) is is_kubelets


@pytest.mark.parametrize("folder", [f"{POD}/app", "/sys/fs/cgroup/kubepods/burstable", "/sys/fs/cgroup/jobs"])
def test_only_cgroups_of_pods_are_judged(folder):
    assert not any(resizes.is_kubelets(f"{folder}/{name}", shown, "1") for name, shown in FILES)


@pytest.mark.parametrize(
    ("shown", "is_kubelets"), [("max", True), ("2048", False)], ids=["raised", "lowered"]
)
def test_a_bound_that_is_only_lowered_is_judged_anywhere(shown, is_kubelets):
    file = "/sys/fs/cgroup/jobs/memory.max"
    assert resizes.is_kubelets(file, shown, "4096", only_lowered=True) is is_kubelets


def test_a_file_without_an_original_is_not_judged():
    assert not any(resizes.is_kubelets(f"{POD}/{name}", shown, None) for name, shown in FILES)


@pytest.fixture(params=[1, 2])
def host(tmp_path, request: pytest.FixtureRequest) -> Host:
    """Return a host on which the daemon wrote the least weight to a pod's cgroup."""
    host = Host(tmp_path, request.param)
    host.cgroup(PATH, **{name.replace(".", "_", 1): "100" for name in ("cpu.shares", "cpu.weight")})
    host.apply("", weight(host), path=PATH, journalled=True)
    return host


def weight(host: Host) -> FileValue:
    return SHARES if host.version == 1 else WEIGHT


def resize(host: Host) -> str:
    """Write a pod's weight as the kubelet does; return the file's name."""
    name = weight(host).name
    host.cgroup(PATH, **{name.replace(".", "_", 1): "777"})
    return name


def test_the_next_process_adopts_a_resize_while_stopped(host):
    name = resize(host)
    host.writer = CgroupWriter(host.writer._layout, host.journal, str(host.root), lambda _: None)
    host.apply("", weight(host), path=PATH, journalled=True)
    assert (host.text(name, PATH), host.noted()[name]) == (weight(host).text, "777")


def test_restore_leaves_a_resize_while_stopped(host):
    name = resize(host)
    done = restored(host.journal_path, str(host.root), host.version)
    assert [file.rpartition("/")[2] for file in done.done] == [name]
    assert (host.text(name, PATH), load(host.journal_path)) == ("777", {})


def test_the_daemons_end_leaves_a_resize_while_stopped(host):
    name = resize(host)
    host.writer = CgroupWriter(host.writer._layout, host.journal, str(host.root), lambda _: None)
    assert host.writer.put_back(PATH, frozenset()) == ()
    assert (host.text(name, PATH), host.noted()) == ("777", {})


def test_a_reset_beside_a_running_daemon_is_no_resize(host):
    name = resize(host)
    host.apply("", weight(host), path=PATH, journalled=True)
    assert host.noted()[name] == "100"


@pytest.fixture(params=["kubepods/burstable", PATH], ids=["class", "pod"])
def raised(tmp_path, request: pytest.FixtureRequest) -> tuple[Host, str]:
    """Return a host on which the daemon raised a protection, and the cgroup; the kubelet lowered it meanwhile."""
    host = Host(tmp_path, 2)
    host.cgroup(request.param, memory_min="4096")
    host.writer.protect(request.param, "memory.min", 8192)
    host.cgroup(request.param, memory_min="1024")
    host.writer = CgroupWriter(host.writer._layout, host.journal, str(host.root), lambda _: None)
    return host, request.param


def test_the_next_process_adopts_a_protection_lowered_while_stopped(raised):
    host, path = raised
    host.writer.protect(path, "memory.min", 8192)
    assert (host.text("memory.min", path), host.noted()["memory.min"]) == ("8192", "1024")
    host.writer.protect(path, "memory.min", 0)
    assert host.text("memory.min", path) == "1024"


def test_restore_leaves_a_protection_lowered_while_stopped(raised):
    host, path = raised
    restored(host.journal_path, str(host.root), 2)
    assert host.text("memory.min", path) == "1024"


def test_a_containers_lower_protection_may_be_ours():
    assert not resizes.is_kubelets(f"{POD}/app/memory.min", "1024", "4096")
