"""Other processes of the machine misuse the daemon's HTTP port: the daemon serves on, at little cost."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import cpu_seconds, daemon_of, served
from tests.rig.daemon import Daemon
from tests.rig.drippers import dripping
from tests.rig.waiting import PATIENCE_SECONDS

DRIPPERS = 20
ASKED = 60
PROBE_S = 1.0
"""A kubelet's own timeout of a probe."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root: Path = tmp_path_factory.mktemp("node")
    with Node(root, cgroup=1) as node, daemon_of(node) as daemon:
        yield served(daemon)


def probed(daemon: Daemon, path: str) -> int:
    """Return the status as a kubelet's probe sees it: one attempt, 0 for none."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon._port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def assert_probed(daemon: Daemon, path: str) -> None:
    """Assert that each probe is answered, and most within the kubelet's time: a machine may stand still at some."""
    took_s = []
    for _ in range(ASKED):
        began_s = time.monotonic()
        assert probed(daemon, path) == 200
        took_s.append(time.monotonic() - began_s)
    assert median(took_s) < PROBE_S, took_s


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
def test_half_requests_starve_no_probe(daemon, path):
    with dripping(daemon._port, DRIPPERS):
        assert_probed(daemon, path)


def test_half_requests_cost_next_to_nothing(daemon):
    began = cpu_seconds(daemon)
    with dripping(daemon._port, DRIPPERS):
        for _ in range(ASKED):
            probed(daemon, "/healthz")
    assert cpu_seconds(daemon) - began < 1.0


def test_unread_answers_starve_no_probe(daemon):
    with ExitStack() as held:
        for _ in range(DRIPPERS):
            client = held.enter_context(socket.create_connection(("127.0.0.1", daemon._port)))
            client.sendall(b"GET /v1/audit?limit=1000 HTTP/1.1\r\n\r\n")
        assert_probed(daemon, "/healthz")
