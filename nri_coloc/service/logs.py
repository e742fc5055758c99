"""Write the daemon's ordinary log: structlog, one line a message, on stderr.

stdout has audit lines only. Logging never raises, and never prints a traceback over several lines. An exception becomes
its type, its text and the place of its origin; at level debug the traceback is added on the same line. `configure` may
be called again if a reload changes the level.
"""

import json
import logging
import sys
import traceback
import warnings
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, TextIO

if "rich" in sys.modules:
    import structlog
else:
    # structlog formats tracebacks with rich where it is installed: 5 MB and 46 ms for a program that writes one line a
    # message. A module that is None there counts as not installed
    sys.modules["rich"] = None  # type: ignore[assignment] # the import system allows None, typeshed does not
    import structlog

    del sys.modules["rich"]

from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""The values of `telemetry.logLevel`."""


class _Lines:
    """Writes rendered lines of every level; a failed write is ignored."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()

    def msg(self, line: str) -> None:
        try:
            with self._lock:
                self._stream.write(line + "\n")
                self._stream.flush()
        except (OSError, ValueError):  # a full disk, a closed pipe, a stream closed at exit
            return

    debug = info = warning = error = critical = msg


class _Foreign(logging.Handler):
    """Writes messages of the standard library's logging in the same format."""

    def emit(self, record: logging.LogRecord) -> None:
        logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def configure(level: str = "info", *, as_json: bool = False, stream: TextIO | None = None) -> None:
    """Configure the process's log; an unknown level is "info"."""
    number = LEVELS.get(level, logging.INFO)
    lines = _Lines(stream or sys.stderr)
    structlog.configure(
        processors=_processors(with_traceback=number <= logging.DEBUG, as_json=as_json),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: lines,
        # a cached logger would keep its first level
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[_Foreign()], force=True)
    warnings.showwarning = _show_warning


def logger(name: str) -> FilteringBoundLogger:
    """Return the logger of one part of the program; later calls of `configure` apply to it."""
    log: FilteringBoundLogger = structlog.get_logger(part=name)
    return log


def _processors(*, with_traceback: bool, as_json: bool) -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        _ExceptionOnOneLine(with_traceback=with_traceback),
        structlog.processors.JSONRenderer() if as_json else as_text,
    ]


class _ExceptionOnOneLine:
    def __init__(self, *, with_traceback: bool) -> None:
        self._with_traceback = with_traceback

    def __call__(self, _logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
        error = _exception(event.pop("exc_info", None))
        if error is None:
            return event
        event["error"] = f"{type(error).__name__}: {error}"
        frames = traceback.extract_tb(error.__traceback__)
        if frames:
            event["raised_at"] = f"{frames[-1].filename}:{frames[-1].lineno}"
        if self._with_traceback:
            event["traceback"] = "".join(traceback.format_exception(error))
        return event


def _exception(exc_info: object) -> BaseException | None:
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, _):
            return error
        case None | False:
            return None
        case _:  # exc_info=True: the present exception
            return sys.exc_info()[1]


def as_text(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    """Return "time level message key=value …"; no value can start a line or control a terminal."""
    head = (str(event.pop("ts", "")), f"{event.pop('level', ''):<7}", _plain(event.pop("event", ""), " ="))
    return " ".join((*head, *_pairs(event)))


def _pairs(event: Mapping[str, Any]) -> list[str]:
    return [f"{key}={_plain(value)}" for key, value in event.items()]


def _plain(value: object, harmless: str = "") -> str:
    """Return a value bare if it is unambiguous, else as a JSON string in ASCII."""
    text = str(value)
    bare = text.isprintable() and text.isascii() and text != ""
    odd = set(text) & (set(' ="\\') - set(harmless))
    return text if bare and not odd else json.dumps(text)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    logger("warnings").warning(str(message), category=category.__name__)
