"""Save audit records in a file that outlives the daemon: written seldom, as a whole, and renamed into place.

If the file is lost, `explain` lacks the reasons of the previous process, and nothing else is lost.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nri_coloc.host import state_file
from nri_coloc.service.audit_rings import MOST_CHARACTERS, KeptRecords
from nri_coloc.service.state_folder import TRIED_EVERY_S

NAME: Final = "records"

SAVED_EVERY_S: Final = 60.0

Say = Callable[[str], None]


class RecordsFile:
    """The file of the records.

    say: called with the reason if the file cannot be read.
    problem: why it cannot be written, "" while it can.
    """

    def __init__(self, state_dir: str, kept: KeptRecords, say: Say) -> None:
        self.problem = ""
        self._path = Path(state_dir) / NAME
        self._kept = kept
        self._say = say
        self._saved_at = 0.0
        self._has_saved = False

    def load(self) -> None:
        """Load the records of the previous process, if there are any."""
        try:
            text = state_file.text(self._path, MOST_CHARACTERS)
        except FileNotFoundError:
            return
        except OSError as error:
            why = state_file.reason(error)
            self._say(f"cannot read {self._path}: {why}; older decisions cannot be explained")
            return
        if len(text) > MOST_CHARACTERS or not self._kept.load(text):
            self._say(f"{self._path} is not a file of records; older decisions cannot be explained")

    def save_if_due(self, now: float) -> None:
        """Save if a record changed or the file was removed, once a minute at most."""
        if now - self._saved_at >= (TRIED_EVERY_S if self.problem else SAVED_EVERY_S):
            self._saved_at = now
            self.save()

    def save(self) -> None:
        """Save if a record changed or the file was removed."""
        is_removed = self._has_saved and not self._path.exists()
        if not self._kept.changed() and not self.problem and not is_removed:
            return
        try:
            state_file.replace(self._path, self._kept.text())
            self.problem, self._has_saved = "", True
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            self.problem = (
                f"cannot write {self._path}: {reason}; after a restart older decisions are unexplained"
            )
