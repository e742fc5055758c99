"""The configuration file while the daemon runs: a changed file is read, a valid one applied, any other reported.

A ConfigMap mount changes by swapping the link `..data`, so what is watched is the file behind the links, by
identity, time and size. Polling costs one stat a turn and sees every way in which a file can change.

The subtle thing is a file that is written in place: half of it may be there, and half of a YAML file may well be valid,
only without the line that says `mode: observe`. Such a one is read when nobody has written to it for a while. Another
file in its place, by a link or a rename, was whole before it came there, and is read at once.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError
from nri_coloc.service.configuration import loading as reader

STILL_S: Final = 0.25
"""How long a file that is written in place must have been left alone."""

Identity = tuple[int, int, int, int]
"""Which file it is, in two numbers; when it was written, and its size."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a look at the file found: new settings, or the problem with it."""

    settings: Settings | None
    problem: str = ""


class SettingsWatch:
    """`look` returns a change at most once per change of the file."""

    def __init__(self, path: str, overlay: Callable[[Settings], Settings]) -> None:
        self._path = path
        self._overlay = overlay
        self._seen = self._identity()
        self._written: Identity | None = None
        self._since = 0.0

    def look(self, now: float) -> Change | None:
        """Return what is new, None if nothing is or it is still being written."""
        if not self._path:
            return None
        identity = self._identity()
        if identity == self._seen:
            self._written = None
            return None
        if _in_place(self._seen, identity) and not self._is_still(identity, now):
            return None
        change = self._read(identity)
        # a write or swap during this reading is left to the next one
        return change if self._identity() == identity else None

    @property
    def has_file(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._path)

    def read(self) -> Change:
        """Read the file, whether it has changed or not."""
        return self._read(self._identity())

    def _read(self, identity: Identity | None) -> Change:
        self._seen = identity
        try:
            return Change(self._overlay(reader.read(self._path)))
        except SettingsError as error:
            return Change(None, error.sentence)

    def _is_still(self, identity: Identity | None, now: float) -> bool:
        if identity != self._written:
            self._written, self._since = identity, now
        return now - self._since >= STILL_S

    def _identity(self) -> Identity | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - a Path costs more than the call
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _in_place(before: Identity | None, now: Identity | None) -> bool:
    """Whether it is the same file."""
    return before is not None and now is not None and before[:2] == now[:2]
