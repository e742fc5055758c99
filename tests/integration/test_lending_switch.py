"""The operator's switch in the daemon as its own process, beside a simulated node: off, drain, on, and restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from nri_coloc.cli.main import main
from nri_coloc.core import cpuset
from nri_coloc.service.lending_switch import NAME
from nri_coloc.sim.node import Node
from tests.integration.harness import assert_unhurt, daemon_of, reclaimed, reload, served, shared
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

LENDING = "reclaim: {enabled: true}\n"
BY_NIGHT = f"{LENDING}schedule: {{outside: 50}}\n"
SOON_S = 30


class Rig(NamedTuple):
    node: Node
    daemon: Daemon

    def admin(self, *arguments: str) -> int:
        path = self.daemon.folder / "admin" / "admin.sock"
        return main(["admin", "lending", *arguments, "--admin-socket", str(path)], {})

    def ordered(self, *arguments: str) -> None:
        """Give an order as soon as the socket exists."""
        wait_until(lambda: self.admin(*arguments) == 0, SOON_S, "the order")

    def lent_cpus(self) -> int:
        return cpuset.parse(self.daemon.state()["pools"]["reclaim"]["cpus"]).bit_count()

    def lending(self) -> tuple[str, float, str]:
        found = self.daemon.state()["lending"]
        return found["state"], found["factor"], found["switch"]

    def restart(self) -> None:
        """Kill the daemon and start it again."""
        self.daemon.kill()
        self.daemon.start()
        served(self.daemon)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Node(tmp_path, cgroup=1) as node, daemon_of(node, config=LENDING) as daemon:
        node.start_clock()
        served(daemon)
        rig = Rig(node, daemon)
        shared(node, "web")
        reclaimed(node, "batch")
        wait_until(lambda: rig.lent_cpus() == 8, SOON_S, "the pool to grow")
        yield rig
        assert_unhurt(daemon)


def test_off_holds_until_on(rig, capsys):
    rig.ordered("off")
    assert rig.lending() == ("Online", 0.0, "off")
    assert (rig.daemon.capacity()["cpu_milli"], rig.daemon.capacity()["reason"]) == (0, "schedule")
    wait_until(lambda: rig.lent_cpus() == 2, SOON_S, "the floor: one core")
    assert rig.daemon.metric("nri_coloc_lending_factor") == 0
    reload(rig.daemon, BY_NIGHT)
    assert rig.lending() == ("Online", 0.0, "off")
    assert rig.admin("on") == 0
    assert rig.lending()[1:] == (0.5, "on")
    assert "lending is on again: the schedule has no windows (lend=50 %)" in capsys.readouterr().out
    wait_until(lambda: rig.lent_cpus() == 4, SOON_S, "the pool to grow again")


def test_off_survives_a_killed_daemon(rig):
    rig.ordered("off")
    rig.restart()
    assert rig.lending() == ("Online", 0.0, "off")
    record = rig.daemon.audited("schedule.state", reason="operator")
    assert record["inputs"]["switch"] == "off"
    rig.ordered("on")
    rig.restart()
    assert rig.lending()[1:] == (1.0, "on")


def test_a_restart_keeps_the_end_of_a_grace(rig):
    rig.ordered("off", "--grace", "1h")
    before = rig.daemon.state()["lending"]
    rig.restart()
    after = rig.daemon.state()["lending"]
    assert (after["state"], after["factor"]) == ("OfflineToOnline", 1.0)
    assert after["until"] == before["until"]


def test_a_drain_ends_when_no_pod_is_left(rig, capsys):
    rig.ordered("on")
    assert rig.admin("off", "--drain") == 1
    assert "shop/batch: it may run on until the grace is over" in capsys.readouterr().out
    assert rig.admin("off", "--drain", "--grace", "0") == 1
    assert (
        "shop/batch: no companion is connected; `kubectl delete pod -n shop batch`" in capsys.readouterr().out
    )
    assert rig.lending() == ("Online", 0.0, "drain")
    rig.node.remove_pod(rig.node.pod("shop/batch"))
    wait_until(lambda: rig.admin("off", "--drain", "--grace", "0") == 0, SOON_S, "the last pod")
    assert "no reclaimed pod runs" in capsys.readouterr().out


def test_a_torn_file_leaves_lending_off(rig):
    rig.daemon.kill()
    (rig.daemon.state_dir / NAME).write_text("{")
    rig.daemon.start()
    served(rig.daemon)
    assert rig.lending() == ("Online", 0.0, "off")
    assert "is not JSON; lending stays off" in rig.daemon.audited("state.folder")["because"]
