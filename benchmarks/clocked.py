"""Run a daemon that measures its own hooks: `python -m nri_coloc`, with clocks around each of the trunk's answers.

    PYTHONPATH=TREE python clocked.py FIGURES time|bytecodes run …

The tree's own code is not changed, so that trees of different shapes can be compared. For each request the file FIGURES
gets a line: the amount from the bytes read to the answer sent, and the amount from there to the next read. An amount is
nanoseconds of the trunk thread's CPU time, which other load hardly changes, or bytecodes that it ran, which are exact.
"""

import runpy
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

TRUNK = "trunk"


class Clock:
    """Counts the amounts of the trunk's thread, which alone calls it."""

    def __init__(self, figures: Path, *, counts: bool) -> None:
        self._figures = figures
        self._counts = counts
        self._bytecodes = 0
        self._read = self._sent = 0
        self._lines: list[str] = []

    def now(self) -> int:
        return self._bytecodes if self._counts else time.thread_time_ns()

    def reads(self) -> None:
        """Note that the thread has done its work of an answer and waits for bytes."""
        if self._sent:
            self._lines.append(f"{self._sent - self._read} {self.now() - self._sent}\n")
        self._read = self._sent = 0

    def has_read(self) -> None:
        self._read = self._read or self.now()

    def has_sent(self) -> None:
        """Note an answer: the first bytes sent after a read."""
        if self._read:
            self._sent = self._sent or self.now()

    def write(self) -> None:
        """Write the file; the work after the last answer may not have ended, so the caller leaves that line out."""
        if self._read:
            self._lines.append("0 0\n")
        self._figures.write_text("".join(self._lines))

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Count the bytecodes of each frame of the trunk's thread."""
        if event == "call":
            if threading.current_thread().name != TRUNK:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self._bytecodes += 1
        return self.trace


def put_around(clock: Clock) -> None:
    """Have the trunk's reads and answers noted by a clock."""
    recv, sendall = socket.socket.recv, socket.socket.sendall

    def clocked_recv(self: socket.socket, *arguments: Any) -> bytes:
        if threading.current_thread().name != TRUNK:
            return recv(self, *arguments)
        clock.reads()
        data = recv(self, *arguments)
        if data:  # else the connection has ended, and the next bytes sent register again
            clock.has_read()
        return data

    def clocked_sendall(self: socket.socket, *arguments: Any) -> None:
        sendall(self, *arguments)
        if threading.current_thread().name == TRUNK:
            clock.has_sent()

    socket.socket.recv = clocked_recv  # type: ignore[assignment, method-assign]  # a class in Python over one in C
    socket.socket.sendall = clocked_sendall  # type: ignore[assignment, method-assign]  # as above


def main() -> None:
    figures, kind = sys.argv[1:3]
    clock = Clock(Path(figures), counts=kind == "bytecodes")
    put_around(clock)
    if kind == "bytecodes":
        threading.settrace(clock.trace)
    sys.path.pop(0)  # this file's folder
    sys.argv[:3] = ["nri_coloc"]
    try:
        runpy.run_module("nri_coloc", run_name="__main__")
    finally:
        clock.write()


if __name__ == "__main__":
    main()
