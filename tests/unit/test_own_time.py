"""A process is watched until it ends, or has used a number of CPU seconds of its own."""

import signal
import subprocess
import sys
import time

import pytest

from tests.rig import own_time


@pytest.fixture
def started():
    running: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen([sys.executable, "-c", script]))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_one_that_ends_is_seen_to(started):
    process = started("raise SystemExit(3)")
    assert own_time.ends_within(process, 60)
    assert process.returncode == 3


@pytest.mark.parametrize(
    "script", ["import time; time.sleep(600)", "while True: pass"], ids=["waits", "works"]
)
def test_one_that_stays_is_given_up(started, script):
    assert not own_time.ends_within(started(script), 0.3)


def test_a_standstill_of_whoever_watches_is_not_the_processs(started, monkeypatch):
    process = started("import time; time.sleep(600)")
    process.send_signal(signal.SIGSTOP)
    looks = iter([0.0, *(25.0 * look for look in range(1, 4))])

    def monotonic() -> float:
        at = next(looks, None)
        if at is None:
            process.kill()
            process.wait()
            return 76.0
        return at

    monkeypatch.setattr(time, "monotonic", monotonic)
    assert own_time.ends_within(process, 2.0)
    assert time.monotonic() == 76.0
