"""`nri-coloc demo` as a whole, with the real daemon as its own process."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from nri_coloc.cli import demo, demo_check, demo_lines
from nri_coloc.cli.demo_screen import Screen
from nri_coloc.errors import SettingsError
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.rig.waiting import wait_until

LINE = re.compile(r"\d\d:\d\d [a-z]+\.[a-z]+ +\S")
PATIENCE_S = 120


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "nri_coloc", "demo", *arguments]
    environment = os.environ | {"TMPDIR": str(folder)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def short():
    """Yield a folder with a short path: a Unix socket's path has 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def daemon_of(process: subprocess.Popen[str]) -> int:
    """Return the pid of the daemon that the demo has started; 0 while there is none."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if children else 0


def play_until_first_admission(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if "container.admit" in line:
            return
    assert process.stderr is not None
    raise AssertionError(f"the demo ended before it admitted anything: {process.stderr.read()}")


@pytest.fixture(scope="module")
def day():
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), "--seconds", "6") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out.splitlines(), err, list(Path(folder).iterdir())


def test_a_day_ends_well_and_leaves_nothing_behind(day):
    code, _, err, left = day
    assert (code, err, left) == (0, "", [])


def test_without_a_terminal_there_is_one_line_for_each_record(day):
    _, lines, _, _ = day
    told = lines[: lines.index("")]
    assert all(LINE.match(line) for line in told)
    assert lines[len(told) + 1] == f"The day is over: {len(told)} audit records."
    assert told == sorted(told, key=lambda line: line[:5])


@pytest.mark.parametrize(
    "part",
    [
        "shop/web/app dedicated CPUs 0-1 whole_core: own CPUs 0-1: ",
        "share CPUs 0-7 -> 2-7 cpus_taken",
        "pay/ledger/main dedicated CPUs 2-3 whole_core",
        "pay/ledger/proxy dedicated CPUs 2-3 follows_main",
        "annotation.invalid shop/ads/app",
        "annotation.denied  shop/greedy/app",
        "container.update   shop/search/app shared",
        "pod.limit          batch/etl-1 reclaimed CPUs",
        "share CPUs 4-7 -> 0-1,4-7 cpus_returned",
        "share CPUs 0-1,4-7 -> 0-7 cpus_returned",
    ],
)
def test_the_day_has_everything_that_it_promises(day, part):
    _, lines, _, _ = day
    assert any(part in line for line in lines), "\n".join(lines)


def test_the_check_compares_more_than_once(day):
    _, lines, _, _ = day
    assert any(line.startswith("Check passed: ") for line in lines)


@pytest.mark.parametrize("topology", ["1cpu", "2cpu", "laptop-no-numa", "epyc-256"])
def test_other_machines_have_days_too(topology, short):
    with started(short, "--seconds", "2", "--topology", topology) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, ""), out


def test_killing_the_daemon_fails_the_demo_at_once(short):
    with started(short, "--seconds", "60") as process:
        play_until_first_admission(process)
        os.kill(daemon_of(process), signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert err.startswith("nri-coloc demo: the daemon was killed by signal 9")
    assert list(short.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_an_interrupted_demo_ends_the_daemon_and_removes_its_folder(number, short):
    with started(short, "--seconds", "60") as process:
        play_until_first_admission(process)
        daemon = daemon_of(process)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "interrupted" in err) == (1, True)
    assert list(short.iterdir()) == []
    wait_until(lambda: not Path(f"/proc/{daemon}").exists(), 20, "the daemon's end")


def test_an_unknown_machine_is_named_with_those_that_exist():
    with pytest.raises(SettingsError, match="there is no machine 'moon'; there are 1cpu"):
        demo.run(1, "moon")


def test_in_a_terminal_it_draws_and_ends_with_the_summary(short):
    primary, secondary = pty.openpty()
    environment = os.environ | {
        "TMPDIR": str(short),
        "TERM": "xterm-256color",
        "COLUMNS": "110",
        "LINES": "45",
    }
    command = [sys.executable, "-m", "nri_coloc", "demo", "--seconds", "2"]
    process = subprocess.Popen(
        command, stdin=secondary, stdout=secondary, stderr=subprocess.PIPE, env=environment
    )
    os.close(secondary)
    drawn = b"".join(iter(lambda: _read(primary), b""))
    os.close(primary)
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())
    for part in ("CPUs by owner", "shop/web/app", "last decisions", "Check passed"):
        assert part in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: the other side is closed
        return b""


# ---- the parts, without a daemon ----

RECORD = {
    "ts": "2026-01-01T00:00:05.000000Z",
    "event": "container.admit",
    "namespace": "shop",
    "pod": "web",
    "container": "app",
    "container_id": "1",
    "class": "dedicated",
    "pool": "dedicated",
    "before": {},
    "after": {"cpus": "0-1"},
    "reason": "whole_core",
    "because": "own CPUs 0-1\x1b[2J",
}
CONTAINER = {
    "id": "1",
    "namespace": "shop",
    "pod": "web",
    "container": "app",
    "class": "dedicated",
    "pool": "dedicated",
    "cpus": "0-1",
    "actual_cpus": "0-1",
    "exclusive": True,
}
STATE = {
    "mode": "enforce",
    "node": {"cpus": "0-3", "reserved": "", "numa": [{"id": 0, "cpus": "0-3", "memory_bytes": 0}]},
    "pools": {
        "reserved": {"cpus": "", "members": 0},
        "dedicated": {"cpus": "0-1", "members": 1},
        "share": {"cpus": "2-3", "members": 0},
        "system": {"cpus": "2-3", "members": 0},
        "reclaim": {"cpus": "3", "members": 1},
    },
    "containers": [CONTAINER],
}
SCENE = demo_lines.Scene(9.5, 1767225600.0, 2.0, STATE)


def test_a_record_is_put_on_the_clock_of_the_simulated_day():
    assert SCENE.clock(RECORD) == "10:00"
    assert SCENE.clock(RECORD | {"ts": "2025-12-31T23:59:59Z"}) == "00:00"
    assert demo_lines.clock(24.0) == "23:59"


def test_a_line_is_complete_and_steers_no_terminal():
    expected = "container.admit    shop/web/app dedicated CPUs 0-1 whole_core: own CPUs 0-1?[2J"
    assert demo_lines.line(RECORD) == expected


def test_a_record_without_cpus_shows_none():
    assert demo_lines.placement(RECORD | {"after": {}}) == ""


def test_the_screen_colours_each_cpu_by_its_owner():
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True, record=True)
    with Screen("4cpu", console) as screen:
        screen.news(SCENE, [RECORD])
    drawn = console.export_text()
    for part in (
        "09:30",
        "0a   1a   2.   3~",
        "a  shop/web/app: CPUs 0-1",
        ".  online pods (pool share): CPUs 2",
        "~  online pods, lent to reclaimed pods: CPUs 3",
    ):
        assert part in drawn


@pytest.fixture
def pinned(short):
    with Node(short) as node:
        pod = node.run_pod(PodRequest("web", "shop"))
        container_id = node.run_container(pod, ContainerRequest("app", native(1000)))
        yield node, CONTAINER | {"id": container_id, "cpus": "0-7", "actual_cpus": "0-7"}


def test_a_report_that_agrees_with_the_files_has_no_differences(pinned):
    node, reported = pinned
    assert list(demo_check.differences(node, [reported])) == []


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        ({"cpus": "0-1"}, "shop/web/app: cpus 0-1, the files have 0-7"),
        ({"actual_cpus": ""}, "shop/web/app: actual_cpus none, the files have 0-7"),
        ({"id": "other"}, "1 container in the report, 1 on the node"),
    ],
    ids=["decided", "read-back", "unknown"],
)
def test_a_report_that_differs_is_named(pinned, lie, found):
    node, reported = pinned
    assert next(demo_check.differences(node, [reported | lie])) == found


def test_a_stranger_on_dedicated_cpus_is_named(pinned):
    node, reported = pinned
    pod = node.run_pod(PodRequest("other", "shop"))
    stranger = node.run_container(pod, ContainerRequest("app", native(1000)))
    both = [reported, reported | {"id": stranger, "pod": "other", "exclusive": False}]
    assert "another pod may run on its CPUs 0-7" in next(demo_check.differences(node, both))
