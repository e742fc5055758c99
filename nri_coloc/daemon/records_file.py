"""The file in which the records of the present outlive the daemon: written seldom, whole, and renamed into place.

Losing it costs `explain` the reasons that are older than this process, and nothing else.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nri_coloc.telemetry.kept import MOST_CHARACTERS, KeptRecords

NAME: Final = "records"

SAVED_EVERY_S: Final = 60.0

Say = Callable[[str], None]


class RecordsFile:
    """`say` hears once each that it cannot be read or written."""

    def __init__(self, state_dir: str, kept: KeptRecords, say: Say) -> None:
        self._path = Path(state_dir) / NAME
        self._kept = kept
        self._say = say
        self._failed = False
        self._saved_at = 0.0

    def load(self) -> None:
        """Take over the records of the previous process, if there are any."""
        try:
            with self._path.open(errors="replace") as file:
                text = file.read(MOST_CHARACTERS + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            self._say(f"cannot read {self._path}: {error.strerror}; older decisions cannot be explained")
            return
        if len(text) > MOST_CHARACTERS or not self._kept.load(text):
            self._say(f"{self._path} is no file of kept records; older decisions cannot be explained")

    def save_if_due(self, now: float) -> None:
        """Write when something changed, once a minute at most."""
        if now - self._saved_at >= SAVED_EVERY_S:
            self._saved_at = now
            self.save()

    def save(self) -> None:
        """Write when something changed."""
        if not self._kept.changed() and not self._failed:
            return
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(self._kept.text())
            fresh.replace(self._path)
            self._failed = False
        except OSError as error:
            if not self._failed:
                reason = os.strerror(error.errno or 0)
                self._say(
                    f"cannot write {self._path}: {reason}; after a restart older decisions cannot be explained"
                )
            self._failed = True
