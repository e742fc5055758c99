"""The schedule in the daemon as its own process, beside a simulated node: windows of a whole week, by a reload."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from nri_coloc.core import cpuset
from nri_coloc.sim.node import Node
from tests.integration.harness import Lasting, assert_unhurt, daemon_of, reclaimed, reload, served, shared
from tests.rig.daemon import Daemon
from tests.rig.records import sentence_of
from tests.rig.waiting import wait_until

ALWAYS = "reclaim: {enabled: true}\n"
NEVER = f'{ALWAYS}schedule: {{timeZone: Europe/Berlin, windows: [{{lend: 0}}], grace: "0"}}\n'
HALF = f"{ALWAYS}schedule: {{outside: 50}}\n"
SOON_S = 30


class Rig(NamedTuple):
    node: Node
    daemon: Daemon

    def lent_cpus(self) -> int:
        return cpuset.parse(self.daemon.state()["pools"]["reclaim"]["cpus"]).bit_count()

    def lending(self) -> tuple[str, float]:
        found = self.daemon.state()["lending"]
        return found["state"], found["factor"]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    folder = tmp_path_factory.mktemp("schedule")
    with Node(folder, cgroup=1) as node, daemon_of(node, config=ALWAYS) as daemon:
        node.start_clock()
        yield Lasting(node, served(daemon))


@pytest.fixture
def rig(lasting: Lasting) -> Rig:
    return Rig(lasting.emptied(ALWAYS), lasting.daemon)


def test_a_window_takes_the_lent_cpus_back(rig):
    shared(rig.node, "web")
    reclaimed(rig.node, "batch")
    wait_until(lambda: rig.lent_cpus() == 8, SOON_S, "the pool to grow")
    assert rig.lending() == ("Offline", 1.0)
    reload(rig.daemon, NEVER)
    assert rig.lending() == ("Online", 0.0)
    capacity = rig.daemon.capacity()
    assert (capacity["cpu_milli"], capacity["memory_bytes"], capacity["reason"]) == (0, 0, "schedule")
    wait_until(lambda: rig.lent_cpus() == 2, SOON_S, "the floor: one core")
    record = rig.daemon.audited("schedule.state", reason="schedule")
    assert sentence_of(record) == "Online: schedule.windows[0] is open (lend=0 %)"
    reload(rig.daemon, ALWAYS)
    wait_until(lambda: rig.lent_cpus() == 8, SOON_S, "the pool to grow again")
    assert_unhurt(rig.daemon)


def test_a_mistake_leaves_the_former_schedule_in_force(rig):
    reload(rig.daemon, NEVER)
    before = rig.daemon.state()["lending"]
    reload(rig.daemon, NEVER.replace("Berlin", "Berlni"), "invalid")
    assert rig.daemon.state()["lending"] == before
    assert "'Europe/Berlni' is no time zone" in rig.daemon.check("config")["detail"]


def test_half_of_the_headroom_is_lent(rig):
    reclaimed(rig.node, "batch")
    wait_until(lambda: rig.lent_cpus() == 8, SOON_S, "the pool to grow")
    reload(rig.daemon, HALF)
    wait_until(lambda: rig.lent_cpus() == 4, SOON_S, "half of it")
    wait_until(lambda: 0 < rig.daemon.capacity()["cpu_milli"] < 4000, SOON_S, "half of the offer")
