"""Serve health, readiness and metrics of the controller over HTTP. Read-only, without anything about a pod."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest

CLIENT_S: Final = 5.0
"""Seconds after which an idle client is dropped."""

_TEXT: Final = "text/plain; charset=utf-8"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


class Monitor:
    """An HTTP server with three paths.

    problem: return why the program is not ready; empty if it is.
    """

    def __init__(
        self, address: tuple[str, int], registry: CollectorRegistry, problem: Callable[[], str]
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = CLIENT_S
            server_version, sys_version = "nri-coloc", ""

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, _PROMETHEUS, generate_latest(registry))
                elif self.path == "/healthz":
                    self._answer(200, _TEXT, b"ok\n")
                elif self.path == "/readyz":
                    found = problem()
                    self._answer(503 if found else 200, _TEXT, f"{found or 'ok'}\n".encode())
                else:
                    self._answer(404, _TEXT, b"paths: /healthz /readyz /metrics\n")

            def _answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing: probes come every few seconds."""

        self._server = ThreadingHTTPServer(address, Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        """Return the port."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop to answer, and free the port."""
        self._server.shutdown()
        self._server.server_close()
