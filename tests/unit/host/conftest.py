"""A host of each version of cgroups, with one pod's cgroup in it."""

from pathlib import Path

import pytest

from tests.unit.host.host import Host


@pytest.fixture
def v1(tmp_path: Path) -> Host:
    host = Host(tmp_path, 1)
    host.cgroup(cpuset_cpus="0-7", cpu_shares="1024", memory_limit_in_bytes="9", blkio_weight="500")
    return host


@pytest.fixture
def v2(tmp_path: Path) -> Host:
    host = Host(tmp_path, 2)
    host.cgroup(cpu_weight="39", memory_high="max", memory_low="0", io_weight="default 100")
    (host.base / "pod/cpuset.cpus").write_text("0-7\n")
    (host.base / "pod/cpuset.cpus.effective").write_text("0-7\n")
    return host
