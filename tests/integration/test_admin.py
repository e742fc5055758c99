"""The admin socket of the daemon as its own process, beside a simulated node, called as an operator calls it."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from nri_coloc.cli.main import main
from nri_coloc.sim.node import Node
from tests.integration.harness import (
    Lasting,
    assert_unhurt,
    daemon_of,
    ends_well,
    file,
    reclaimed,
    reload,
    served,
    shared,
)
from tests.rig.daemon import Daemon
from tests.rig.records import sentence_of
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

LENDING = "reclaim: {enabled: true}\n"
SOON_S = 30
NO_MOVES = 65534


class Rig(NamedTuple):
    node: Node
    daemon: Daemon

    @property
    def socket(self) -> Path:
        return self.daemon.folder / "admin" / "admin.sock"

    def admin(self, *arguments: str) -> int:
        return main(["admin", *arguments, "--admin-socket", str(self.socket)], {})

    def box(self) -> str:
        return str(self.daemon.state()["pools"]["reclaim"]["cpus"])

    def capacity(self) -> tuple[int, str]:
        found = self.daemon.capacity()
        return found["cpu_milli"], found["reason"]

    def told(self, reason: str, words: str) -> None:
        """Wait for a record of a call."""
        wait_until(
            lambda: any(words in sentence_of(r) for r in self.daemon.audit("admin.call", reason=reason)),
            SOON_S,
            f"{reason}: {words}",
        )


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    folder = tmp_path_factory.mktemp("admin")
    with Node(folder, cgroup=1) as node, daemon_of(node, config=LENDING) as daemon:
        node.start_clock()
        yield Lasting(node, served(daemon))


@pytest.fixture
def rig(lasting: Lasting) -> Rig:
    rig = Rig(lasting.emptied(LENDING), lasting.daemon)
    wait_until(lambda: rig.admin("resume") == 0, SOON_S, "the admin socket")
    return rig


def test_a_pause_lends_the_floor_and_offers_nothing(rig, capsys):
    shared(rig.node, "web")
    batch = reclaimed(rig.node, "batch")
    wait_until(lambda: rig.capacity()[0] > 0, SOON_S, "an offer")
    wait_until(lambda: rig.box() == "0-7", SOON_S, "the reclaim pool to grow")
    assert rig.admin("pause", "600", "--reason", "load test") == 0
    assert "lending is paused until 2" in capsys.readouterr().out
    assert rig.capacity() == (0, "lending_paused")
    assert "load test" in rig.daemon.capacity()["because"]
    wait_until(lambda: rig.box() == "6-7", SOON_S, "the floor: one core")
    pod_id = rig.node.runtime.containers[batch].pod.id
    wait_until(lambda: file(rig.node, pod_id, "cpuset.cpus") == "6-7", SOON_S, "its cgroup to follow")
    assert rig.daemon.metric("nri_coloc_lending_paused") == 1
    reload(rig.daemon, f"strict: true\n{LENDING}")
    assert rig.capacity() == (0, "lending_paused")
    assert rig.box() == "6-7"
    assert rig.admin("resume") == 0
    wait_until(lambda: rig.box() == "0-7", SOON_S, "the reclaim pool to grow again")
    wait_until(lambda: rig.capacity()[0] > 0, SOON_S, "an offer again")
    assert rig.daemon.metric("nri_coloc_lending_paused") == 0
    assert "load test" in rig.daemon.audited("reclaim.pause", reason="operator")["because"]
    rig.told("operator", "resume lending: it was paused")
    assert_unhurt(rig.daemon)


def test_a_pause_ends_by_itself(rig):
    reclaimed(rig.node, "batch")
    assert rig.admin("pause", "1") == 0
    rig.daemon.audited("reclaim.resume", SOON_S, reason="expired")
    wait_until(lambda: rig.box() == "0-7", SOON_S, "the reclaim pool to grow")


def test_the_configuration_is_read_by_order_and_a_mistake_is_told(rig, capsys):
    before = len(rig.daemon.audit("config.reload", reason="valid"))
    assert rig.admin("reload") == 0
    wait_until(
        lambda: len(rig.daemon.audit("config.reload", reason="valid")) > before, SOON_S, "a record of it"
    )
    reload(rig.daemon, "mode: maybe\n", "invalid")
    assert rig.admin("reload") == 1
    assert "mode: 'maybe' does not fit" in capsys.readouterr().err
    rig.told("operator", "reload: invalid")
    called = rig.daemon.audit("admin.call")[-1]["inputs"]
    assert (called["uid"], called["pid"]) == (os.geteuid(), os.getpid())
    assert_unhurt(rig.daemon)


def test_a_repair_puts_right_at_once_and_says_what(rig, capsys):
    reload(rig.daemon, "")
    name = shared(rig.node, "web")
    wait_until(lambda: rig.daemon.container(name).get("actual_cpus") == "0-7", SOON_S, "it to be looked at")

    def repaired() -> bool:
        """Change a cgroup and order a repair; return False if a sweep of the daemon repaired it first."""
        rig.node.tree.write(rig.node.runtime.containers[name].cgroup, "cpuset.cpus", "0")
        assert rig.admin("repair") == 0
        assert file(rig.node, name, "cpuset.cpus") == "0-7"
        return "shop/web/app: repaired: CPUs 0 instead of 0-7" in capsys.readouterr().out

    wait_until(repaired, SOON_S, "a repair by order")
    assert rig.daemon.audited("drift.repair")["before"] == {"cpus": "0"}
    rig.told("operator", "1 repaired")
    assert_unhurt(rig.daemon)


def test_the_runtimes_list_is_compared_by_order(rig, capsys):
    rig.daemon.wait_ready()
    assert rig.admin("compare") == 0
    assert capsys.readouterr().out == "no container is missing: the runtime's list and CRI's list agree\n"
    rig.told("operator", "compare: no container was missing")


def test_what_cannot_be_done_is_one_sentence(rig, capsys):
    reload(rig.daemon, "mode: observe\n")
    assert (rig.admin("repair"), rig.admin("pause", "60")) == (1, 1)
    said = capsys.readouterr().err
    assert "nri-coloc: mode observe changes nothing" in said
    assert "nri-coloc: lending is switched off" in said
    rig.told("declined", "repair: mode observe")


def test_only_its_owner_can_reach_it(rig):
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (rig.socket.parent, rig.socket)]
    assert modes == [0o700, 0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_disconnected_despite_an_open_path(rig):
    for path in (rig.daemon.folder, rig.socket.parent):
        path.chmod(0o755)
    rig.socket.chmod(0o666)
    talk = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(180); s.connect(sys.argv[1])\n"
        "try: print(s.recv(100))\n"
        "except ConnectionResetError: print(b'')"
    )
    command = [os.path.realpath(sys.executable), "-I", "-c", talk, str(rig.socket)]
    done = subprocess.run(
        command, user=NO_MOVES, group=NO_MOVES, capture_output=True, text=True, cwd="/", check=True
    )
    assert done.stdout == "b''\n"
    rig.told("stranger", "uid=65534")
    assert rig.admin("resume") == 0


@pytest.mark.parametrize(
    "data",
    [os.urandom(4096), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(4096), b"\x00" * 65536],
    ids=["noise", "a preface and noise", "zeros"],
)
def test_garbage_hurts_nobody(data, rig):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.connect(str(rig.socket))
        try:
            client.sendall(data)
            with suppress(OSError):  # the daemon may close the connection at any moment
                client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except ConnectionError:
            pass
    assert rig.admin("resume") == 0
    assert_unhurt(rig.daemon)


def test_after_a_kill_the_next_daemon_can_be_called(rig):
    rig.daemon.kill()
    assert rig.socket.exists()
    assert rig.admin("resume") == 1
    rig.daemon.start()
    served(rig.daemon)
    wait_until(lambda: rig.admin("resume") == 0, SOON_S, "the next request")


def test_a_socket_that_was_removed_comes_back(rig):
    rig.socket.unlink()
    wait_until(lambda: rig.socket.exists() and rig.admin("resume") == 0, SOON_S, "another one")
    assert "was removed; creating it again" in rig.daemon.log()


def test_its_end_removes_the_socket_despite_a_client(rig):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.connect(str(rig.socket))
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert client.recv(1), "gRPC greets"
        assert ends_well(rig.daemon)
    assert list(rig.socket.parent.iterdir()) == []


def test_a_waiting_copy_takes_the_socket_only_afterwards(rig):
    flags = ["--admin-socket", str(rig.socket)]
    with daemon_of(rig.node, state_dir=rig.daemon.state_dir, flags=flags) as second:
        wait_until(lambda: "holds the lock" in second.log(), SOON_S, "the second to wait")
        assert rig.admin("resume") == 0
        rig.daemon.kill()
        wait_until(lambda: rig.admin("resume") == 0, SOON_S, "the second to be called")
        assert second.audited("admin.call", SOON_S)["reason"] == "operator"


def test_without_a_place_for_it_the_daemon_runs_and_says_so(tmp_path):
    flags = ["--admin-socket", "/proc/nowhere/admin.sock"]
    with Node(tmp_path) as node, daemon_of(node, flags=flags) as daemon:
        served(daemon).wait_ready()
        assert "no admin socket at /proc/nowhere/admin.sock" in daemon.check("config")["detail"]
        assert "no admin socket at /proc/nowhere/admin.sock" in daemon.log()
        assert ends_well(daemon)
