"""Serve the read-only HTTP interface: metrics, health, state, audit, and a page."""

import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from http import HTTPStatus
from threading import Event, Thread
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

from nri_coloc.core import endpoint
from nri_coloc.service import overview
from nri_coloc.service.http_answers import Answers, Target
from nri_coloc.service.http_loop import CLOSE_S, Connection, Outbox, Request, Server, listen
from nri_coloc.service.page import PAGE

_MAX_DIGITS: Final = 18
"""No seq ever reaches nineteen digits, and int() of a megabyte takes seconds."""


class BadQuery(ValueError):
    """The query is not valid; the text may be sent to the client."""


class AuditQuery(NamedTuple):
    """The query of `/v1/audit`; `pod` is "NAME" or "NAMESPACE/NAME", "" for all."""

    since: int = 0
    pod: str = ""
    limit: int = 100


def parse(text: str) -> AuditQuery:
    """Return the query of a query string; raise BadQuery for an unknown, repeated or malformed parameter."""
    given: dict[str, str] = {}
    for name, value in _pairs(text):
        if name not in AuditQuery._fields:
            raise BadQuery(f"unknown parameter {name[:40]!r}; known are since, pod and limit")
        if name in given:
            raise BadQuery(f"{name} is given twice")
        given[name] = value
    return AuditQuery(
        since=_number(given, "since", default=0, least=0),
        pod=_pod(given.get("pod", "")),
        limit=_number(given, "limit", default=100, least=1),
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=8)
    except ValueError as error:
        raise BadQuery(f"the query cannot be read: {error}") from error


