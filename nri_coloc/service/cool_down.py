"""Keep the end of the cool-down after an eviction in a file of the state folder, so that a restart opens no gate.

The file has seconds since 1970. It is not written durably: losing it opens the gate a few minutes early. The state
folder reports that it cannot be written. A wall clock that was set moves the end, but never beyond a whole cool-down
from now.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from nri_coloc.host import state_file
from nri_coloc.pressure.eviction import COOL_S, NO_PACE, Pace

NAME: Final = "cooling-until"
_MOST_CHARACTERS: Final = 64


class CoolDown:
    """One thread calls `keep`; `begun` is for the start, with the lock of the state folder."""

    def __init__(
        self,
        state_dir: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(state_dir) / NAME
        self._monotonic = monotonic
        self._wall = wall

    def begun(self) -> Pace:
        """Return the cool-down that the previous process kept; none if the file is missing or unreadable."""
        with suppress(OSError, ValueError):
            left_s = float(state_file.text(self._path, _MOST_CHARACTERS)) - self._wall()
            if left_s > 0:
                return Pace(cools_until_s=self._monotonic() + min(COOL_S, left_s))
        return NO_PACE

    def keep(self, until_s: float) -> None:
        """Write the end of the cool-down, monotonic seconds."""
        with suppress(OSError):
            state_file.replace(self._path, f"{self._wall() + until_s - self._monotonic():.0f}\n")
