"""hooks/pod_requests.py: a pod's CPU request is read from the value that the kubelet wrote to its cgroup."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core import knobs
from nri_coloc.core.workload import Pod, Resources
from nri_coloc.hooks.pod_requests import PodRequests
from nri_coloc.host.knob_files import FileValue
from tests.unit.host.host import Host

POD = "kubepods/burstable/pod1"
BEST_EFFORT = "kubepods/besteffort"
GIB = 1 << 30


@dataclass
class Files:
    """The file of CPU shares or weight of each cgroup, by path: its value now, and its original value."""

    version: int = 1
    now: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "cpu.shares" if self.version == 1 else "cpu.weight"

    def text(self, path: str, controller: str, name: str) -> str | None:
        assert (controller, name) == ("cpu", self.name)
        return self.now.get(path)

    def originals(self, path: str) -> dict[str, str]:
        return {self.name: self.before[path]} if path in self.before else {}


def read(files: Files, told: int | None = None, parent: str = f"/{POD}") -> int | None:
    resources = None if told is None else Resources(shares=told)
    return PodRequests(files, files.version).read(Pod("p", cgroup_parent=parent, resources=resources))


def v1(shares: Any, **others: str) -> Files:
    return Files(1, {POD: str(shares), BEST_EFFORT: "2", **others})


def v2(weight: Any, **others: str) -> Files:
    return Files(2, {POD: str(weight), BEST_EFFORT: "1", **others})


@pytest.mark.parametrize(
    ("shares", "milli"),
    [("2\n", 0), ("102", 100), ("1024", 1000), ("1536", 1500), ("4096\n", 4000), ("262144", 256_000)],
)
def test_shares_tell_it_exactly(shares, milli):
    assert read(v1(shares)) == milli


@pytest.mark.parametrize("milli", [100, 1000, 1500, 2000, 2020, 4000, 64_000])
@pytest.mark.parametrize("mapping", [knobs.cpu_weight, knobs.bent_cpu_weight])
def test_a_weight_that_agrees_with_what_was_told_tells_it_exactly(milli, mapping):
    shares = milli * 1024 // 1000
    assert read(v2(mapping(shares)), told=shares) == milli


@pytest.mark.parametrize("told", [None, 2, 8192], ids=["nothing", "less", "more"])
@pytest.mark.parametrize(
    ("weight", "milli"), [(39, 1000), (59, 1512), (79, 2000), (157, 4000), (100, 2562), (10_000, 256_000)]
)
def test_a_stale_word_leaves_the_upper_end_of_a_weight(weight, milli, told):
    assert read(v2(weight), told) == milli


@pytest.mark.parametrize("milli", range(10, 9000, 37))
@pytest.mark.parametrize("mapping", [knobs.cpu_weight, knobs.bent_cpu_weight])
def test_the_upper_end_covers_both_mappings(milli, mapping):
    found = read(v2(mapping(milli * 1024 // 1000)))
    assert found is not None
    assert found >= milli // 1000 * 1000
    assert found >= milli - 26


@pytest.mark.parametrize(("version", "default"), [(1, 1024), (2, 100)])
@pytest.mark.parametrize("best_effort", [None, "default"])
def test_the_kernels_default_tells_nothing_without_a_kubelet(version, default, best_effort):
    files = Files(version, {POD: str(default)})
    if best_effort:
        files.now[BEST_EFFORT] = str(default)
    assert read(files) is None


@pytest.mark.parametrize(("files", "milli"), [(v1(1024), 1000), (v2(100), 2562)], ids=["v1", "v2"])
def test_the_kernels_default_is_a_request_beside_a_kubelet(files, milli):
    assert read(files) == milli


def test_a_value_that_is_no_default_needs_no_kubelet():
    assert read(Files(1, {POD: "2048"})) == 2000


@pytest.mark.parametrize("text", ["", "max", "-1", "1e3", "9" * 10, "٣"], ids=repr)
def test_what_is_no_number_tells_nothing(text):
    assert read(v1(text)) is None


@pytest.mark.parametrize("parent", ["", "/kubepods/burstable", "system.slice", "/kubepods/../pod1"])
def test_a_pod_without_a_cgroup_of_its_own_tells_nothing(parent):
    assert read(v1(4096), parent=parent) is None


@pytest.mark.parametrize(("told", "milli"), [(0, None), (2, 0), (2048, 2000)])
def test_without_pods_cgroups_the_sandbox_tells_it(told, milli):
    assert read(Files(), told, parent="") == milli


@pytest.mark.parametrize(("version", "ours", "was", "milli"), [(1, "2", "2048", 2000), (2, "1", "79", 2000)])
def test_our_own_weight_is_no_request(version, ours, was, milli):
    files = Files(version, {POD: ours, BEST_EFFORT: ours}, {POD: was})
    assert read(files) == milli
    files.before.clear()
    assert read(files) in (0, 28)


def test_a_newer_value_than_the_journals_counts():
    files = v1(4096)
    files.before[POD] = "2048"
    assert read(files) == 4000


@pytest.mark.parametrize("version", [1, 2])
def test_it_is_read_from_files(version: int, tmp_path: Path):
    host = Host(tmp_path, version)
    host.cgroup(POD, **{"cpu_shares": "2048"} if version == 1 else {"cpu_weight": "79"})
    assert PodRequests(host.writer, version).read(Pod("p", cgroup_parent=f"/{POD}")) == 2000


LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}


def memory(
    host: Host, version: int, limit: str, *, parent: str = "kubepods/pod1", ours: bool = False
) -> int | None:
    """Return the memory request of a pod with 64 MiB of overhead whose cgroup has this limit."""
    host.cgroup(parent, **{LIMIT[version].replace(".", "_", 1): limit})
    if ours:
        host.writer.bound(parent, (FileValue("memory", LIMIT[version], str(GIB)),))
    pod = Pod("p", cgroup_parent=f"/{parent}", overhead_bytes=64 << 20)
    return PodRequests(host.writer, version).memory(pod)


@pytest.mark.parametrize("version", [1, 2])
class TestMemory:
    def test_the_limit_of_a_guaranteed_pod_is_its_request(self, version: int, tmp_path: Path):
        assert memory(Host(tmp_path, version), version, str(2 * GIB + (64 << 20))) == 2 * GIB

    @pytest.mark.parametrize("limit", ["max", "9223372036854771712", "0", "-1", ""])
    def test_no_limit_tells_nothing(self, version: int, limit: str, tmp_path: Path):
        assert memory(Host(tmp_path, version), version, limit) is None

    def test_our_own_limit_tells_nothing(self, version: int, tmp_path: Path):
        assert memory(Host(tmp_path, version), version, str(2 * GIB), ours=True) is None

    @pytest.mark.parametrize("parent", ["kubepods/burstable/pod1", "kubepods", "elsewhere/pod1"])
    def test_the_limit_of_another_cgroup_tells_nothing(self, version: int, parent: str, tmp_path: Path):
        assert memory(Host(tmp_path, version), version, str(2 * GIB), parent=parent) is None
