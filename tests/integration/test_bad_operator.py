"""Mistakes of an operator get a sentence and an exit code, never a traceback."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from nri_coloc.cli import main
from nri_coloc.sim.node import Node
from tests.integration.harness import (
    ENDS_WITHIN_S,
    assert_unhurt,
    daemon_of,
    dedicated,
    ends_well,
    journal,
    reclaimed,
    served,
    status,
)
from tests.rig.daemon import PROJECT
from tests.rig.own_time import ends_within
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

SOON_S = 60


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=1) as node:
        yield node


class Done(NamedTuple):
    """Hold the result of a command that ends by itself."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command in this process: none of these starts a thread."""

    def do(*arguments: str, **environment: str) -> Done:
        code = main.main(arguments, environment)
        return Done(code, *capfd.readouterr())

    return do


def refused(done: Done, *words: str, code: int = 2) -> None:
    """Assert that the command ended with this code and a sentence that holds these words."""
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


# ---- flags and files ----


def test_the_exit_code_is_the_processes(tmp_path):
    command = [sys.executable, "-m", "nri_coloc", "check-config", str(tmp_path / "nothing.yaml")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=SOON_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing.yaml" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["walk"],
        ["run", "--fast"],
        ["run", "--config"],
        ["demo", "--seconds", "0"],
        ["demo", "--seconds", "many"],
        ["audit", "--limit", "-1"],
        ["check-config"],
        ["topology", "-o", "xml"],
        ["restore", "now"],
    ],
    ids=" ".join,
)
def test_an_unknown_command_ends_with_2_and_usage(arguments, run):
    refused(run(*arguments), "usage: nri-coloc")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return paths that cannot be a configuration."""
    half = tmp_path / "half.yaml"
    half.write_text("node:\n  reservedCPUs: [0,")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    return {
        "missing": str(tmp_path / "nothing.yaml"),
        "folder": str(tmp_path),
        "half written": str(half),
        "binary": str(binary),
        "endless link": str(loop),
        "long name": "x" * 5000,
        "device": "/dev/zero",
    }


KINDS = ("missing", "folder", "half written", "binary", "endless link", "long name", "device")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", [("run", "--config"), ("check-config",)], ids=["run", "check-config"])
def test_a_configuration_that_cannot_be_read_is_named(command, kind, files, run):
    refused(run(*command, files[kind]), files[kind][:50])


def test_a_good_configuration_is_shown_and_an_empty_one_is_good(tmp_path, run):
    (tmp_path / "empty.yaml").write_text("")
    done = run("check-config", str(tmp_path / "empty.yaml"))
    assert (done.code, done.err) == (0, "")
    assert done.out


@pytest.mark.parametrize(
    "address", ["nowhere", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x", ":", "1.2.3.4:-1", "127.0.0.1: 80"]
)
def test_a_bad_http_address_is_refused(address, node, run):
    done = run(
        *("run", "--host-root", str(node.host_root), "--state-dir", str(node.host_root / "state")),
        *("--http", address),
    )
    refused(done, "--http", address)


def test_a_socket_path_that_no_socket_can_have_is_refused(node, run):
    done = run(
        *("run", "--host-root", str(node.host_root), "--state-dir", str(node.host_root / "state")),
        *("--http", "off", "--nri-socket", "/" + "x" * 200),
    )
    refused(done, "--nri-socket")


def test_a_machine_that_cannot_be_read_is_named(tmp_path, run):
    for command in (["run", "--http", "off", "--state-dir", str(tmp_path / "s")], ["topology"], ["restore"]):
        state = ["--state-dir", str(tmp_path), "--files-only"] if command == ["restore"] else []
        done = run(*command, *state, "--host-root", str(tmp_path / "nowhere"))
        assert "Traceback" not in done.err
        assert done.code == (0 if command == ["restore"] else 1), done.err
    assert "cpu/online" in run("topology", "--host-root", str(tmp_path / "nowhere")).err


def test_reserving_every_cpu_is_refused_at_the_start(node, tmp_path, run):
    config = tmp_path / "all.yaml"
    config.write_text("node: {reservedCPUs: 8}\n")
    done = run("run", "--config", str(config), "--host-root", str(node.host_root), "--http", "off")
    refused(done, "reservedCPUs", "at least one")


# ---- the state folder ----


@pytest.mark.parametrize("state_dir", ["/proc/nri-coloc", "/dev/null/state", "{file}"])
def test_a_state_folder_that_cannot_be_used_is_named(state_dir, node, tmp_path, run):
    (tmp_path / "file").write_text("")
    path = state_dir.format(file=tmp_path / "file")
    done = run("run", "--host-root", str(node.host_root), "--http", "off", "--state-dir", path)
    refused(done, path, "--state-dir")


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """Yield a file system of 64 KiB of its own, mounted as root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(1 << 12))
    with (disk / "more").open("wb", buffering=0) as more, suppress(OSError):
        while more.write(b"x" * 512):
            pass


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")


