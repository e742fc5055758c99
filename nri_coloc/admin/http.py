"""The read-only HTTP face: metrics, health, state and audit, and a page to look at (DESIGN 4.5).

Knows paths, methods and limits; what is behind them comes through `View`. A request changes nothing.
Whoever reaches the port is a stranger: at most `MAX_CONNECTIONS` are served at once, each sends its request
within `TIMEOUT_S` and `MAX_REQUEST_BYTES` in total (a limit per read would let one byte every four seconds
hold a thread for a day), and one connection carries one request.
"""

import io
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore, Event, Thread
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.admin import audit_query
from nri_coloc.admin.page import PAGE
from nri_coloc.admin.request_reader import RequestReader
from nri_coloc.model import endpoint

MAX_CONNECTIONS: Final = 16
"""Prometheus, two probes and a few people; each costs a thread."""

TIMEOUT_S: Final = 5.0
"""For the whole request, and again for the whole answer."""

MAX_REQUEST_BYTES: Final = 16 * 1024
"""Twice what browsers and proxies send at most."""

CLOSE_S: Final = 1.0
"""What a shutdown waits at most for the accepting thread."""

RETRY_S: Final = 1.0
"""Between two attempts to get the port."""

ACCEPT_PAUSE_S: Final = 0.05
"""After a failed accept: without descriptors the kernel offers the same connection again at once."""

ALLOWED: Final = "GET, HEAD"
JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"

