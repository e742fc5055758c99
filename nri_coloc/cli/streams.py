"""Handle failures of the standard streams: a full disk, a reader that closed the pipe, a small character set.

A failed write to stdout becomes an error of its own here, because callers could not distinguish its OSError from
another file's. A failed write to stderr is ignored, because no other stream is left to report it.

A failed stream may still hold text. At exit the interpreter flushes it again, fails again, prints a complaint, and ends
with 120 instead of our exit code. So the descriptor of a failed stream is replaced with /dev/null.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, Final, TextIO, cast

from nri_coloc.errors import ColocError

_NAMES: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""Name and mode of each stream; the index is its descriptor."""


class OutputRefused(ColocError):
    """A write to stdout failed; the text has the reason and the remedy."""


class ReaderGone(OutputRefused):
    """The reader closed the output, which is no error."""


@contextmanager
def complaining() -> Iterator[None]:
    """Ignore failures of stderr in the block, and open closed streams."""
    _open_closed()
    stderr = _Complaints(sys.stderr)
    try:
        with redirect_stderr(cast("TextIO", stderr)):
            yield
    finally:
        stderr.end()


@contextmanager
def output() -> Iterator[None]:
    """Raise stdout's failures in the block as OutputRefused, and flush stdout at its end."""
    with redirect_stdout(cast("TextIO", _Output(sys.stdout))):
        yield
        sys.stdout.flush()  # or only the interpreter would notice refused output, at its end


def _open_closed() -> None:
    """Open /dev/null for each closed stream (`>&-`): otherwise the next opened file would get its descriptor."""
    for number, (name, mode) in enumerate(_NAMES):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode))


class _Stream:
    """A stream that handles its own failed writes; other methods are the wrapped stream's."""

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
        """Handle a failed write or flush."""

    def _turn_away(self) -> None:
        with suppress(OSError):  # also io.UnsupportedOperation: a stream without a descriptor needs nothing
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
    """A stderr that tries each write, also after a failure, because a full disk may have room later."""

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
