"""The ledger at the end of a long run: wall time and CPU time in all, and the folders and files that took longest."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

LONGEST_FILES: Final = 15
WORTH_S: Final = 60.0
"""A run whose tests took less has no ledger."""


class Spent:
    """Count each test's set-up, call and teardown, in seconds, by file, as a plugin of pytest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the ledger."""
        if sum(self.seconds.values()) < WORTH_S:
            return
        cpu, wall, cpus = sum(os.times()[:4]), time.monotonic() - self._began, os.cpu_count()
        terminalreporter.write_line(f"{wall:.0f} s by the clock, {cpu:.0f} s of CPU time, {cpus} CPUs")
        for line in lines(self.seconds):
            terminalreporter.write_line(line)


def lines(seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for all folders, then one for each of the longest files; lanes make their sum exceed the clock."""
    folders: dict[str, float] = defaultdict(float)
    for file, spent in seconds.items():
        folders["/".join(file.split("/")[:2])] += spent
    in_all = sum(seconds.values())
    yield f"{in_all:.0f} s of tests: " + ", ".join(f"{name} {s:.0f}" for name, s in _longest_first(folders))
    for file, spent in _longest_first(seconds)[:LONGEST_FILES]:
        yield f"{spent:7.1f} s  {file}"


def _longest_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])
