"""The file that keeps the histories across restarts.

It is written beside the old file and renamed: a kill in between leaves the old one or the new one. If the file is lost,
only the learnt histories are lost. So a full disk is a problem of the state folder, and the write is tried again the
next time.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import checkpoint
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.host import state_file

NAME: Final = "forecast"

SAVED_EVERY_S: Final = 600.0
"""Seconds between two checkpoints. A restart loses this part of the histories, which fade by half in hours."""

RETRIED_EVERY_S: Final = 10.0
"""Seconds between two tries to save, after a failure."""

Say = Callable[[str], None]


class ForecastFile:
    """Reads and writes the file.

    say: called with the reason if the file cannot be read.
    problem: why it cannot be written, "" while it can.
    """

    def __init__(self, state_dir: str, say: Say) -> None:
        self.problem = ""
        self._path = Path(state_dir) / NAME
        self._say = say
        self._saved_at = 0.0

    def load(self, now_s: float, tuning: ReclaimTuning) -> Forecast:
        """Return the saved forecast; an empty one if there is no file or it is not sound. `now_s`: since 1970."""
        self._saved_at = time.monotonic()
        try:
            text = state_file.text(self._path, checkpoint.MOST_CHARACTERS)
        except FileNotFoundError:
            return Forecast()
        except OSError as error:
            why = state_file.reason(error)
            self._say(f"cannot read {self._path}: {why}; the forecast begins without history")
            return Forecast()
        loaded = checkpoint.read(text, now_s, tuning)
        if loaded.forecast is None:
            self._say(f"the checkpoint {self._path} {loaded.reason}; the forecast begins without history")
            return Forecast()
        return loaded.forecast

    def save_if_due(self, forecast: Forecast, now_s: float) -> None:
        """Save if the last time is `SAVED_EVERY_S` ago, or after a failure `RETRIED_EVERY_S`."""
        if time.monotonic() - self._saved_at >= (RETRIED_EVERY_S if self.problem else SAVED_EVERY_S):
            self.save(forecast, now_s)

    def save(self, forecast: Forecast, now_s: float) -> None:
        """Write all histories; without any keep the file as it is."""
        self._saved_at = time.monotonic()
        if not forecast.histories:
            return
        try:
            state_file.replace(self._path, checkpoint.write(forecast, now_s))
            self.problem = ""
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            self.problem = f"cannot write {self._path}: {reason}; the forecast is lost at the next restart"
