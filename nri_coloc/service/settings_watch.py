"""Watch the configuration file: read a changed file, apply a valid one, report any other.

A ConfigMap mount changes by replacing the link `..data`. So the file behind the links is watched, by identity, time and
size. Polling costs one stat a turn and finds every kind of change.

A file that is written in place may be half written. Half of a YAML file may be valid and lack the line `mode: observe`.
So such a file is read after it was left alone for a while. Another file in its place, by a link or a rename, was whole
before. It is read at once.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError
from nri_coloc.service.configuration import loading as reader

STILL_S: Final = 0.25
"""Seconds for which a file that is written in place must be left alone."""

Identity = tuple[int, int, int, int]
"""Device and inode of the file, time of its last write, and size."""


@dataclass(frozen=True, slots=True)
class Change:
    """The result of a check: new settings, or the problem with the file."""

    settings: Settings | None
    problem: str = ""


class SettingsWatch:
    """The watched file; `look` returns each change at most once."""

    def __init__(self, path: str, overlay: Callable[[Settings], Settings]) -> None:
        self._path = path
        self._overlay = overlay
        self._seen = self._identity()
        self._written: Identity | None = None
        self._since = 0.0

    def look(self, now: float) -> Change | None:
        """Return the new settings or their problem; None if the file did not change or is still being written."""
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
        """Whether there is a file to read."""
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
    """Return whether the file was changed in place, and not replaced."""
    return before is not None and now is not None and before[:2] == now[:2]
