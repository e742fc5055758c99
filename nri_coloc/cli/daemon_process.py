"""Run the daemon as its own process for the demo: start it, query it over HTTP, end it.

It is the unmodified program, run by this interpreter; its output goes to files. If it has ended, the next query raises
DaemonGone with the reason.
"""

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from nri_coloc.cli import asking
from nri_coloc.errors import ColocError

GRACE_S: Final = 3.0
"""Seconds between SIGTERM and SIGKILL; the daemon promises to end within two."""


class DaemonGone(ColocError):
    """The daemon ended, or does not answer."""


class DaemonProcess:
    """A daemon that runs as long as the `with` block."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._port = _free_port()
        self._log = folder / "daemon.log"
        paths = {"--state-dir": folder / "state", "--admin-socket": folder / "admin/admin.sock"}
        own = [part for flag, path in paths.items() for part in (flag, str(path))]
        self._command = [sys.executable, "-m", "nri_coloc", "run", *arguments, *own]
        self._command += ["--http", f"127.0.0.1:{self._port}"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            # its own session: Ctrl-C reaches only this process, which then ends the daemon in order
            self._process = subprocess.Popen(  # noqa: S603 - our own program with our own arguments
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None  # started by __enter__
        self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def check(self) -> None:
        """Raise DaemonGone if the daemon has ended."""
        assert self._process is not None  # called only inside the `with` block
        code = self._process.poll()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise DaemonGone(f"the daemon {how}{self._last_words()}")

    def get(self, path: str) -> dict[str, Any] | None:
        """Return the daemon's answer at a path, None while it does not listen yet."""
        self.check()
        try:
            return asking.ask(f"127.0.0.1:{self._port}", path)
        except asking.DaemonSilent as error:
            self.check()
            if isinstance(error.__cause__, ConnectionRefusedError):
                return None
            raise DaemonGone(str(error)) from error

    def _last_words(self) -> str:
        """Return the last line of its log, which has the reason of its end."""
        lines = self._log.read_text(errors="replace").splitlines()
        return f"; its last words: {lines[-1]}" if lines else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
