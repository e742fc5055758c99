"""Writes the audit's lines to a descriptor that belongs to somebody else, usually stdout.

The descriptor is not made non-blocking: that flag belongs to the open file, which a shell or the container
runtime shares with us. So the kernel is asked first (poll), and at most PIPE_BUF bytes follow: as much as a
pipe that polls writable takes without blocking (pipe(7)). A reader who stands still costs one period of
patience, then nothing until he reads again. What cannot be written is counted by its cause, never raised.
"""

import errno
import os
import select
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 0.5
"""How long the first write to a stuck reader waits; below the second that a shutdown grants the audit."""

_CAUSES: Final = {
    errno.EPIPE: "broken_pipe",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EAGAIN: "blocked",
}

LOST_CAUSES: Final = ("blocked", "broken_pipe", "io_error", "no_space", "overflow", "unrenderable")
"""Every value of the label `why` of `nri_coloc_audit_lost_total`."""

Lost = Callable[[str, int], None]
"""Called with one of `LOST_CAUSES` and how many."""


class LineWriter:
    """For one thread; `patience_s` is spent once, until the reader takes something again."""

    def __init__(self, fd: int, lost: Lost, patience_s: float = PATIENCE_S) -> None:
        self._fd = fd
        self._lost = lost
        self._patience_ms = int(patience_s * 1000)
        self._stuck = False
        self._torn = False
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, line: bytes) -> bool:
        """Write one line, its newline included; False when it was lost, which is then counted."""
        # a line of which only a part went out is closed first, so that the next one stays readable
        rest = memoryview(b"\n" + line if self._torn else line)
        while rest:
            taken, cause = self._write_some(rest[: select.PIPE_BUF])
            if cause:
                self._lost(cause, 1)
                return False
            rest = rest[taken:]
            self._torn = len(rest) > 0
        return True

    def _write_some(self, piece: memoryview) -> tuple[int, str]:
        """Return how much was taken, or the cause why nothing was."""
        if not self._poll.poll(0 if self._stuck else self._patience_ms):
            self._stuck = True
            return 0, "blocked"
        self._stuck = False
        try:
            return os.write(self._fd, piece), ""
        except OSError as error:
            return 0, _CAUSES.get(error.errno or 0, "io_error")
