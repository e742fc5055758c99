"""The plugin is killed with -9 during work outside hooks: a push, a shrinking reclaim pool, a checkpoint."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.rig import cgroups, checkpoint, load, mortal_daemon, studious_daemon, workloads
from tests.rig.bystander import Bystander
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.lent import LENT, held, in_force, lent
from tests.rig.mortal import Mortal
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
LENDING: Final = "reclaim: {enabled: true}\n"


@pytest.mark.invariant(1, 3, 7, 8)
def test_killed_while_a_push_is_on_its_way(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, tmp_path: Path
):
    mortal = Mortal(own_daemon, tmp_path / "fate")
    inspector.run("web", "dedicated")
    inspector.run("neighbour", "shared")
    inspector.wait_until_sound()
    mortal.daemon.kill()
    jobs = []
    with Bystander(containerd.nri_socket, "90") as other:
        for number, step in enumerate(mortal_daemon.PUSH):
            jobs.append(lent(cri, f"job{number}"))  # no daemon runs, so the spec has no lent values
            with mortal.killed_at(step):
                mortal.daemon.start()
            assert inspector.breaches() == [], f"after {step}"
        mortal.next()
        for job in jobs:
            inspector.watch(job, "reclaimed")
        wait_until(lambda: all(held(job) == LENT and in_force(job) for job in jobs), 60, "the specs to agree")
        inspector.wait_until_sound()
        assert not other.dropped.is_set()


@ON_THE_NEWEST
@pytest.mark.invariant(1, 3, 5, 6, 7)
def test_killed_while_the_box_gives_cpus_back(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, tmp_path: Path
):
    mortal = Mortal(own_daemon, tmp_path / "fate")
    inspector.run("neighbour", "shared")
    box = [inspector.run(f"batch{number}", "reclaimed") for number in range(2)]
    # the burner never stops, so the reclaim pool has one CPU once it is sized by the headroom
    workloads.run(cri, "burner", command=load.burners(2 * len(NODE_CPUS)), shares=1024)
    inspector.wait_until_sound()
    assert _sizes(box) == {len(NODE_CPUS)}
    with mortal.killed_at(mortal_daemon.SHRINK):
        mortal.daemon.config.write(LENDING)
    assert _sizes(box) == {1, len(NODE_CPUS)}, "some of its files are written and some are not"
    assert inspector.breaches() == []
    mortal.next()
    wait_until(lambda: _sizes(box) == {1}, 60, "one CPU for all reclaimed pods")
    inspector.wait_until_sound()
    mortal.daemon.config.write("")
    wait_until(lambda: _sizes(box) == {len(NODE_CPUS)}, 60, "all of share for all reclaimed pods")


@ON_THE_NEWEST
@pytest.mark.invariant(1, 3, 6, 8)
def test_killed_between_a_checkpoint_and_its_name(
    own_daemon: OwnDaemon, inspector: Inspector, tmp_path: Path
):
    first = own_daemon(program=studious_daemon.PROGRAM, config=LENDING)
    file = first.state_dir / "forecast"
    for qos in ("dedicated", "shared", "reclaimed"):
        inspector.run(f"{qos}-one", qos)
    wait_until(file.exists, 60, "a checkpoint")
    assert first.terminate() == 0
    former = checkpoint.read(file)
    mortal = Mortal(own_daemon, tmp_path / "fate", config=LENDING, state_dir=first.state_dir)
    # the former checkpoint is read before the first snapshot; until then there is nothing to save
    wait_until(lambda: mortal.daemon.metric("nri_coloc_picture_seconds_count"), 60, "a snapshot")
    with mortal.killed_at(mortal_daemon.SAVE):
        assert mortal.daemon.terminate() == -signal.SIGKILL
    assert checkpoint.read(file) == former
    mortal.next()
    inspector.wait_until_sound()
    assert mortal.daemon.terminate() == 0
    later = checkpoint.read(file)
    assert later["saved_s"] > former["saved_s"]
    assert later["workloads"].keys() >= former["workloads"].keys(), "all that was kept was read"


def _sizes(box: list[Workload]) -> set[int]:
    """Return the numbers of CPUs of the reclaim cgroups: of pods, their sandboxes and containers."""
    groups = [group for one in box for group in (one.pod.cgroup, _sandbox(one), one.cgroup)]
    return {len(cgroups.effective_cpus(group) or ()) for group in groups}


def _sandbox(workload: Workload) -> str:
    return f"{workload.pod.cgroup}/{workload.pod.id}"