@needs_root
def test_a_full_disk_costs_no_placement_and_the_journal_is_mended(node, tmp_path):
    with small_disk(tmp_path / "disk", "size=64k") as disk, daemon_of(node, state_dir=disk) as daemon:
        served(daemon)
        fill_up(disk)
        for number in range(40):  # more entries than the journal's first page holds
            reclaimed(node, f"b{number}")
        dedicated(node)
        daemon.audited("write.failed", saying="restore journal")
        wait_until(
            lambda: (
                {node.tree.read(node.runtime.pods[k].cgroup, "cpuset.cpus") for k in node.runtime.pods}
                >= {"2-7"}
            ),
            20,
            "the reclaim pool to be limited",
        )
        assert_unhurt(daemon)
        said = [each for each in daemon.audit("write.failed") if "restore journal" in each["because"]]
        assert len(said) == 1, "said once, not for every entry"
        (disk / "ballast").unlink()
        dedicated(node, "second")
        assert ends_well(daemon)


@needs_root
def test_a_read_only_disk_costs_no_placement(node, tmp_path):
    with (
        small_disk(tmp_path / "disk", "size=64k,ro") as disk,
        daemon_of(node, state_dir=disk / "s") as daemon,
    ):
        served(daemon)
        dedicated(node)
        daemon.audited("write.failed", saying="Read-only file system")
        assert not daemon.check("state")["ok"]
        daemon.wait_ready()
        assert_unhurt(daemon)


# ---- ports, pipes and neighbours ----


def test_a_port_that_is_taken_is_waited_for(node):
    with daemon_of(node) as daemon:
        daemon.kill()
        with socket.create_server(("127.0.0.1", daemon._port)):
            daemon.start()
            wait_until(lambda: "cannot serve HTTP" in daemon.log(), 20, "the obstacle to be said")
            daemon.wait_synchronised()
            dedicated(node)
        wait_until(lambda: status(daemon, "/healthz") == 200, 20, "the port")
        assert len(assert_unhurt(daemon)["containers"]) == 1


def test_a_silent_cri_stops_neither_health_nor_end(node):
    node.cri.close()
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(node.cri_socket))
        mute.listen(16)
        mute.settimeout(PATIENCE_SECONDS)
        with daemon_of(node) as daemon:
            served(daemon)
            connection, _ = mute.accept()  # the daemon connects to compare, and gets no answer
            with connection:
                assert not daemon.readyz()["ready"]
                dedicated(node)
                assert_unhurt(daemon)
                assert ends_well(daemon)


def test_an_unread_audit_does_not_delay_the_end(node, tmp_path):
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "nri_coloc", "run", "--http", "off", "--host-root", str(node.host_root)]
    command += ["--nri-socket", str(node.nri_socket), "--state-dir", str(tmp_path / "state")]
    command += ["--admin-socket", str(tmp_path / "admin" / "admin.sock")]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    try:
        wait_until(lambda: node.runtime.plugins.names, SOON_S, "the plugin")
        for number in range(40):
            reclaimed(node, f"b{number}")
        process.terminate()
        assert ends_within(process, ENDS_WITHIN_S)
        assert process.returncode == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
        os.close(reading)


def test_the_journal_of_a_run_is_there_for_restore(node):
    with daemon_of(node) as daemon:
        served(daemon)
        reclaimed(node)
        assert {Path(entry["file"]).name for entry in journal(daemon)} >= {"cpuset.cpus"}
