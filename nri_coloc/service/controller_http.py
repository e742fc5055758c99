"""Serve health, readiness and metrics of the controller over HTTP. Read-only, without anything about a pod.

`http_loop` serves the connections, as for the daemon: one thread for all clients, a bound on their number, and one time
limit for a whole request.
"""

import socket
from collections.abc import Callable
from http import HTTPStatus
from threading import Thread
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest

from nri_coloc.service.http import ALLOWED, BACKLOG, CLOSE_S, PROMETHEUS, TEXT, Answer, Report, rendered
from nri_coloc.service.http_loop import Connection, Loop, Outbox, Request

PATHS: Final = ("/healthz", "/readyz", "/metrics")


class Monitor:
    """An HTTP server with three paths. Raise OSError if the address cannot be bound.

    problem: return why the program is not ready; empty if it is.
    """

    def __init__(
        self,
        address: tuple[str, int],
        registry: CollectorRegistry,
        problem: Callable[[], str],
        report: Report,
    ) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
        self._port = int(listener.getsockname()[1])
        self._loop = Loop(listener, _Service(registry, problem, report), Outbox(), report)
        self._thread = Thread(target=self._loop.run, name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port."""
        return self._port

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop to answer, and free the port."""
        self._loop.close()
        self._thread.join(CLOSE_S)


class _Service:
    """Answers each request at once: the controller has few metrics."""

    def __init__(self, registry: CollectorRegistry, problem: Callable[[], str], report: Report) -> None:
        self._registry = registry
        self._problem = problem
        self._report = report

    def ask(self, request: Request, _connection: Connection) -> bytes:
        if request.method not in ("GET", "HEAD"):
            return self.refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"this interface is read-only: {ALLOWED}")
        try:
            answer = self._answer(request.path)
        except Exception as error:  # noqa: BLE001 - a failed view is one failed request, not a dead thread
            self._report(f"{request.path} failed: {type(error).__name__}: {error}")
            failed = b"this view failed by an error in the controller; its log has the reason\n"
            answer = Answer(failed, TEXT, HTTPStatus.INTERNAL_SERVER_ERROR)
        return rendered(answer, with_body=request.method != "HEAD")

    def refusal(self, status: HTTPStatus, sentence: str) -> bytes:
        return rendered(Answer(f"{sentence}\n".encode(), TEXT, status), with_body=True)

    def _answer(self, path: str) -> Answer:
        if path == "/metrics":
            return Answer(generate_latest(self._registry), PROMETHEUS)
        if path == "/healthz":
            return Answer(b"ok\n", TEXT)
        if path == "/readyz":
            found = self._problem()
            status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
            return Answer(f"{found or 'ok'}\n".encode(), TEXT, status)
        return Answer(f"paths: {' '.join(PATHS)}\n".encode(), TEXT, HTTPStatus.NOT_FOUND)
