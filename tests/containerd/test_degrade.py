"""A hog of an online pool that is short of CPU gets a lower quota in the kernel's files, and its own quota back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from nri_coloc.core.knobs import KERNELS_SHARES
from tests.rig import cgroups, judging_daemon, kubepods, load, workloads
from tests.rig.cri import Cri, Limits
from tests.rig.daemon import Daemon
from tests.rig.load import Tap
from tests.rig.touched import restore
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.rig.workloads import PERIOD, Workload

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

DEGRADES: Final = "pressure: {degrade: true, cpu: {up: 1}}\n"
OPEN: Final = {workloads.QOS: "shared", "coloc.nri.io/avoidance": "degrade"}
WEB: Final = {workloads.QOS: "shared", "coloc.nri.io/tolerance": "low"}
LEARNS_S: Final = 60
LOOPS: Final = 8
SHARES: Final = 900
REQUEST: Final = SHARES * PERIOD // 1024
"""The hog's request as a quota, µs a period: the least quota that it may have."""

OWN: Final = (len(workloads.NODE_CPUS) * PERIOD - PERIOD * 2 // 5, PERIOD)
"""The hog's own quota: all CPUs but two fifths of one. The other pod needs up to a fifth, the daemon and this test have
the rest, however busy the machine is, and the pool is short (80 %) nevertheless."""

SERVES: Final = (
    "/bin/sh",
    "-c",
    "while :; do i=0; while [ $i -lt 120000 ]; do i=$((i+1)); done; usleep 600000; done",
)
"""A program that uses a fifth of a CPU at most, for longer than a time slice: beside busy loops it then waits."""

WEIGHT: Final = 256 * 1024
"""The largest weight, for all pods: other work of the machine neither keeps the pool from being full nor makes the pod
wait, whether its baseline is learned or not."""


class Short(NamedTuple):
    """A pool that is short of CPU, and its degraded container; the file `later` ends the time of degrading."""

    daemon: Daemon
    hog: Workload
    later: Path


@pytest.fixture
def short(cri: Cri, own_daemon: Callable[..., Daemon], tmp_path: Path) -> Iterator[Short]:
    """Yield a short pool: the hog comes when the other pod is known."""
    learned, later = tmp_path / "learned", tmp_path / "later"
    try:
        daemon = own_daemon(config=DEGRADES, program=judging_daemon.program(learned, later))
        online(cri, "web", WEB, {"shares": 307}, SERVES)
        wait_until(learned.exists, LEARNS_S, "a baseline of the calm pod")
        own: Limits = {"shares": SHARES, "quota": OWN[0], "period": OWN[1]}
        hog = online(cri, "hog", OPEN, own, load.burners(LOOPS))
        # a look at the audit costs more than the CPU time that is left, fifty times a second
        wait_until(lambda: cgroups.quota(hog.cgroup) != OWN, PATIENCE_SECONDS, "a lower quota of the hog")
        daemon.audited("pressure.degrade")
        yield Short(daemon, hog, later)
    finally:
        kubepods.weigh("/kubepods", KERNELS_SHARES)


def online(
    cri: Cri, name: str, annotations: dict[str, str], limits: Limits, command: tuple[str, ...]
) -> Workload:
    """Run a pod with one container; the request of both follows from `shares`."""
    pod = cri.run_pod(
        name, annotations=annotations, cgroup_parent=kubepods.BURSTABLE, shares=limits["shares"]
    )
    kubepods.weigh("/kubepods", WEIGHT)  # it exists now, and other work of the machine is in no reading yet
    return Workload(cri, pod, cri.create_container(pod, "app", command=command, **limits)).start()


def test_a_hog_is_degraded_until_a_timer_ends(short: Short):
    held = cgroups.quota(short.hog.cgroup)
    assert held is not None
    assert REQUEST <= held[0] < OWN[0]
    Tap(short.hog, LOOPS).off()
    short.later.touch()
    recovered = short.daemon.audited("pressure.recover")
    assert recovered["reason"] == "calm"
    assert cgroups.quota(short.hog.cgroup) == OWN
    steps = short.daemon.audit("pressure.degrade")
    assert {step["pod"] for step in steps} == {"hog"}
    assert min(step["after"]["quota"] for step in steps) >= REQUEST


def test_the_next_daemon_restores_the_quota(short: Short):
    short.daemon.kill()
    held = cgroups.quota(short.hog.cgroup)
    assert held is not None
    assert REQUEST <= held[0] < OWN[0]
    Tap(short.hog, LOOPS).off()
    short.daemon.start()
    assert short.daemon.audited("pressure.recover")["reason"] == "unwatched"
    assert cgroups.quota(short.hog.cgroup) == OWN


def test_restore_returns_the_quota(short: Short):
    short.daemon.kill()
    kubepods.weigh("/kubepods", KERNELS_SHARES)  # beside its weight a busy machine has no time for `restore`
    assert restore(short.daemon).returncode == 0
    assert cgroups.quota(short.hog.cgroup) == OWN
