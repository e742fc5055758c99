"""Texts for people: the log that takes them, and functions that shorten them or make them safe to print.

All programs import this module, so it imports no other one of ours.
"""

import re
from typing import Any, Final, Protocol

_WHITE_SPACE: Final = re.compile(r"[^\S ]+")


class PlainLog(Protocol):
    """The operator's log: an event in plain words, and values by name."""

    def info(self, event: str, **values: Any) -> Any: ...

    def warning(self, event: str, **values: Any) -> Any: ...


class Log(PlainLog, Protocol):
    """The operator's log, which also takes errors of the program itself."""

    def error(self, event: str, **values: Any) -> Any: ...

    def exception(self, event: str, **values: Any) -> Any: ...


def counted(number: float, noun: str) -> str:
    """Return a number with its noun, such as "1 core" and "1.5 cores"."""
    shown = str(number) if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, at most so many characters, with a mark where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: object) -> str:
    """Return a text of another program on one line, safe for a terminal.

    A line break or tab becomes one space, every other control character "?".
    """
    return "".join(sign if sign.isprintable() else "?" for sign in _WHITE_SPACE.sub(" ", str(text)))