def _number(given: dict[str, str], name: str, default: int, least: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if len(text) > _MAX_DIGITS:
        raise BadQuery(f"{name} may have {_MAX_DIGITS} digits at most, not the {len(text)} of {text[:40]!r}")
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise BadQuery(f"{name} must be a whole number of at least {least}, not {text[:40]!r}")
    return int(text)


def _pod(text: str) -> str:
    namespace, slash, name = text.rpartition("/")
    if (slash and not namespace) or "/" in namespace or (text and not name):
        raise BadQuery(f"pod must be NAME or NAMESPACE/NAME, not {text[:80]!r}")
    return text


RETRY_S: Final = 1.0
"""Seconds between two attempts to bind the port."""

ALLOWED: Final = "GET, HEAD"
JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"

HEADERS: Final = {
    "Server": "nri-coloc",
    "Connection": "close",
    # the page is one file, so its style and script are inline; it inserts texts from pods only as text
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Report = Callable[[str], None]
"""Called with a sentence for the operator's log."""


class View(Protocol):
    """The answers of the daemon; `healthy` must not wait."""

    def metrics(self) -> bytes:
        """Return Prometheus' text format."""

    def healthy(self) -> bool:
        """Return whether the loop runs."""

    def readiness(self) -> dict[str, Any]:
        """Return {"ready": bool, "checks": {name: {"ok": bool, "detail": str}}}."""

    def state(self) -> dict[str, Any]:
        """Return the body of /v1/state."""

    def capacity(self) -> dict[str, Any]:
        """Return the body of /v1/capacity."""

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        """Return {"records": [...], "next": SEQ, "more": BOOL, "lost_before": {ring: SEQ}}; the arguments are valid."""


class HttpServer:
    """Serves `view` from its own threads. While the port is in use, a thread tries again to bind it."""

    def __init__(self, view: View, report: Report, retry_s: float = RETRY_S) -> None:
        self._view = view
        self._report = report
        self._retry_s = retry_s
        self._closing = Event()
        self._bound = Event()
        self._address = ("", 0)
        self._serving: _Serving | None = None
        self._binding = Thread(target=self._run, name="http bind", daemon=True)

    @property
    def port(self) -> int:
        """Return the bound port, 0 while there is none."""
        return self._serving.server.port if self._serving else 0

    def start(self, address: str) -> None:
        """Start serving at "ADDRESS:PORT" and return at once; raise ValueError for another text."""
        self._address = endpoint.split(address)
        self._binding.start()

    def wait_bound(self, timeout_s: float) -> bool:
        """Wait until the port is bound and return whether it is; for tests."""
        return self._bound.wait(timeout_s)

    def close(self) -> None:
        """Stop serving and free the port; unfinished answers are cut off."""
        self._closing.set()
        if self._binding.is_alive():
            self._binding.join(CLOSE_S)
        if self._serving:
            self._serving.server.close()
            self._serving.answers.close()

    def _run(self) -> None:
        listener = self._bind()
        if listener is None:
            return
        outbox = Outbox()
        answers = Answers(lambda target: _computed(target, self._view, self._report), _delivering(outbox))
        service = _Service(self._view, self._report, answers, self._is_own_name(listener))
        server = Server(listener, service, outbox, self._report)
        answers.start()
        server.start()
        self._serving = _Serving(server, answers)
        self._bound.set()

    def _is_own_name(self, listener: socket.socket) -> Callable[[str], bool]:
        bound, configured = listener.getsockname()[0], self._address[0]
        return lambda host: endpoint.is_own_name(host, bound, configured)

    def _bind(self) -> socket.socket | None:
        """Return the bound socket, after any number of attempts; None after `close`. A new error is reported once."""
        reported = ""
        host, port = self._address
        while not self._closing.is_set():
            try:
                return listen(self._address)
            except OSError as error:
                problem = f"cannot serve HTTP at {host}:{port}: {error.strerror or error}; trying again"
            if problem != reported:
                self._report(problem)
                reported = problem
            self._closing.wait(self._retry_s)
        return None


class Answer(NamedTuple):
    """One answer, before it is written as HTTP."""

    body: bytes
    content_type: str = JSON
    status: int = HTTPStatus.OK


class _Asker(NamedTuple):
    """A request that waits for its answer."""

    connection: Connection
    with_body: bool


class _Serving(NamedTuple):
    """The threads of a bound port."""

    server: Server
    answers: Answers[_Asker, Answer]


class _Service:
    """Answers cheap requests on the loop's thread, and queues the others.

    is_own_name: whether a Host header may name this server.
    """

    def __init__(
        self,
        view: View,
        report: Report,
        answers: "Answers[_Asker, Answer]",
        is_own_name: Callable[[str], bool],
    ) -> None:
        self._view = view
        self._report = report
        self._answers = answers
        self._is_own_name = is_own_name

    def ask(self, request: Request, connection: Connection) -> bytes | None:
        with_body = request.method != "HEAD"
        if request.method not in ("GET", "HEAD"):
            refused = _error(HTTPStatus.METHOD_NOT_ALLOWED, f"this interface is read-only: {ALLOWED}")
            return rendered(refused, with_body=True)
        if not self._is_own_name(request.host):
            stranger = (
                f"{request.host[:80]!r} is no name of this address; ask for the address itself, or localhost"
            )
            return rendered(_error(HTTPStatus.MISDIRECTED_REQUEST, stranger), with_body=with_body)
        route = _ROUTES.get(request.path)
        if route is None:
            nothing = f"no such path; known paths are {', '.join(_ROUTES)}"
            return rendered(_error(HTTPStatus.NOT_FOUND, nothing), with_body=with_body)
        target = Target(request.path, request.query if route.takes_query else "")
        if route.at_once:
            return rendered(_computed(target, self._view, self._report), with_body=with_body)
        if self._answers.ask(target, _Asker(connection, with_body)):
            return None
        busy = _error(HTTPStatus.SERVICE_UNAVAILABLE, "too many different requests at once; try again")
        return rendered(busy, with_body=with_body)

    def refusal(self, status: HTTPStatus, sentence: str) -> bytes:
        return rendered(_error(status, sentence), with_body=True)


def _delivering(outbox: Outbox) -> Callable[[tuple[_Asker, ...], Answer], None]:
    def deliver(askers: tuple[_Asker, ...], answer: Answer) -> None:
        for with_body in (True, False):
            connections = tuple(each.connection for each in askers if each.with_body is with_body)
            if connections:
                outbox.put(connections, rendered(answer, with_body=with_body))

    return deliver


def _computed(target: Target, view: View, report: Report) -> Answer:
    try:
        return _ROUTES[target.path].make(view, target.query)
    except BadQuery as error:
        return _error(HTTPStatus.BAD_REQUEST, str(error))
    except Exception as error:  # noqa: BLE001 - a broken view is one failed request, not a dead thread
        report(f"{target.path} failed: {type(error).__name__}: {error}")
        return _error(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "this view failed by an error in the daemon; its log has the reason",
        )


def rendered(answer: Answer, *, with_body: bool) -> bytes:
    """Return the bytes of an answer, after which the connection is closed."""
    status = HTTPStatus(answer.status)
    headers = {
        "Date": formatdate(usegmt=True),
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        **HEADERS,
        **({"Allow": ALLOWED} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}),
        **({"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}),
    }
    lines = [
        f"HTTP/1.0 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    head = "\r\n".join([*lines, "", ""]).encode()
    return head + answer.body if with_body else head


def _json(body: dict[str, Any], status: int = HTTPStatus.OK) -> Answer:
    return Answer(json.dumps(body).encode() + b"\n", JSON, status)


def _error(status: int, sentence: str) -> Answer:
    return _json({"error": sentence}, status)


def _health(view: View, _query: str) -> Answer:
    if view.healthy():
        return Answer(b"ok\n", TEXT)
    return Answer(b"the loop does not answer\n", TEXT, HTTPStatus.SERVICE_UNAVAILABLE)


def _readiness(view: View, _query: str) -> Answer:
    body = view.readiness()
    return _json(body, HTTPStatus.OK if body["ready"] else HTTPStatus.SERVICE_UNAVAILABLE)


class _Route(NamedTuple):
    """The handler of one path.

    make: return the answer.
    at_once: whether it is cheap enough for the loop's thread.
    takes_query: whether different queries have different answers.
    """

    make: Callable[[View, str], Answer]
    at_once: bool = False
    takes_query: bool = False


def _page(view: View, _query: str) -> Answer:
    now = datetime.now(UTC)
    return _json(overview.as_json(view.state(), view.capacity(), view.readiness(), now))


_ROUTES: Final[dict[str, _Route]] = {
    "/": _Route(lambda _view, _query: Answer(PAGE, HTML), at_once=True),
    "/page.json": _Route(_page),
    "/metrics": _Route(lambda view, _query: Answer(view.metrics(), PROMETHEUS)),
    "/healthz": _Route(_health, at_once=True),
    "/readyz": _Route(_readiness),
    "/v1/state": _Route(lambda view, _query: _json(view.state())),
    "/v1/capacity": _Route(lambda view, _query: _json(view.capacity())),
    "/v1/audit": _Route(lambda view, query: _json(view.audit(*parse(query))), takes_query=True),
}
