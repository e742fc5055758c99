"""The reclaim pool shrinks on a real runtime, by the kernel's files and counters and never by the plugin's report.

The benchmarks measure its speed to the millisecond; here nothing depends on the pace of the machine. A reclaim pool of
every CPU cannot be expected beside other work. So the reclaimed pod is its online neighbour's sibling: without the
daemon it would get half. Both are always measured in the same window.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from tests.rig import cgroups, kubepods, load, settings, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
LENDING: Final = "reclaim: {enabled: true}\n"
WINDOW_S: Final = 0.5
SOON_S: Final = 120
THREADS: Final = len(NODE_CPUS)
BURNT_MILLI: Final = 200
"""What a loop gets at the least of a machine that others use as well; its request is 98."""


def online(cri: Cri, shares: int = 1024) -> tuple[Workload, load.Tap]:
    """Run an online pod that could burn every CPU, with its load switched off."""
    burner = workloads.run(cri, "burner", command=load.burners(THREADS), shares=shares)
    tap = load.Tap(burner, THREADS)
    tap.off()
    return burner, tap


def offline(cri: Cri, parent: str = kubepods.BESTEFFORT) -> Workload:
    """Run a reclaimed pod that uses every CPU that it gets."""
    return workloads.run(cri, "batch", "reclaimed", command=load.burners(THREADS), parent=parent, oom=1000)


def box(batch: Workload) -> int:
    return len(cgroups.cpus(batch.pod.cgroup) or ())


def test_an_online_container_that_starts_to_burn_takes_cpu_back(cri: Cri, own_daemon: OwnDaemon):
    own_daemon(config=LENDING)
    burner, tap = online(cri)
    batch = offline(cri, kubepods.BURSTABLE)
    wait_until(lambda: offline_part(burner, batch) > 0.9, SOON_S, "offline work alone")
    tap.on()
    wait_until(lambda: offline_part(burner, batch) < 1 / 3, SOON_S, "CPU that was taken back")
    wait_until(lambda: box(batch) < THREADS, SOON_S, "a smaller box")
    tap.off()
    wait_until(lambda: offline_part(burner, batch) > 0.9, SOON_S, "offline work again")


def offline_part(burner: Workload, batch: Workload) -> float:
    """Return the reclaimed pod's part of the CPU time that both pods use in the next window; 0 to 1."""
    meters = [load.Meter(workload.pod.cgroup) for workload in (burner, batch)]
    poll(lambda: False, WINDOW_S)
    online_cpus, offline_cpus = (meter.read() for meter in meters)
    return offline_cpus / max(online_cpus + offline_cpus, 0.001)


def test_a_besteffort_system_pod_keeps_its_settings_under_suppression(cri: Cri, own_daemon: OwnDaemon):
    agent = workloads.run(cri, "agent", namespace="kube-system", parent=kubepods.BESTEFFORT, oom=1000)
    agent.first_cpus()
    watched = (agent.pod.cgroup, f"{agent.pod.cgroup}/{agent.pod.id}", agent.cgroup)
    classes = ("/kubepods", "/kubepods/besteffort", "/kubepods/burstable")

    workloads.shared(cri)  # so that its class exists

    def look() -> tuple[dict[str, dict[str, str]], Any]:
        return {path: settings.of(path) for path in (*watched, *classes)}, settings.of_processes(agent.cgroup)

    before = look()
    daemon = own_daemon(config=LENDING)
    wait_until(lambda: _is_placed(daemon, agent), 30, "it to be known")
    _, tap = online(cri)
    batch = offline(cri)
    tap.on()
    wait_until(lambda: box(batch) == 1, SOON_S, "the reclaim pool at its floor")
    wait_until(lambda: cgroups.memory_limit(batch.pod.cgroup), SOON_S, "a limit of its memory")
    wait_until(lambda: daemon.check("readings")["ok"], 30, "a sweep")
    after = look()
    assert settings.differing(before[0], after[0]) == []
    assert before[1] == after[1]
    assert cgroups.effective_cpus(agent.cgroup) == NODE_CPUS


def _is_placed(daemon: Daemon, workload: Workload) -> bool:
    return bool(daemon.container(workload.id).get("class") == "system")


TERMS: Final = re.compile(
    r"CPU (\d+)m = (\d+)m lendable \* 0\.95 - 0m reserve - (\d+)m of \d+ online pods"
    r"(?: \(most: (\S+) (\d+)m\))? - (\d+)m of the system; "
)


class Offer(NamedTuple):
    """Hold `/v1/capacity` by the terms of its sentence, in milli-CPU.

    of_burner: the amount that is kept for the burner; None if the sentence does not name it.
    """

    offered: int
    lendable: int
    of_pods: int
    of_system: int
    of_burner: int | None

    @property
    def adds_up(self) -> bool:
        usable = int(self.lendable * 0.95)
        return self.offered == max(0, usable - self.of_pods - self.of_system)


def offer(daemon: Daemon) -> Offer | None:
    told = daemon.capacity()
    found = TERMS.search(told.get("because", ""))
    if found is None or int(found[1]) != told["cpu_milli"]:
        return None
    burner = int(found[5]) if found[4] == "default/burner" else None
    return Offer(int(found[1]), int(found[2]), int(found[3]), int(found[6]), burner)


def waited(daemon: Daemon, holds: Callable[[Offer], bool], what: str) -> Offer:
    """Return the first offer for which `holds` is true."""
    seen: list[Offer] = []

    def look() -> bool:
        found = offer(daemon)
        seen.extend([found] if found else [])
        return found is not None and holds(found)

    wait_until(look, SOON_S, what)
    return seen[-1]


def test_capacity_follows_load_with_named_reasons(cri: Cri, own_daemon: OwnDaemon):
    """The terms of the offer are compared, because other programs on this machine use CPU meanwhile."""
    daemon = own_daemon(config=LENDING)
    offline(cri)
    burner, tap = online(cri, shares=100)
    idle = waited(daemon, lambda found: found.of_burner is not None, "an offer that knows the pod")
    tap.on()
    least = max(BURNT_MILLI, (idle.of_burner or 0) + BURNT_MILLI - 98)
    busy = waited(daemon, lambda found: (found.of_burner or 0) > least, "an offer without what it burns")
    assert busy.of_pods >= least
    wait_until(lambda: daemon.capacity()["headroom_cpu_milli"] < 1500, 30, "less headroom at once")
    cri.remove_pod(burner.pod.id)
    later = waited(daemon, lambda found: found.of_burner is None, "an offer without it")
    assert later.of_pods <= busy.of_pods - BURNT_MILLI
    for found in (idle, busy, later):
        assert found.adds_up, found
        assert found.lendable == 1000 * THREADS
