"""Serve health, readiness and metrics of the controller over HTTP. Read-only, without anything about a pod.

`http_loop` serves the connections, as for the daemon: one thread for all clients, a bound on their number, and one time
limit for a whole request.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest

from nri_coloc.service.http import ALLOWED, PROMETHEUS, TEXT, Answer, Report, rendered
from nri_coloc.service.http_loop import Connection, Outbox, Request, Server, listen

PATHS: Final = ("/healthz", "/readyz", "/metrics")


def server(
    address: tuple[str, int], registry: CollectorRegistry, problem: Callable[[], str], report: Report
) -> Server:
    """Return a server of three paths; raise OSError if the address cannot be bound.

    problem: return why the program is not ready; empty if it is.
    """
    return Server(listen(address), _Service(registry, problem, report), Outbox(), report)


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
