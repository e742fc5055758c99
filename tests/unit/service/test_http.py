"""service/http.py: the paths of DESIGN 4.5 over real sockets, also for ill-behaved clients."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from nri_coloc.service import http_loop
from nri_coloc.service.http import HttpServer
from tests.unit.service import test_overview

NOBODYS = "192.0.2.1"
"""An address of documentation (RFC 5737): no machine has it, and no name server is asked for it."""

READY = {"ready": True, "checks": {"connected": {"ok": True, "detail": "containerd 2.1"}}}
NOT_READY = {"ready": False, "checks": {"connected": {"ok": False, "detail": "waiting for the socket"}}}


class View:
    """The answers of a daemon; a test changes them."""

    def __init__(self) -> None:
        self.alive = True
        self.ready: dict[str, Any] = READY
        self.asked: list[tuple[int, str, int]] = []
        self.padding = ""
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def metrics(self) -> bytes:
        self.begun.set()
        self.may_end.wait(30)
        return b"nri_coloc_connected 1.0\n"

    def healthy(self) -> bool:
        return self.alive

    def readiness(self) -> dict[str, Any]:
        return self.ready

    def state(self) -> dict[str, Any]:
        return {"mode": "enforce", "padding": self.padding} if self.padding else {"mode": "enforce"}

    def capacity(self) -> dict[str, Any]:
        raise RuntimeError("no readings")

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        self.asked.append((since, pod, limit))
        return {"records": [self.padding] if self.padding else [], "next": since}


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def server(view, reports):
    running = HttpServer(view, reports.append)
    running.start("127.0.0.1:0")
    assert running.wait_bound(30)
    yield running
    running.close()


def ask(server: HttpServer, path: str, method: str = "GET", body: bytes | None = None):
    """Return (status, headers, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def raw(server: HttpServer, request: bytes) -> bytes:
    """Send bytes; return everything that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        pieces = []
        # the server never reads bytes beyond its limits
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(request)
            while piece := connection.recv(65536):
                pieces.append(piece)
        return b"".join(pieces)


class TestPaths:
    def test_metrics_are_prometheus_text(self, server):
        status, headers, body = ask(server, "/metrics")
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert body == b"nri_coloc_connected 1.0\n"

    def test_health_follows_the_loop(self, server, view):
        assert ask(server, "/healthz")[0] == 200
        view.alive = False
        assert ask(server, "/healthz")[0] == 503

    @pytest.mark.parametrize(
        ("ready", "status"), [(READY, 200), (NOT_READY, 503)], ids=["ready", "not ready"]
    )
    def test_readiness_is_a_status_and_its_checks(self, server, view, ready, status):
        view.ready = ready
        got, headers, body = ask(server, "/readyz")
        assert (got, headers["Content-Type"], json.loads(body)) == (status, "application/json", ready)

    def test_the_state_is_json(self, server):
        assert json.loads(ask(server, "/v1/state?pretty")[2]) == {"mode": "enforce"}

    def test_the_audit_gets_its_parameters(self, server, view):
        _, _, body = ask(server, "/v1/audit?since=41&pod=shop/web&limit=5")
        assert json.loads(body) == {"records": [], "next": 41}
        assert view.asked == [(41, "shop/web", 5)]

    def test_the_page_is_html(self, server):
        status, headers, body = ask(server, "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert body.startswith(b"<!doctype html>")

    def test_the_page_gets_its_words(self, server, view):
        view.capacity = test_overview.capacity
        view.state = lambda: test_overview.state(test_overview.WEB)
        view.readiness = test_overview.ready
        status, _, body = ask(server, "/page.json")
        assert status == 200
        assert json.loads(body)["status"] == "mode enforce, ready"

    def test_every_answer_is_safe_in_a_browser(self, server):
        for path in ("/", "/v1/state", "/nowhere"):
            _, headers, _ = ask(server, path)
            assert headers["Content-Security-Policy"].startswith("default-src 'self' 'unsafe-inline'")
            assert headers["X-Content-Type-Options"] == "nosniff"

    def test_head_is_get_without_the_body(self, server):
        status, headers, body = ask(server, "/v1/state", "HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 0


class TestRefusals:
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "INVENTED"])
    def test_changing_methods_are_refused(self, server, method):
        status, headers, body = ask(server, "/v1/state", method, b"{}")
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
        assert json.loads(body) == {"error": "this interface is read-only: GET, HEAD"}

    def test_an_unread_body_does_not_lose_the_answer(self, server):
        assert ask(server, "/", "POST", b"x" * 8000)[0] == 405

    @pytest.mark.parametrize("path", ["/", "/v1/state", "/healthz"])
    def test_a_name_of_others_reads_nothing(self, server, path):
        answer = raw(server, b"GET %s HTTP/1.1\r\nHost: site.example:9744\r\n\r\n" % path.encode())
        assert answer.startswith(b"HTTP/1.0 421 ")
        assert b"no name of this address" in answer

    def test_an_unknown_path_is_not_found(self, server):
        status, _, body = ask(server, "/v2/state")
        assert status == 404
        assert "/v1/state" in json.loads(body)["error"]

    def test_a_bad_query_is_told_why(self, server, view):
        status, _, body = ask(server, "/v1/audit?since=yesterday")
        assert status == 400
        assert json.loads(body) == {"error": "since must be a whole number of at least 0, not 'yesterday'"}
        assert view.asked == []

    def test_a_view_that_fails_is_one_failed_request(self, server, reports):
        status, _, body = ask(server, "/v1/capacity")
        assert status == 500
        assert b"no readings" not in body
        assert reports == ["/v1/capacity failed: RuntimeError: no readings"]
        assert ask(server, "/healthz")[0] == 200


class TestBadManners:
    def test_garbage_is_a_bad_request(self, server):
        assert b" 400 " in raw(server, b"one two three four\r\n\r\n").splitlines()[0]

    def test_too_many_headers_are_refused(self, server):
        headers = b"".join(b"X-%d: y\r\n" % n for n in range(150))
        assert b" 431 " in raw(server, b"GET / HTTP/1.0\r\n" + headers + b"\r\n").splitlines()[0]

    def test_a_request_over_the_limit_is_refused(self, server):
        long = b"GET /" + b"x" * 2 * http_loop.MAX_BYTES
        assert b" 431 " in raw(server, long).splitlines()[0]
        assert ask(server, "/healthz")[0] == 200

    def test_a_client_that_leaves_does_no_harm(self, server, reports):
        socket.create_connection(("127.0.0.1", server.port)).close()
        assert ask(server, "/healthz")[0] == 200
        assert reports == []

    def test_a_half_request_is_cut_off_in_time(self, server, monkeypatch):
        monkeypatch.setattr(http_loop, "TIMEOUT_S", 0.05)
        assert raw(server, b"GET / HT") == b""

    def test_half_requests_give_way_to_whole_ones(self, server):
        with held(server, http_loop.MAX_CONNECTIONS, b"GET / HT"):
            assert ask(server, "/healthz")[0] == 200
            assert ask(server, "/v1/state")[0] == 200

    def test_the_oldest_half_request_gives_way_first(self, server):
        with held(server, http_loop.MAX_CONNECTIONS, b"GET / HT") as (oldest, *_, newest):
            assert ask(server, "/healthz")[0] == 200
            assert oldest.recv(1) == b""
            newest.sendall(b"TP/1.0\r\n\r\n")
            assert newest.recv(100).startswith(b"HTTP/1.0 200 ")

    def test_unread_answers_starve_nobody(self, server, view):
        view.padding = "x" * http_loop.MAX_UNSENT_BYTES
        with held(server, http_loop.MAX_CONNECTIONS, b"GET /v1/state HTTP/1.0\r\n\r\n"):
            assert ask(server, "/healthz")[0] == 200

    def test_unread_answers_are_bounded_in_memory(self, server, view):
        view.padding = "x" * (http_loop.MAX_UNSENT_BYTES // 2)
        with ExitStack() as stack:
            for since in range(4):
                question = b"GET /v1/audit?since=%d HTTP/1.0\r\n\r\n" % since
                (client,) = stack.enter_context(held(server, 1, question))
                assert client.recv(1) == b"H"
            assert len(loop_of(server)._connections) <= 2

    def test_a_client_that_ends_its_side_is_answered(self, server):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(b"GET /v1/state HTTP/1.0\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100).startswith(b"HTTP/1.0 200 ")

    def test_a_second_request_is_not_read(self, server):
        both = b"GET /healthz HTTP/1.1\r\n\r\n" * 2
        assert raw(server, both).count(b"HTTP/1.0 200 ") == 1

    def test_a_slow_view_does_not_delay_health(self, server, view):
        view.may_end.clear()
        with held(server, 1, b"GET /metrics HTTP/1.0\r\n\r\n"):
            assert view.begun.wait(30)
            assert ask(server, "/healthz")[0] == 200
            view.may_end.set()

    def test_an_unexpected_failure_costs_one_connection(self, server, reports, monkeypatch):
        def fail(*_args: object) -> None:
            raise LookupError("a mistake")

        with monkeypatch.context() as patched:
            patched.setattr(loop_of(server), "_read", fail)
            assert raw(server, b"GET / HTTP/1.0\r\n\r\n") == b""
        assert reports == ["an HTTP connection failed and was closed: LookupError: a mistake"]
        assert ask(server, "/healthz")[0] == 200

    def test_a_process_without_descriptors_tries_again(self, server, monkeypatch):
        refusals = [OSError(24, "Too many open files")]

        class Listener:
            def __init__(self, listener: socket.socket) -> None:
                self.close, self._accept = listener.close, listener.accept

            def accept(self):
                if refusals:
                    raise refusals.pop()
                return self._accept()

        monkeypatch.setattr(loop_of(server), "_listener", Listener(loop_of(server)._listener))
        assert ask(server, "/healthz")[0] == 200
        assert refusals == []


def loop_of(server: HttpServer) -> http_loop.Loop:
    assert server._serving is not None
    return server._serving.server._loop


@contextmanager
def held(server: HttpServer, count: int, sent: bytes):
    """Yield `count` connections that have sent `sent` and read nothing."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            clients.append(stack.enter_context(client))
            client.sendall(sent)
        yield clients


class TestPort:
    def test_a_taken_port_is_reported_once_and_retried(self, view):
        taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        reports: list[str] = []
        reported = threading.Event()

        def report(text: str) -> None:
            reports.append(text)
            reported.set()

        server = HttpServer(view, report, retry_s=0.01)
        server.start(f"127.0.0.1:{port}")
        assert reported.wait(30)
        assert server.port == 0
        taken.close()
        assert server.wait_bound(30)
        assert (server.port, ask(server, "/healthz")[0]) == (port, 200)
        server.close()
        assert len(reports) == 1
        assert reports[0].startswith(f"cannot serve HTTP at 127.0.0.1:{port}: ")

    def test_an_impossible_address_is_given_up_only_when_closing(self, view, reports):
        server = HttpServer(view, reports.append)
        server.start(f"{NOBODYS}:0")
        server.close()
        assert server.port == 0
        assert not server._binding.is_alive()

    def test_closing_frees_the_port(self, view, reports):
        server = HttpServer(view, reports.append)
        server.close()
        server.start("127.0.0.1:0")
        assert not server.wait_bound(0)

    @pytest.mark.parametrize("text", ["", "127.0.0.1", ":9744"])
    def test_what_is_no_address_is_refused(self, text):
        with pytest.raises(ValueError, match="is not an address with a port"):
            HttpServer(View(), print).start(text)

    def test_all_addresses_are_served_by_any_name(self, view, reports):
        server = HttpServer(view, reports.append)
        server.start("0.0.0.0:0")
        assert server.wait_bound(30)
        answer = raw(server, b"GET /healthz HTTP/1.1\r\nHost: node-1.example:9744\r\n\r\n")
        assert answer.startswith(b"HTTP/1.0 200 ")
        server.close()

    def test_an_ipv6_address_is_served_or_reported(self, view, reports):
        server = HttpServer(view, reports.append)
        server.start("[::1]:0")
        if not server.wait_bound(30):
            assert reports, "a machine without IPv6 says so"
            server.close()
            return
        with socket.create_connection(("::1", server.port), timeout=30) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.0 200 ")
        server.close()
