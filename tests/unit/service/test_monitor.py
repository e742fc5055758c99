"""Probes and metrics of controller and companion over HTTP."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from nri_coloc.service import http_loop, monitor
from tests.rig.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture
def problems() -> list[str]:
    """The problem that the program has now, or none."""
    return []


@pytest.fixture
def port(problems) -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("nri_coloc_controller_leader", "1 if this replica leads.", registry=registry).set(1)
    metrics = partial(generate_latest, registry)
    server = monitor.server(("127.0.0.1", 0), lambda: "".join(problems), lambda _: None, metrics)
    server.start()
    yield server.port
    server.close()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
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


def test_a_program_without_metrics_has_no_such_path():
    server = monitor.server(("127.0.0.1", 0), lambda: "", lambda _: None)
    server.start()
    assert get(server.port, "/metrics") == (404, "paths: /healthz /readyz\n")
    server.close()


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/x", 404), ("POST", "/healthz", 405)])
def test_nothing_else_is_answered(port, method, path, status):
    assert get(port, path, method)[0] == status


def test_a_dripping_request_ends(monkeypatch, port):
    monkeypatch.setattr(http_loop, "TIMEOUT_S", 0.3)
    with socket.create_connection(("127.0.0.1", port), timeout=0.1) as client:

        def is_closed() -> bool:
            try:
                client.sendall(b"G")
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:  # a byte met the closed connection
                return True

        wait_until(is_closed, 2, "the end of the connection")


def test_half_requests_take_no_threads(port):
    before = threading.active_count()
    with ExitStack() as clients:
        for _ in range(80):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(b"GET /")
        assert get(port, "/healthz")[0] == 200
        assert threading.active_count() <= before  # a thread of an earlier test may end meanwhile


def test_a_failing_view_is_one_answer(port, problems):
    problems.append(None)  # the join fails
    assert get(port, "/readyz")[0] == 500
    assert get(port, "/healthz")[0] == 200
