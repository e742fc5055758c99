"""An API server over HTTP on a real socket, which answers by a list that the test prepared."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from nri_coloc.kubernetes import api
from nri_coloc.kubernetes.api import Api


class Asked(NamedTuple):
    """One request as the server received it."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    authorization: str


class Reply(NamedTuple):
    """One answer. `lines` is sent as a stream, one object a line; with `holds` it ends with the server.

    raw: the bytes of the body, in place of `body`.
    """

    status: int = 200
    body: Any = None
    lines: tuple[Any, ...] = ()
    holds: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes = b""


Answers = Callable[[Asked], Reply]


def date_of(at: float) -> str:
    """Return the header Date for seconds since 1970."""
    return formatdate(at, usegmt=True)


class _Server(ThreadingHTTPServer):
    """Keeps all requests and answers each by a function."""

    daemon_threads = True

    def __init__(self, answers: Answers) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[Asked] = []
        self.ahead_s = 0.0
        self.stopped = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body, a second write, waits 40 ms for a delayed ACK
    server: _Server

    def handle_one(self) -> None:
        asked = self._asked()
        self.server.asked.append(asked)
        self._send(self.server.answers(asked))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 - names of http.server

    def date_time_string(self, timestamp: float | None = None) -> str:
        return date_of((timestamp or time.time()) + self.server.ahead_s)

    def log_message(self, *_: object) -> None:
        pass

    def _asked(self) -> Asked:
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Asked(
            method=self.command,
            path=url.path,
            query=dict(parse_qsl(url.query)),
            body=json.loads(raw) if raw else None,
            content_type=self.headers.get("Content-Type", ""),
            authorization=self.headers.get("Authorization", ""),
        )

    def _send(self, reply: Reply) -> None:
        parts = reply.lines or (reply.body if reply.body is not None else {},)
        sent = reply.raw or b"".join(json.dumps(part).encode() + b"\n" for part in parts)
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        if reply.holds:
            self._stream(sent)
            return
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def _stream(self, sent: bytes) -> None:
        """Send a first chunk, and hold the connection until the server stops."""
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(f"{len(sent):x}\r\n".encode() + sent + b"\r\n")
        self.server.stopped.wait()
        self.close_connection = True


class FakeApi:
    """The server: `asked` has all requests, `kubeconfig` the file that leads to it."""

    def __init__(self, folder: Path, answers: Answers) -> None:
        self._clients: list[Api] = []
        self._server = _Server(answers)
        self.asked = self._server.asked
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(config(f"http://127.0.0.1:{self._server.server_address[1]}")))

    def set_clock(self, ahead_s: float) -> None:
        """Set the server's clock, seconds ahead of this machine's."""
        self._server.ahead_s = ahead_s

    def connect(self) -> Api:
        """Return a client of this server, which `stop` closes."""
        self._clients.append(api.connect(str(self.kubeconfig)))
        return self._clients[-1]

    def stop(self) -> None:
        """Stop listening, and close the clients."""
        self._server.stopped.set()
        for client in self._clients:
            client.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def serving(folder: Path, answers: Answers) -> Iterator[FakeApi]:
    """Run a server for the time of a block."""
    server = FakeApi(folder, answers)
    try:
        yield server
    finally:
        server.stop()


def config(address: str, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a kubeconfig for a server's address; user: its credentials, default a token.

    Without TLS a client needs no certificate authorities, and those of the machine cost it 40 ms of CPU time.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": address, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "a", "user": user or {"token": "secret"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
