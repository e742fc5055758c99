"""`python -m benchmarks`: SIGINT and SIGTERM let a benchmark clean up before the process ends."""

import os
import signal
from collections.abc import Iterator

import pytest

from benchmarks.__main__ import played

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Give the test process its own handlers back."""
    before = [(number, signal.getsignal(number)) for number in SIGNALS]
    # without a handler of the benchmark's the test fails instead of ending its process
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS, ids=["SIGINT", "SIGTERM"])
def test_a_signal_lets_a_benchmark_clean_up(number: signal.Signals):
    cleaned = []

    def play() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)
            cleaned.append("cgroups")

    with pytest.raises(SystemExit, match="pressure: interrupted"):
        played("pressure", play)
    assert cleaned == ["cgroups"]
