"""All other containers leave a dedicated container's CPUs before its first instruction, and stay away."""

from pathlib import Path

import pytest

from tests.rig import cgroups, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, poll
from tests.rig.workloads import NODE_CPUS
from tests.rig.writes import Writes

pytestmark = [pytest.mark.containerd, pytest.mark.usefixtures("daemon")]

ARRIVALS = 3


def test_others_move_before_the_first_instruction(daemon: Daemon, cri: Cri, tmp_path: Path):
    """One arrival in time is enough: a busy machine may delay the daemon for longer than a start waits."""
    batch = workloads.reclaimed(cri)
    others = [*(workloads.shared(cri, f"n{i}") for i in range(3)), batch]
    files = [*(other.cpuset_file for other in others), _pod_cpuset(batch)]
    arrivals = (_is_in_time(daemon, cri, tmp_path / f"program{n}", others, files) for n in range(ARRIVALS))
    assert any(arrivals)


def _is_in_time(
    daemon: Daemon, cri: Cri, program: Path, others: list[workloads.Workload], files: list[Path]
) -> bool:
    """Return whether all others had left a new dedicated container's CPUs before its first instruction.

    If not, the audit must report it. The container is removed at the end.
    """
    pod = workloads.witness_pod(cri, program)
    with Writes(files, [program]) as writes:
        web = workloads.witness(cri, pod, program)
        left = NODE_CPUS - web.first_cpus()
        seen = writes.seen()
    becomes(lambda: {other.cpus for other in others}, {left})
    assert not poll(lambda: {other.cpus for other in others} != {left}, 0.5)
    in_time = set(seen[: seen.index(program)]) == set(files)
    assert in_time or daemon.audited("container.late", container_id=web.id)
    cri.remove_pod(pod.id)
    becomes(lambda: {other.cpus for other in others}, {NODE_CPUS})
    return in_time


def _pod_cpuset(workload: workloads.Workload):
    return cgroups.file(workload.pod.cgroup, "cpuset", "cpuset.cpus")
