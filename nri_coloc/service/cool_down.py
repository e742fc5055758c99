"""Keep the end of the cool-down after an eviction in a file of the state folder, so that a restart opens no gate.

The file has seconds since 1970, by how much the wall clock was ahead of the boot's clock, and the boot's id. So a wall
clock that is set moves no end. After a reboot the rest is counted by the wall clock, and never beyond a whole cool-down
from now. The file is not written durably: losing it opens the gate a few minutes early. The state folder reports that
it cannot be written.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from nri_coloc.host import state_file
from nri_coloc.pressure.eviction import COOL_S, NO_PACE, Pace
from nri_coloc.schedule.switch import Clocks

NAME: Final = "cooling-until"
_MOST_CHARACTERS: Final = 128


class CoolDown:
    """One thread calls `keep`; `begun` is for the start, with the lock of the state folder."""

    def __init__(
        self,
        state_dir: str,
        clocks: Callable[[], Clocks],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = Path(state_dir) / NAME
        self._clocks = clocks
        self._monotonic = monotonic

    def begun(self) -> Pace:
        """Return the cool-down that the previous process kept; none if the file is missing or unreadable."""
        now = self._clocks()
        with suppress(OSError, ValueError):
            until_s, ahead_s, *boot = state_file.text(self._path, _MOST_CHARACTERS).split()
            left_s = float(until_s) - now.ahead_of(" ".join(boot), float(ahead_s)) - now.boot_s
            if left_s > 0:
                return Pace(cools_until_s=self._monotonic() + min(COOL_S, left_s))
        return NO_PACE

    def keep(self, until_s: float) -> None:
        """Write the end of the cool-down, monotonic seconds."""
        now = self._clocks()
        ends_s = now.boot_s + now.ahead_s + until_s - self._monotonic()
        with suppress(OSError):
            state_file.replace(self._path, f"{ends_s:.0f} {now.ahead_s:.0f} {now.boot}\n")
