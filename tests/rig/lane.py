"""pytest's part in a process that runs a file for another pytest (`tests/rig/lanes.py`): a report is a line of JSON.

Each lane has its own range of ports: two lanes that look for a free port at the same time would find the same one.
"""

import json
import os
import socket
from itertools import count
from pathlib import Path
from typing import Final

import pytest

RECORDS: Final = "NRI_COLOC_TEST_RECORDS"
LANE: Final = "NRI_COLOC_TEST_LANE"

FIRST_PORT: Final = 20_000
PORTS: Final = 1_800
"""Of each lane, from 0 (no lane) to 6; all lie below the ports of outgoing connections (ip_local_port_range)."""

_asked = count(os.getpid())


def free_port() -> int:
    """Return a port on which no process listens and which no other lane returns."""
    first = FIRST_PORT + PORTS * int(os.environ.get(LANE, "0"))
    for number in _asked:
        port = first + number % PORTS
        with socket.socket() as probe:
            # with SO_REUSEADDR a closed connection does not block the port, but a listener does
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError


class Recorder:
    """Write the reports of tests."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._file = path.open("a", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write one report, at once."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._file.write(f"{json.dumps(data)}\n")
        self._file.flush()


def pytest_configure(config: pytest.Config) -> None:
    if RECORDS in os.environ:
        config.pluginmanager.register(Recorder(config, Path(os.environ[RECORDS])))
