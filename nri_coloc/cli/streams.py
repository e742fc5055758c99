"""The standard streams, which are somebody else's: a full disk, a reader who has left, an encoding of few letters.

What stdout refuses becomes an error of its own here, where it is still known to be stdout that refused; further out it
would be an OSError like any other file's. What stderr refuses is nobody's failure: there is no third place to say it.

The subtle thing is what a stream still holds when it has failed. The interpreter flushes it once more at exit, would
fail again, complain, and end with 120 whatever we return: so the descriptor is turned to /dev/null.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, Final, TextIO, cast

from nri_coloc.errors import ColocError

_NAMES: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""By their descriptors, and how each is opened."""


class OutputRefused(ColocError):
    """Stdout does not take what a command has to say; the text says why, and what helps."""


class ReaderGone(OutputRefused):
    """The reader closed the output, which is no error."""


@contextmanager
def complaining() -> Iterator[None]:
    """Have a stderr that fails forgotten; every stream is open from here on."""
    _open_closed()
    stderr = _Complaints(sys.stderr)
    try:
        with redirect_stderr(cast("TextIO", stderr)):
            yield
    finally:
        stderr.end()


@contextmanager
def output() -> Iterator[None]:
    """Have stdout's failures raised as OutputRefused; what it holds is written at the end."""
    with redirect_stdout(cast("TextIO", _Output(sys.stdout))):
        yield
        sys.stdout.flush()  # or only the interpreter would notice refused output, at its end


def _open_closed() -> None:
    """Open /dev/null where a stream was closed (`>&-`): the next file that is opened would be taken for it."""
    for number, (name, mode) in enumerate(_NAMES):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode))


class _Stream:
    """A stream that hears of its own failures; all that is not writing is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, UnicodeEncodeError) as error:
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError | UnicodeEncodeError) -> None:
        """Do what this stream's failure means."""

    def _turn_away(self) -> None:
        with suppress(OSError):  # io.UnsupportedOperation is one: what has no descriptor needs nothing
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


class _Output(_Stream):
    def _failed(self, error: OSError | UnicodeEncodeError) -> None:
        if isinstance(error, UnicodeEncodeError):
            raise OutputRefused(_unencodable(error)) from error
        self._turn_away()
        if error.errno == errno.EPIPE:
            raise ReaderGone("the reader of the output has closed it") from error
        raise OutputRefused(f"cannot write to stdout: {error.strerror or error}") from error


class _Complaints(_Stream):
    """Tries again each time: a daemon's disk may have room again."""

    def end(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._turn_away()


def _unencodable(error: UnicodeEncodeError) -> str:
    letter = ascii(error.object[error.start])
    return (
        f"cannot write to stdout: its encoding, {error.encoding}, has no {letter}; set PYTHONIOENCODING=utf-8, "
        "or a locale in UTF-8 (LC_ALL=C.UTF-8)"
    )