SECURITY_HEADERS: Final = {
    # the page is one file, so its style and script are inline; it inserts every foreign text as text
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Report = Callable[[str], None]
"""Takes a sentence for the operator's log."""


class View(Protocol):
    """What the daemon shows; each method may be called from several threads at once."""

    def metrics(self) -> bytes:
        """Return Prometheus' text format."""

    def healthy(self) -> bool:
        """Whether the loop lives."""

    def readiness(self) -> dict[str, Any]:
        """Return {"ready": bool, "checks": {name: {"ok": bool, "detail": str}}}."""

    def state(self) -> dict[str, Any]:
        """Return the body of /v1/state."""

    def capacity(self) -> dict[str, Any]:
        """Return the body of /v1/capacity."""

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        """Return {"records": [...], "next": SEQ, "lost_before": {ring: SEQ}}; `BadQuery` never gets this far."""


class HttpServer:
    """Serves `view` at "ADDRESS:PORT" from its own threads; a port that is taken is tried again for ever."""

    def __init__(self, address: str, view: View, report: Report, retry_s: float = RETRY_S) -> None:
        self._address = endpoint.split(address)
        self._view = view
        self._report = report
        self._retry_s = retry_s
        self._closing = Event()
        self._bound = Event()
        self._server: _Server | None = None
        self._thread = Thread(target=self._run, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port that is served, 0 while there is none."""
        return self._server.server_port if self._server else 0

    def start(self) -> None:
        """Start serving; returns at once."""
        self._thread.start()

    def wait_bound(self, timeout_s: float) -> bool:
        """Wait until the port is ours; for tests and for whoever started us to look at."""
        return self._bound.wait(timeout_s)

    def close(self) -> None:
        """Stop accepting and free the port; answers under way end with their threads."""
        self._closing.set()
        if self._server:
            # wakes the accepting thread, which therefore needs no timeout; it may have closed already
            with suppress(OSError):
                self._server.socket.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        server = self._bind()
        if server is None:
            return
        self._server = server
        self._bound.set()
        with server:
            while not self._closing.is_set():
                server.handle_request()

    def _bind(self) -> "_Server | None":
        """Try until the port is ours; None when we were closed before. Each new obstacle is reported once."""
        reported = ""
        while not self._closing.is_set():
            try:
                return _Server(self._address, self._view, self._report, self._closing)
            except OSError as error:
                host, port = self._address
                problem = f"cannot serve HTTP at {host}:{port}: {error.strerror or error}; trying on"
            if problem != reported:
                self._report(problem)
                reported = problem
            self._closing.wait(self._retry_s)
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS  # with the default of 5 a burst waits a second for its second SYN

    def __init__(self, address: tuple[str, int], view: View, report: Report, closing: Event) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.view = view
        self.report = report
        self._closing = closing
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # not HTTPServer's own, which asks the resolver for our name and may wait for it
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            self._closing.wait(ACCEPT_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            request.setblocking(False)
            request.send(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            Thread(
                target=self._serve, args=(request, client_address), name="http-request", daemon=True
            ).start()
        except RuntimeError:  # no thread to be had; the caller closes the connection
            self._free.release()
            raise

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's signature
        self.report("a connection to the HTTP port failed unexpectedly; it was closed")


class _Answer(NamedTuple):
    body: bytes
    content_type: str = JSON
    status: int = HTTPStatus.OK


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "nri-coloc"
    sys_version = ""
    default_request_version = "HTTP/1.0"  # HTTP/0.9 would get an answer without a status
    disable_nagle_algorithm = True  # head and body are two writes; the second would wait for an ACK

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(RequestReader(self.connection, MAX_REQUEST_BYTES, TIMEOUT_S))

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, HTTPException):  # gone, too slow or too long: nobody to tell, nothing to mend
            self.close_connection = True

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        route = _ROUTES.get(path)
        if route is None:
            self.send_error(HTTPStatus.NOT_FOUND, f"there is nothing here; look at {', '.join(_ROUTES)}")
            return
        try:
            answer = route(self.server.view, query)
        except audit_query.BadQuery as error:
            answer = _error(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:  # noqa: BLE001 - a broken view is one failed request, not a dead thread
            self.server.report(f"{path} failed: {type(error).__name__}: {error}")
            answer = _error(HTTPStatus.INTERNAL_SERVER_ERROR, "this view failed; the daemon's log says why")
        self._send(answer)

    def do_HEAD(self) -> None:
        self.do_GET()  # `_send` leaves the body out

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - the base class's signature
        """Answer in our form; the base class calls this for whatever it cannot read or does not know."""
        if code != HTTPStatus.NOT_IMPLEMENTED:
            self._send(_error(code, message or HTTPStatus(code).phrase))
            return
        self._send(_error(HTTPStatus.METHOD_NOT_ALLOWED, f"this interface is read-only: {ALLOWED}"))
        # a body left unread would make the kernel reset the connection before the answer is read
        length = self.headers.get("Content-Length", "")
        self.rfile.read(min(int(length), MAX_REQUEST_BYTES) if length.isdecimal() else 0)

    def _send(self, answer: _Answer) -> None:
        self.connection.settimeout(TIMEOUT_S)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", ALLOWED)
        for name, value in SECURITY_HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay silent: requests are not the operator's news."""


def _json(body: dict[str, Any], status: int = HTTPStatus.OK) -> _Answer:
    return _Answer(json.dumps(body).encode() + b"\n", JSON, status)


def _error(status: int, sentence: str) -> _Answer:
    return _json({"error": sentence}, status)


def _health(view: View, _query: str) -> _Answer:
    if view.healthy():
        return _Answer(b"ok\n", TEXT)
    return _Answer(b"the loop does not answer\n", TEXT, HTTPStatus.SERVICE_UNAVAILABLE)


def _readiness(view: View, _query: str) -> _Answer:
    body = view.readiness()
    return _json(body, HTTPStatus.OK if body["ready"] else HTTPStatus.SERVICE_UNAVAILABLE)


def _audit(view: View, query: str) -> _Answer:
    return _json(view.audit(*audit_query.parse(query)))


_ROUTES: Final[dict[str, Callable[[View, str], _Answer]]] = {
    "/": lambda _view, _query: _Answer(PAGE, HTML),
    "/metrics": lambda view, _query: _Answer(view.metrics(), PROMETHEUS),
    "/healthz": _health,
    "/readyz": _readiness,
    "/v1/state": lambda view, _query: _json(view.state()),
    "/v1/capacity": lambda view, _query: _json(view.capacity()),
    "/v1/audit": _audit,
}
