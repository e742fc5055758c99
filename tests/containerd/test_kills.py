"""A daemon that lends is killed with -9 at six random moments: nothing is unsafe then, and the next start takes over.

The moments come from a seed that the test's name shows; `inspector` judges by the kernel's files alone.
"""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Final

import pytest

from tests.rig import cgroups, kubepods, load, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import poll, wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
LENDING: Final = "reclaim: {enabled: true}\n"
KILLS: Final = 6
LONGEST_LIVES_S: Final = (1.0, 8.0)
"""In turn, from the start of the process: before it is synchronised, in the middle of that, and while it lends."""


@pytest.mark.parametrize("seed", [20])
def test_a_kill_at_any_moment_leaves_the_node_safe(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, seed: int
):
    dice = random.Random(seed)
    daemon = own_daemon(config=LENDING)
    web = inspector.run("web", "dedicated")
    inspector.run("neighbour", "shared")
    batch = inspector.run("batch", "reclaimed")
    with churn(cri), on_and_off(cri, random.Random(seed + 1)):
        inspector.wait_until_sound()
        owned = web.cpus
        for kill in range(KILLS):
            poll(lambda: False, dice.uniform(0, LONGEST_LIVES_S[kill % 2]))
            daemon.kill()
            assert inspector.breaches() == [], f"after kill {kill}"
            assert is_bounded(batch), f"after kill {kill}"
            assert web.cpus == owned
            daemon.start()
    daemon.wait_synchronised()
    inspector.wait_until_sound()
    daemon.wait_ready()
    assert web.cpus == owned
    later = inspector.run("later", "reclaimed")
    inspector.wait_until_sound()
    wait_until(
        lambda: cgroups.cpus(later.pod.cgroup) == cgroups.cpus(batch.pod.cgroup), 30, "one box for both"
    )
    assert "Traceback" not in daemon.log()


def is_bounded(batch: Workload) -> bool:
    """Return whether the reclaim cgroups have CPUs, all of them the machine's, and room for their memory."""
    own, inner = cgroups.cpus(batch.pod.cgroup), cgroups.effective_cpus(batch.cgroup)
    limit = cgroups.memory_limit(batch.pod.cgroup)
    return bool(own and inner and own <= NODE_CPUS and inner <= own) and (limit is None or limit >= 1 << 20)


@contextmanager
def churn(cri: Cri) -> Iterator[None]:
    """Start and remove shared and reclaimed pods while the block lasts."""
    over = Event()

    def come_and_go() -> None:
        number = 0
        while not over.is_set():
            guest = (workloads.shared, workloads.reclaimed)[number % 2](cri, f"guest{number}")
            cri.remove_pod(guest.pod.id)
            number += 1

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(come_and_go)
        try:
            yield
        finally:
            over.set()
        work.result(120)


@contextmanager
def on_and_off(cri: Cri, dice: random.Random) -> Iterator[None]:
    """Let an online pod burn CPU and pause at random, so that the reclaim pool grows and shrinks all the time."""
    burner = workloads.run(cri, "burner", command=load.burners(2), shares=1024, parent=kubepods.BURSTABLE)
    tap, over = load.Tap(burner, 2), Event()

    def toggle() -> None:
        while not over.wait(dice.uniform(0.05, 0.6)):
            tap.off()
            over.wait(dice.uniform(0.05, 0.6))
            tap.on()

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(toggle)
        try:
            yield
        finally:
            over.set()
        work.result(60)
