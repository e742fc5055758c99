"""The configuration file while the daemon runs: a changed file is read, a valid one applied, any other reported.

A ConfigMap mount changes by swapping the link `..data`, so what is watched is the file behind the links, by
identity, time and size. Polling costs one stat a turn and sees every way in which a file can change.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from nri_coloc.config import settings as reader
from nri_coloc.errors import SettingsError
from nri_coloc.model.tuning import Settings

Identity = tuple[int, int, int, int]


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

    def look(self) -> Change | None:
        """Return what is new, None if nothing is."""
        if not self._path:
            return None
        identity = self._identity()
        return None if identity == self._seen else self.read()

    @property
    def has_file(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._path)

    def read(self) -> Change:
        """Read the file, whether it has changed or not."""
        self._seen = self._identity()
        try:
            return Change(self._overlay(reader.read(self._path)))
        except SettingsError as error:
            return Change(None, str(error))

    def _identity(self) -> Identity | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - a Path costs more than the call
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
