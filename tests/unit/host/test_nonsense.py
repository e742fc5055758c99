"""A nonsensical file is a refusal of the kernel that names the file, and no other exception.

Each table names a file with a nonsensical value, and the call on its cgroup.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cpusets, files
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.host.knob_files import Applied, FileValue
from tests.rig.journals import load, restored
from tests.unit.host.host import SHARES, WEIGHT, Host

NONSENSE: Final = {
    "a word": b"garbage\n",
    "digits without end": b"9" * 5000 + b"\n",
    "no text": b"\xff\xfe\n",
    "a list with a gap": b"0-1,,\n",
}

Refusals = tuple[KernelInterfaceError, ...]

ON_V2: Final[dict[str, Callable[[Host], Refusals]]] = {
    "cpuset.cpus": lambda v2: v2.apply("2-7").failures,
    "cpuset.cpus.effective": lambda v2: v2.apply("2-7").failures,
    "cpuset.mems": lambda v2: v2.apply("", FileValue("cpuset", "cpuset.mems", "0"), journalled=True).failures,
    "cpu.weight": lambda v2: v2.apply("", WEIGHT, journalled=True).failures,
    "io.weight": lambda v2: (
        v2.apply("", FileValue("blkio", "io.weight", "default 5"), journalled=True).failures
    ),
    "memory.high": lambda v2: v2.writer.bound("pod", (FileValue("memory", "memory.high", "5"),)).failures,
    "memory.low": lambda v2: v2.writer.protect("pod", "memory.low", 5).failures,
    "cpu.max": lambda v2: v2.writer.bandwidth(PodBandwidth("pod"), 0.0).failures,
    "cpu.max.burst": lambda v2: v2.writer.bandwidth(PodBandwidth("pod"), 0.0).failures,
}

ON_V1: Final[dict[str, Callable[[Host], Refusals]]] = {
    "cpuset.cpus": lambda v1: v1.apply("2-7").failures,
    "cpu.shares": lambda v1: v1.apply("", SHARES, journalled=True).failures,
    "memory.limit_in_bytes": lambda v1: (
        v1.writer.bound("pod", (FileValue("memory", "memory.limit_in_bytes", "5"),)).failures
    ),
    "cpu.cfs_quota_us": lambda v1: v1.writer.bandwidth(PodBandwidth("pod"), 0.0).failures,
    "cpu.cfs_burst_us": lambda v1: v1.writer.bandwidth(PodBandwidth("pod"), 0.0).failures,
}


@pytest.fixture(autouse=True)
def with_quotas(request: pytest.FixtureRequest) -> None:
    if "v1" in request.fixturenames:
        request.getfixturevalue("v1").cgroup(cpu_cfs_quota_us="100000", cpu_cfs_burst_us="0")
    if "v2" in request.fixturenames:
        request.getfixturevalue("v2").cgroup(cpu_max="50000 100000", cpuset_mems="")
        request.getfixturevalue("v2").file("cpu.max.burst").write_text("0\n")


def refused(host: Host, name: str, text: bytes, act: Callable[[Host], Refusals]) -> None:
    host.file(name).write_bytes(text)
    (failure,) = act(host)
    assert (failure.path, failure.action) == (str(host.file(name)), "read")
    assert len(failure.reason) < 200
    assert host.file(name).read_bytes() == text
    assert name not in host.noted()


@pytest.mark.parametrize("text", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("name", ON_V2)
def test_on_v2_it_is_refused_not_written_over_and_not_journalled(v2, name, text):
    refused(v2, name, text, ON_V2[name])


@pytest.mark.parametrize("text", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("name", ON_V1)
def test_on_v1_it_is_refused_not_written_over_and_not_journalled(v1, name, text):
    refused(v1, name, text, ON_V1[name])


def test_values_beside_it_are_written(v2):
    v2.file("cpu.weight").write_text("garbage\n")
    v2.file("cpuset.cpus").write_text("garbage\n")
    applied = v2.apply("2-7", WEIGHT, FileValue("memory", "memory.high", "400"))
    assert len(applied.failures) == 2
    assert v2.text("memory.high") == "400"


def test_a_senseless_burst_costs_its_container_alone_its_burst(v2):
    for path in ("pod/a", "pod/b"):
        (v2.base / path).mkdir()
        (v2.base / path / "cpu.max").write_text("50000 100000\n")
        (v2.base / path / "cpu.max.burst").write_text("0\n" if path == "pod/a" else "garbage\n")
    burst = Share(burst=5)
    written = v2.writer.bandwidth(PodBandwidth("pod", {"pod/a": burst, "pod/b": burst}), 0.0)
    assert [failure.path for failure in written.failures] == [str(v2.base / "pod/b/cpu.max.burst")]
    assert v2.text("cpu.max.burst", "pod/a") == "5"


def test_a_senseless_journalled_burst_is_never_restored(v2):
    v2.journal.note(str(v2.file("cpu.max.burst")), "garbage")
    v2.file("cpu.max.burst").write_text("7\n")
    assert v2.writer.bandwidth(PodBandwidth("pod"), 0.0).failures == ()
    assert v2.text("cpu.max.burst") == "7"


def test_a_process_list_is_read_as_far_as_it_makes_sense(v1):
    v1.cgroup(cgroup_procs=f"7\n{'9' * 5000}\n8")
    assert v1.writer.members("pod") == (7, 8)


def test_it_is_not_journalled_before_a_push(v2):
    v2.file("cpu.weight").write_text("garbage\n")
    v2.writer.remember("pod", Knobs(shares=2, quota=5))
    assert v2.noted() == {"cpu.max": "50000 100000"}


def test_it_is_not_taken_for_the_kubelets_new_value(v2):
    v2.apply("", WEIGHT, journalled=True)
    v2.writer.resized("pod")
    v2.file("cpu.weight").write_text("garbage\n")
    assert v2.writer.put_back("pod", frozenset()) == ()
    assert v2.text("cpu.weight") == "39"


def test_an_original_that_is_no_text_is_kept(tmp_path: Path):
    for name in ("cpu.weight", "memory.high"):
        (tmp_path / name).write_text("1\n")
    journal = tmp_path / "journal"
    journal.write_text('{"file":"/cpu.weight","was":"\\ufffd"}\n{"file":"/memory.high","was":"max"}\n')
    result = restored(journal, str(tmp_path), 2)
    assert result.done == ("/memory.high",)
    assert [str(error) for error in result.refused] == [
        f"cannot write '\N{REPLACEMENT CHARACTER}' to {tmp_path}/cpu.weight: it is not ASCII"
    ]
    assert load(str(journal)).keys() == {"/cpu.weight"}


def test_a_senseless_set_below_a_cgroup_is_refused(v1):
    v1.cgroup("pod/app", cpuset_cpus="garbage")
    assert [failure.path for failure in v1.apply("2-7").failures] == [str(v1.file("cpuset.cpus", "pod/app"))]


def test_a_look_at_such_a_set_names_the_file(v1):
    v1.cgroup(cpuset_cpus="max")
    with pytest.raises(KernelInterfaceError, match="'max' is not a CPU id"):
        cpusets.actual(str(v1.file("cpuset.cpus").parent), 1)


def test_a_value_of_a_file_that_is_gone_is_none(tmp_path):
    assert files.value(str(tmp_path / "cpu.weight")) is None


def test_nothing_is_refused_of_a_cgroup_that_makes_sense(v2):
    assert v2.apply("0-7", FileValue("cpu", "cpu.weight", "39")) == Applied(0xFF, 0xFF)
