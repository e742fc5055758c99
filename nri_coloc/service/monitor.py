"""Serve health, readiness and metrics of controller and companion over HTTP. Read-only, without anything about a pod.

`http_loop` serves the connections, as for the daemon: one thread for all clients, a bound on their number, and one time
limit for a whole request.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from nri_coloc.core import endpoint
from nri_coloc.errors import SettingsError
from nri_coloc.service.http import ALLOWED, PROMETHEUS, TEXT, Answer, Report, rendered
from nri_coloc.service.http_loop import Connection, Outbox, Request, Server, listen

HEALTH: Final = "/healthz"
READINESS: Final = "/readyz"
METRICS: Final = "/metrics"

Metrics = Callable[[], bytes]


def server(
    address: tuple[str, int], problem: Callable[[], str], report: Report, metrics: Metrics | None = None
) -> Server:
    """Return a server of two or three paths; raise OSError if the address cannot be bound.

    problem: return why the program is not ready; empty if it is.
    metrics: return all metrics in the text format of Prometheus; None for a program without metrics.
    """
    return Server(listen(address), _Service(problem, report, metrics), Outbox(), report)


@contextmanager
def served(
    http: str, problem: Callable[[], str], report: Report, metrics: Metrics | None = None
) -> Iterator[None]:
    """Serve at ADDR:PORT during the block; not for "off". Raise SettingsError if the address cannot be used."""
    if http == "off":
        yield
        return
    try:
        found = server(endpoint.split(http), problem, report, metrics)
    except ValueError as error:
        raise SettingsError(f"--http: {error}; allowed: {endpoint.OR_OFF}") from error
    except OSError as error:
        raise SettingsError(f"--http {http}: {os.strerror(error.errno or 0)}; choose another port") from error
    found.start()
    try:
        yield
    finally:
        found.close()


class _Service:
    """Answers each request at once: the programs have few metrics."""

    def __init__(self, problem: Callable[[], str], report: Report, metrics: Metrics | None) -> None:
        self._problem = problem
        self._report = report
        self._metrics = metrics

    def ask(self, request: Request, _connection: Connection) -> bytes:
        if request.method not in ("GET", "HEAD"):
            return self.refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"this interface is read-only: {ALLOWED}")
        try:
            answer = self._answer(request.path)
        except Exception as error:  # noqa: BLE001 - a failed view is one failed request, not a dead thread
            self._report(f"{request.path} failed: {type(error).__name__}: {error}")
            failed = b"this view failed by an error in the program; its log has the reason\n"
            answer = Answer(failed, TEXT, HTTPStatus.INTERNAL_SERVER_ERROR)
        return rendered(answer, with_body=request.method != "HEAD")

    def refusal(self, status: HTTPStatus, sentence: str) -> bytes:
        return rendered(Answer(f"{sentence}\n".encode(), TEXT, status), with_body=True)

    def _answer(self, path: str) -> Answer:
        if path == METRICS and self._metrics is not None:
            return Answer(self._metrics(), PROMETHEUS)
        if path == HEALTH:
            return Answer(b"ok\n", TEXT)
        if path == READINESS:
            found = self._problem()
            status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
            return Answer(f"{found or 'ok'}\n".encode(), TEXT, status)
        paths = (HEALTH, READINESS, *(() if self._metrics is None else (METRICS,)))
        return Answer(f"paths: {' '.join(paths)}\n".encode(), TEXT, HTTPStatus.NOT_FOUND)
