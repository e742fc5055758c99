"""The least time of a round trip on this machine: the same bytes with a Python process that decides nothing.

The process reads one message of a known length and answers fixed bytes, over a socket of the same kind. So
`hook.*.whole` can be read relative to the cost of waking a process and copying bytes here. All of these times begin
before the sending: so quick an answer is often there before the sending has returned.

Run as `python -m benchmarks.echo SOCKET REQUEST ANSWER`, lengths in bytes, it is the answering side.
"""

import socket
import subprocess
import sys
import tempfile
import time
from typing import Self


class Echo:
    """Ask the other side, which it starts."""

    def __init__(self, request: bytes, answer_bytes: int) -> None:
        self._request = request
        self._answer_bytes = answer_bytes
        self._folder = tempfile.TemporaryDirectory(prefix="coloc-bench-")

    def __enter__(self) -> Self:
        path = f"{self._folder.name}/echo.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(20)
            lengths = (str(len(self._request)), str(self._answer_bytes))
            self._server = subprocess.Popen([sys.executable, "-m", "benchmarks.echo", path, *lengths])
            self._connection, _ = listener.accept()
        self._connection.settimeout(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._server.wait(5)
        self._folder.cleanup()

    def exchange(self) -> int:
        """Return the nanoseconds from before the first byte is sent to the last received."""
        began = time.perf_counter_ns()
        self._connection.sendall(self._request)
        missing = self._answer_bytes
        while missing:
            missing -= len(self._connection.recv(missing))
        return time.perf_counter_ns() - began


def main(path: str, request_bytes: int, answer_bytes: int) -> None:
    """Answer until the asking side leaves."""
    answer = bytes(answer_bytes)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        missing = request_bytes
        while data := connection.recv(missing):
            missing -= len(data)
            if not missing:
                connection.sendall(answer)
                missing = request_bytes


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
