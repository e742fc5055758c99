"""Lanes: several processes of pytest play tests at once, and this process reports them as its own.

A test of the daemon beside a simulated node waits for the daemon's periods and hardly computes; tests of pure modules
use one of the machine's CPUs. So lanes play them in batches (`tests/rig/order.py`), each by a pytest of its own. Such a
pytest writes each report to a file (`tests/rig/lane.py`). When a test's turn comes here, its reports are taken from
that file, with pytest's own hooks for reports of another process. A batch without other tests, or a test that runs
under a debugger, runs here.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any, Final

import pytest

from tests.rig import whole_process
from tests.rig.lane import LANE, RECORDS
from tests.rig.order import batch, bears_a_machine, is_emulated, is_on_a_cluster
from tests.rig.waiting import poll

LANES: Final = 6
"""Also on two CPUs, for a batch waits for four fifths of its time; there are ports for six (`tests/rig/lane.py`)."""

ENDS_WITHIN_S: Final = 60
TOLD: Final = 8_000
"""Characters of the output of a pytest that did not get to a test."""


class Batch:
    """Run the chosen tests of one batch in a pytest of its own."""

    def __init__(self, config: pytest.Config, name: str, items: Iterable[pytest.Item]) -> None:
        self._config = config
        self._names = [item.nodeid for item in items]
        # forgiving, as pytest is with the folders of its tests
        self._home = tempfile.TemporaryDirectory(prefix="lane-", ignore_cleanup_errors=True)
        self._folder = Path(self._home.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = Lock()
        self._is_ended = False
        self._name = name
        self._read = 0
        self._reports: dict[str, list[pytest.TestReport]] = {}

    def run(self, lane: int) -> None:
        """Run the batch to its end; with `lane` its tests have ports of their own."""
        chosen = self._folder / "chosen"
        # a folder of its own: in a shared one each pytest removes old folders of the others, and fails on one that is
        # just removed
        theirs = [f"--basetemp={self._folder / 'tmp'}", "-p", "no:cacheprovider"]
        # which versions a test is played on, and with how many examples, depends on the tier
        tier = self._config.getoption("--tier", None)
        theirs += [f"--tier={tier}"] if tier else []
        command = [sys.executable, "-m", "pytest", "-p", "tests.rig.lane", *theirs, "-q"]
        with whole_process.unchanged(), (self._folder / "said").open("wb") as said, self._starting:
            if self._is_ended:
                return
            chosen.write_text("".join(f"{name}\n" for name in self._names))
            self._process = subprocess.Popen(
                [*command, f"@{chosen}"],
                cwd=self._config.rootpath,
                env=os.environ | {RECORDS: str(self._records), LANE: str(lane)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # this process passes Ctrl-C on: a second one would cut teardowns short
            )
        self._process.wait()

    def is_last(self, nodeid: str) -> bool:
        """Return whether this test is the batch's last one."""
        return nodeid == self._names[-1]

    @property
    def is_sound(self) -> bool:
        """Return whether the exit code agrees with the reports.

        Before the end, the remains of the batch are unknown.
        """
        code = self._process.poll() if self._process is not None else None
        has_failed = any(report.failed for found in self._reports.values() for report in found)
        return code == int(has_failed)

    def reports(self, nodeid: str) -> list[pytest.TestReport]:
        """Return the reports of a test so far, the teardown's last."""
        hook = self._config.hook
        for data in map(json.loads, self._new_lines()):
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
            if report.skipped and isinstance(report.longrepr, list):
                report.longrepr = tuple(report.longrepr)  # file, line, reason: in JSON they are a list
            self._reports.setdefault(report.nodeid, []).append(report)
        return self._reports.get(nodeid, [])

    def interrupt(self) -> None:
        """End the running pytest as Ctrl-C does, which also ends its daemons, and start no other."""
        with self._starting:
            self._is_ended = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Wait for the end, up to a limit."""
        process = self._process
        if process is not None and not poll(lambda: process.poll() is not None, ENDS_WITHIN_S):
            process.kill()
            process.wait()

    def close(self) -> None:
        """Remove the batch's files."""
        self._home.cleanup()

    @property
    def last_words(self) -> str:
        """Return the end of the batch's output."""
        said = self._folder / "said"
        text = said.read_text(errors="replace") if said.exists() else ""
        code = self._process.poll() if self._process is not None else None
        ended = f"the pytest of {self._name} ended with {code}, which no report of its tests explains"
        return f"{ended}\n{text[-TOLD:]}"

    @property
    def _records(self) -> Path:
        return self._folder / "records"

    def _new_lines(self) -> list[str]:
        """Return the whole lines that were written since the last call."""
        if not self._records.exists():
            return []
        with self._records.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        return whole.decode().splitlines()


