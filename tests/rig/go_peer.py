"""The Go program's process and the conversation with it: JSON lines, questions and answers both ways.

One thread reads. Each question of the other side is answered on a thread of its own. So an answer that waits for the
runtime's lock delays no answer that the lock's holder needs. Every wait has a bound.
"""

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

from tests.rig import RigError

ANSWER_SECONDS: Final = 240
ENDS_SECONDS: Final = 60
WORDS: Final = 20_000

Answerer = Callable[[str, Any], Any]
"""Takes the name and the body of a question; what it raises is answered as an error."""


class GoError(Exception):
    """Carry the other side's own words, such as the adaptation's about two plugins in conflict."""


class Peer:
    """Start the program; `close` ends it."""

    def __init__(self, command: Sequence[str], log: Path, answerer: Answerer) -> None:
        self._answerer = answerer
        self._numbers = count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = Lock()
        self.log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        self._reader = Thread(target=self._read, name="go-peer", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Return the pid of the program."""
        return self._process.pid

    def ask(self, op: str, body: Any = None, seconds: float = ANSWER_SECONDS) -> Any:
        """Ask a question and return the answer; GoError carries the reason of a refusal."""
        number = next(self._numbers)
        waiting: Future[Any] = Future()
        self._waiting[number] = waiting
        self._write({"id": number, "op": op, "body": body})
        try:
            return waiting.result(seconds)
        except TimeoutError as error:
            words = self._last_words()
            raise RigError(f"the Go program did not answer {op} within {seconds:g} s\n{words}") from error

    def close(self) -> None:
        """Close the conversation, which ends the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(ENDS_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(ENDS_SECONDS)
        self._reader.join(ENDS_SECONDS)
        self._process.stdout.close()

    def _last_words(self) -> str:
        """Return the program's last output: ending it makes it print the state of each goroutine."""
        with suppress(subprocess.TimeoutExpired):
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(ENDS_SECONDS)
        return self.log.read_text(errors="replace")[-WORDS:]

    def _write(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for data in self._process.stdout:
            line = json.loads(data)
            if "op" in line:
                Thread(target=self._answer, args=(line,), name="go-question", daemon=True).start()
            else:
                self._deliver(line)
        for waiting in list(self._waiting.values()):
            waiting.set_exception(RigError("the Go program ended"))

    def _deliver(self, line: dict[str, Any]) -> None:
        waiting = self._waiting.pop(line["id"], None)
        if waiting is None:
            return
        if line.get("error"):
            waiting.set_exception(GoError(line["error"]))
        else:
            waiting.set_result(line.get("body"))

    def _answer(self, line: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": line["id"]}
        try:
            answer["body"] = self._answerer(line["op"], line.get("body"))
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the other side must not wait for ever
            answer["error"] = f"{type(error).__name__}: {error}"
        with suppress(BrokenPipeError, ValueError):  # it ended meanwhile
            self._write(answer)
