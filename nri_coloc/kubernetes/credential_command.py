"""Authenticate with the token that the command of a kubeconfig prints (`users[].user.exec`), within a time limit.

kubectl waits for such a command without end, because a person can end it. Here a thread waits for it that reports a
node or holds the Lease. lightkube has no time limit either, and refuses version v1, which newer kubeconfigs name.

`api.connect` alone imports this module, because it loads httpx.
"""

import json
import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import httpx2

from nri_coloc.errors import ColocError

COMMAND_S: Final = 10.0
"""Time limit of the command."""

_GROUP: Final = "client.authentication.k8s.io/"
_VERSIONS: Final = (f"{_GROUP}v1", f"{_GROUP}v1beta1")
_REMEDY: Final = "run it by hand, or name a kubeconfig with a token or a client certificate"


class CommandError(ColocError):
    """The command printed no token; the text has the cause and the remedy."""


class CommandAuth(httpx2.Auth):
    """Send the command's token; run the command at first, and again after an answer with status 401.

    Any thread may send a request; one command runs at a time.
    """

    def __init__(
        self, version: str, command: Sequence[str], environment: Mapping[str, str], limit_s: float = COMMAND_S
    ) -> None:
        if version not in _VERSIONS:
            raise ValueError(f"exec: apiVersion {version!r} is not one of {', '.join(_VERSIONS)}")
        self._version = version
        self._command = tuple(command)
        self._environment = dict(environment)
        self._limit_s = limit_s
        self._lock = Lock()
        self._token = ""

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Yield the request with a token, and once more with a new one if it is refused; raise CommandError."""
        token = self._after("")
        request.headers["Authorization"] = f"Bearer {token}"
        answer = yield request
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {self._after(token)}"
            yield request

    def _after(self, refused: str) -> str:
        """Return a token other than a refused one."""
        with self._lock:
            if self._token in ("", refused):
                self._token = self._printed()
            return self._token

    def _printed(self) -> str:
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's own kubeconfig names it
                self._command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise self._failed(f"cannot be started: {error}") from error
        with process:
            try:
                output, errors = process.communicate(timeout=self._limit_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)  # also the programs that it waits for
                raise self._failed(f"was ended: it did not end within {self._limit_s:g} s") from error
        if process.returncode:
            raise self._failed(
                f"ended with {process.returncode}: {errors.decode(errors='replace').strip()[:100]}"
            )
        return self._token_of(output)

    def _token_of(self, output: bytes) -> str:
        try:
            found: Any = json.loads(output)["status"]["token"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._failed("printed no ExecCredential with status.token") from error
        if not (isinstance(found, str) and found.isascii() and found.isprintable() and found):
            raise self._failed("printed a token that is no text of printable characters")
        return found

    def _failed(self, why: str) -> CommandError:
        return CommandError(f"the kubeconfig's command {self._command[0]!r} {why}; {_REMEDY}")
