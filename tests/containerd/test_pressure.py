"""A reclaimed pod that saturates a disk is found, limited and set free on a real runtime.

On an idle machine (`make soak-pressure`): beside other work the disk is not what the online pod waits for.
"""

import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.rig import cgroups, kubepods, packages, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import poll
from tests.rig.workloads import Workload

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST, pytest.mark.tier("soak")]

THROTTLES: Final = "pressure: {io: {action: throttle}}\n"
BYTES: Final = 64 << 20
LEARNS_S: Final = 13.0
"""Ten readings make a baseline, one a second, after the pods have started."""

HOLD_S: Final = 60.0
"""The longest time from the hog's end to the removal of its limit: `hold` and the calm readings."""

AT_ONCE_S: Final = 1.0
FILES: Final = ("io.max",) if cgroups.is_v2() else ("blkio.throttle.read_bps_device",)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder on a disk: `tmp_path` may lie in memory (`tests/rig/memory.py`), which no pod waits for."""
    with tempfile.TemporaryDirectory(prefix="pressure-", dir=packages.cache().parent) as made:
        (Path(made) / "data").write_bytes(bytes(BYTES))
        yield Path(made)


def reads(size: str, count: int, pause_us: int, times: int) -> tuple[str, ...]:
    """Return a program that reads the disk past the page cache until the file `end` appears."""
    line = f"dd if=/scratch/data of=/dev/null bs={size} count={count} iflag=direct 2>&-; usleep {pause_us}"
    loops = " ".join(f"while [ ! -e /scratch/end ]; do {line}; done &" for _ in range(times))
    return ("/bin/sh", "-c", f"{loops} wait; exec sleep 1000000")


def run(cri: Cri, name: str, qos: str, command: tuple[str, ...], folder: Path) -> Workload:
    """Run a pod whose container has the data."""
    parent = kubepods.BESTEFFORT if qos == "reclaimed" else kubepods.BURSTABLE
    pod = cri.run_pod(name, annotations={workloads.QOS: qos}, cgroup_parent=parent)
    made = cri.create_container(pod, "app", command=command, mounts={"/scratch": folder}, shares=2)
    return Workload(cri, pod, made).start()


def limits(workload: Workload) -> str:
    """Return the limits of a pod's reads that the kernel shows."""
    cgroup = workload.pod.cgroup if cgroups.is_v2() else workload.cgroup
    return " ".join(cgroups.file(cgroup, "blkio", name).read_text().strip() for name in FILES)


def accused(verdict: dict[str, Any]) -> set[str]:
    """Return the names of the pods that a verdict names."""
    return {key.removesuffix(".hurt_use") for key in verdict["inputs"] if key.endswith(".hurt_use")}


def told_at(record: dict[str, Any]) -> datetime:
    """Return the time of a record."""
    return datetime.fromisoformat(record["ts"])


def test_a_disk_hog_is_throttled_until_it_ends(cri: Cri, own_daemon: Callable[..., Daemon], folder: Path):
    daemon = own_daemon(config=THROTTLES)
    run(cri, "web", "shared", reads("4k", 50, 50_000, 1), folder)
    innocent = run(cri, "innocent", "reclaimed", reads("16k", 10, 200_000, 1), folder)
    poll(lambda: False, LEARNS_S)
    (folder / "hog").mkdir()
    (folder / "hog/data").write_bytes(bytes(BYTES))
    hog = run(cri, "hog", "reclaimed", reads("1M", 64, 0, 8), folder / "hog")
    verdict = daemon.audited("pressure.verdict", 15)
    assert accused(verdict) == {"default/hog"}
    daemon.audited("pressure.throttle", 5)
    first = daemon.audit("pressure.throttle")[0]
    assert (told_at(first) - told_at(verdict)).total_seconds() <= AT_ONCE_S
    assert limits(hog)
    (folder / "hog/end").touch()
    assert daemon.audited("pressure.recover", HOLD_S, saying="limit removed")["reason"] == "calm"
    assert limits(hog) == limits(innocent) == ""
    assert {one["pod"] for one in daemon.audit("pressure.throttle")} == {"hog"}
