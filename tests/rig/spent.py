"""Where the minutes of a run go, told at its end: the files whose tests took longest, and how long each folder took."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

TOLD: Final = 15
"""Files."""

WORTH_S: Final = 60.0
"""Nobody asks where less than a minute went."""


class Spent:
    """A plugin of pytest: seconds of set-up, call and teardown, by file."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell, after a run that was worth it."""
        for line in lines(self.seconds):
            terminalreporter.write_line(line)


def lines(seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for the folders together and one for each of the longest files; none for a short run."""
    in_all = sum(seconds.values())
    if in_all < WORTH_S:
        return
    folders: dict[str, float] = defaultdict(float)
    for file, spent in seconds.items():
        folders["/".join(file.split("/")[:2])] += spent
    yield f"{in_all:.0f} s of tests: " + ", ".join(f"{name} {s:.0f}" for name, s in _longest_first(folders))
    for file, spent in _longest_first(seconds)[:TOLD]:
        yield f"{spent:7.1f} s  {file}"


def _longest_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])
