"""The file that keeps the histories across restarts.

It is written beside the old file and renamed: a kill in between leaves the old one or the new one. If the file is lost,
only the learnt histories are lost. So a full disk is a problem of the state folder, and the write is tried again the
next time.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import checkpoint
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.host import state_file

NAME: Final = "forecast"

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

    def load(self, now_s: float, tuning: ReclaimTuning) -> Forecast:
        """Return the saved forecast; an empty one if there is no file or it is not sound."""
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

    def save(self, forecast: Forecast, now_s: float) -> None:
        """Write all histories."""
        try:
            state_file.replace(self._path, checkpoint.write(forecast, now_s))
            self.problem = ""
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            self.problem = f"cannot write {self._path}: {reason}; the forecast is lost at the next restart"
