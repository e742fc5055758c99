"""An operator's pause of lending: until when, in whose words, and what it makes of the settings."""

from dataclasses import replace

from nri_coloc.core.settings import Tuning
from nri_coloc.service.audit import timestamp


class Pause:
    """Belongs to one thread. Times are monotonic seconds; `words` are for people, "" while lending goes on."""

    def __init__(self) -> None:
        self.words = ""
        self._ends_at = 0.0

    def begin(self, now: float, wall_ns: int, seconds: int, reason: str) -> str:
        """Pause from now on, or anew; returns until when by the wall's clock."""
        until = timestamp(wall_ns + seconds * 1_000_000_000)
        self._ends_at = now + seconds
        self.words = f"lending is paused until {until}{f': {reason}' if reason else ''}"
        return until

    def end(self) -> bool:
        """Go on lending; whether it was paused."""
        paused, self.words = bool(self.words), ""
        return paused

    def is_over(self, now: float) -> bool:
        """Whether there is a pause that has lasted as long as it was to."""
        return bool(self.words) and now >= self._ends_at

    def over(self, tuning: Tuning) -> Tuning:
        """Lay the pause over the settings."""
        if not self.words:
            return tuning
        return replace(tuning, reclaim=replace(tuning.reclaim, paused=self.words))
