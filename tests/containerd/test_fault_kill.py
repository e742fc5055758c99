"""The plugin is killed with -9 at every step of every hook, and the next process completes the half-done work.

One containerd stays up through all the kills of a test, with the same neighbours beside each container that comes and
goes.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest

from tests.rig import cgroups, commands, kubepods, workloads
from tests.rig.bystander import Bystander
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.mortal import Mortal
from tests.rig.mortal_daemon import DOOMED, HOOKS
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.rig.workloads import NODE_CPUS, PERIOD, Workload

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, pytest.mark.tier("all")]

OwnDaemon = Callable[..., Daemon]
DEATH: Final = {DOOMED: "yes"}
BURST: Final = {"coloc.nri.io/cpu-burst": "50"}


def steps(*hooks: str) -> list[str]:
    """Return the steps of hooks in their order, except the step of a plain container."""
    return [f"{hook}/{moment}" for hook in hooks for moment in HOOKS[hook] if moment != "foreseen"]


CALLS: Final = {
    "create": steps("CreateContainer", "PostCreateContainer"),
    "start": steps("StartContainer", "PostStartContainer"),
    "lower": steps("UpdateContainer"),
    "raise_": steps("PostUpdateContainer"),
    "stop": steps("StopContainer"),
    "remove": steps("RemoveContainer"),
    "stop_pod": steps("StopPodSandbox"),
    "remove_pod": steps("RemovePodSandbox"),
}
"""What the kubelet does to a container (it raises and lowers its quota), and the steps of the hooks that come of it."""

LIVES: Final = [dict(zip(CALLS, life, strict=True)) for life in zip_longest(*CALLS.values(), fillvalue="")]
"""Each has one step of each call, so that all of them together have every step once."""


@pytest.fixture
def mortal(own_daemon: OwnDaemon, tmp_path: Path) -> Mortal:
    return Mortal(own_daemon, tmp_path / "fate")


@pytest.fixture(autouse=True)
def bystander(containerd: Containerd) -> Iterator[Bystander]:
    """Yield another plugin, which gets events after the product; a kill of the product must not get it dropped."""
    with Bystander(containerd.nri_socket, "90") as found:
        yield found
        assert not found.dropped.is_set()


class Career:
    """Hold a dedicated container beside the others, from its creation to its pod's removal; a method for each call."""

    def __init__(self, cri: Cri, inspector: Inspector) -> None:
        self._cri, self._inspector = cri, inspector
        self.pod = cri.run_pod("web", annotations={workloads.QOS: "dedicated", **DEATH, **BURST})
        self.web: Workload

    def create(self) -> None:
        self.web = workloads.add(self._cri, self.pod, "app", request=1.0, started=False)

    def start(self) -> None:
        self.web.start()

    def started(self) -> None:
        """Watch the container from now on: a later kill of the plugin must change nothing for it."""
        self._inspector.watch(self.web, "dedicated")
        self._inspector.wait_until_sound()
        wait_until(lambda: cgroups.burst(self.web.cgroup) == PERIOD // 2, 30, "its burst")
        wait_until(lambda: cgroups.members(self.web.spec_cpus) == self.web.cpus, 30, "its spec to agree")

    def lower(self) -> None:
        """Lower the quota: the burst has to be lowered first."""
        self._resize(PERIOD // 2)

    def raise_(self) -> None:
        """Raise the quota: the burst may be raised after it."""
        self._resize(PERIOD * 3 // 2)

    def _resize(self, quota: int) -> None:
        self._cri.update(self.web.id, shares=1024, quota=quota, period=PERIOD)
        self._inspector.resized(self.web, 1024, quota)

    def stop(self) -> None:
        self._inspector.forget(self.web)
        self._cri.stop(self.web.id)

    def remove(self) -> None:
        self._cri.remove(self.web.id)

    def stop_pod(self) -> None:
        self._cri.stop_pod(self.pod.id)

    def remove_pod(self) -> None:
        self._cri.remove_pod(self.pod.id)


@pytest.mark.invariant(1, 2, 3, 6, 7, 8)
@pytest.mark.parametrize("life", LIVES, ids=[life["start"].partition("/")[2] for life in LIVES])
def test_killed_all_along_a_dedicated_containers_life(
    cri: Cri, mortal: Mortal, inspector: Inspector, life: dict[str, str]
):
    neighbour, batch = inspector.run("neighbour", "shared"), inspector.run("batch", "reclaimed")
    career = Career(cri, inspector)
    for call, step in life.items():
        with mortal.killed_at(step):
            getattr(career, call)()
        assert inspector.breaches() == [], f"placed containers stay in place without a daemon, after {step}"
        mortal.next()
        mortal.daemon.wait_written()  # else its thread may journal the files of a container before the hook does
        if call == "start":
            career.started()
        inspector.wait_until_sound()
    wait_until(lambda: neighbour.cpus == batch.cpus == NODE_CPUS, 30, "the CPUs to come back")
    assert "Traceback" not in mortal.daemon.log()


@pytest.mark.invariant(1, 3, 6, 7, 8, 9)
def test_killed_while_offline_pods_come(cri: Cri, mortal: Mortal, inspector: Inspector):
    inspector.run("web", "dedicated")
    inspector.run("neighbour", "shared")
    inspector.wait_until_sound()
    late = []
    for number, step in enumerate(steps("RunPodSandbox")):
        with mortal.killed_at(step):
            pod = cri.run_pod(
                f"batch{number}",
                annotations={workloads.QOS: "reclaimed", **DEATH},
                cgroup_parent=kubepods.BESTEFFORT,
            )
        late.append(workloads.add(cri, pod, "app", oom=1000))
        assert inspector.breaches() == [], f"placed containers stay in place without a daemon, after {step}"
        mortal.next()
        inspector.watch(late[-1], "reclaimed")
        inspector.wait_until_sound()
    assert mortal.daemon.terminate() == 0
    _restore(mortal.daemon)
    for batch in late:
        group = batch.pod.cgroup
        assert cgroups.cpus(group) == batch.cpus == NODE_CPUS
        assert (cgroups.shares(group), cgroups.weight(group)) in ((1024, None), (None, 100))


@pytest.mark.invariant(1, 3, 7, 8)
def test_killed_between_an_answer_and_its_decision(cri: Cri, mortal: Mortal, inspector: Inspector):
    """A container that is like an earlier one of its pod gets its answer at once, and its decision after that.

    It is chance whether the runtime takes an answer whose sender has died: ttrpc may see the closed connection first.
    """
    inspector.run("web", "dedicated")
    pod = cri.run_pod("plain", annotations=DEATH)
    inspector.add(pod, "first")
    with mortal.killed_at("CreateContainer/foreseen"):
        inspector.add(pod, "second")
    mortal.next()
    inspector.wait_until_sound()


@pytest.mark.invariant(1, 3, 6, 7, 8)
def test_killed_while_it_is_told_what_exists(mortal: Mortal, inspector: Inspector):
    mortal.daemon.kill()
    for qos in ("dedicated", "shared", "reclaimed"):
        inspector.run(f"{qos}-one", qos)
    for step in steps("Configure", "Synchronize"):
        with mortal.killed_at(step):
            mortal.daemon.start()
    mortal.next()
    inspector.run("late", "shared")
    inspector.wait_until_sound()


def _restore(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "nri_coloc", "restore", *daemon.places()]
    commands.output(command, seconds=PATIENCE_SECONDS)
