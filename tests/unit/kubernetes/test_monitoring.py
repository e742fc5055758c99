"""Probes and metrics of the controller over HTTP."""

import http.client
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from nri_coloc.kubernetes.monitoring import Monitor


@pytest.fixture
def problems() -> list[str]:
    """The problem that the program has now, or none."""
    return []


@pytest.fixture
def port(problems) -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("nri_coloc_controller_leader", "1 if this replica leads.", registry=registry).set(1)
    monitor = Monitor(("127.0.0.1", 0), registry, lambda: "".join(problems))
    monitor.start()
    yield monitor.port
    monitor.close()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_it_is_alive_and_ready(port):
    assert (get(port, "/healthz"), get(port, "/readyz")) == ((200, "ok\n"), (200, "ok\n"))


def test_a_problem_is_told_and_no_reason_to_end(port, problems):
    problems.append("GET /x: no answer")
    assert get(port, "/readyz") == (503, "GET /x: no answer\n")
    assert get(port, "/healthz")[0] == 200


def test_it_shows_its_metrics(port):
    assert "nri_coloc_controller_leader 1.0\n" in get(port, "/metrics")[1]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/x", 404), ("POST", "/healthz", 501)])
def test_nothing_else_is_answered(port, method, path, status):
    assert get(port, path, method)[0] == status