class Lanes:
    """Play batches, `LANES` at a time, the largest first, as a plugin of pytest.

    They begin beside the first test that may run beside an emulated machine: such a test may run beside lanes too. If
    such machines are chosen, which keep one CPU busy, lanes begin with their own first test, or beside the first test
    on a real Kubernetes node.
    """

    def __init__(self, config: pytest.Config, items: Sequence[pytest.Item]) -> None:
        by_name: dict[str, list[pytest.Item]] = {}
        for item in items:
            if name := batch(item):
                by_name.setdefault(name, []).append(item)
        self._batches = {name: Batch(config, name, by_name[name]) for name in largest_first(by_name)}
        self._begin_early = not any(map(is_emulated, items))
        self._free: SimpleQueue[int] = SimpleQueue()
        self._pool = ThreadPoolExecutor(LANES, "lane")
        self._begun: dict[str, Future[None]] = {}
        for lane in range(1, LANES + 1):
            self._free.put(lane)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report a test that a lane plays; leave any other to pytest."""
        if batch(item) or is_on_a_cluster(item) or (self._begin_early and bears_a_machine(item)):
            self._begin()
        if not batch(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # The test before kept the folders that it shares with this one, for which nothing is set up here.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        """End the lanes, in whichever way the session ends."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._batches.values():
            each.interrupt()
        for each in self._batches.values():
            each.end()
        self._pool.shutdown()
        for each in self._batches.values():
            each.close()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = {name: self._pool.submit(self._play, each) for name, each in self._batches.items()}

    def _play(self, chosen: Batch) -> None:
        lane = self._free.get()
        try:
            chosen.run(lane)
        finally:
            self._free.put(lane)

    def _reports(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        played, begun = self._batches[batch(item)], self._begun[batch(item)]
        poll(lambda: _is_whole(played.reports(item.nodeid)) or begun.done(), float("inf"))
        found = played.reports(item.nodeid)
        yield from found
        if not _is_whole(found) or played.is_last(item.nodeid):
            begun.result()
        if not _is_whole(found) or (played.is_last(item.nodeid) and not played.is_sound):
            yield _failed(item, played.last_words)


def _is_whole(reports: Sequence[pytest.TestReport]) -> bool:
    return bool(reports) and reports[-1].when == "teardown"


def _failed(item: pytest.Item, why: str) -> pytest.TestReport:
    keywords: dict[str, Any] = dict.fromkeys(item.keywords, 1)
    return pytest.TestReport(item.nodeid, item.location, keywords, "failed", why, "call")


def largest_first(batches: Mapping[str, Sequence[object]]) -> list[str]:
    """Return the names of batches, that of most tests first: a long batch that begins last ends alone."""
    return sorted(batches, key=lambda name: -len(batches[name]))


def is_lane() -> bool:
    """Return whether this process is itself a lane."""
    return RECORDS in os.environ


def wanted(config: pytest.Config, items: Iterable[pytest.Item]) -> bool:
    """Return whether a batch is chosen beside other tests, and no option asks for its tests in this very process."""
    option = config.option
    looked_into = option.usepdb or option.trace or option.capture == "no"
    not_run = option.collectonly or option.setupplan or option.setuponly
    one_for_all = option.basetemp or option.xmlpath
    return (
        not (looked_into or not_run or one_for_all or is_lane()) and len({batch(item) for item in items}) > 1
    )
