"""The operator's switch over the schedule: `admin lending off [--drain] [--grace DURATION]`, and `on`."""

from typing import Final, NamedTuple


class Switch(NamedTuple):
    """The last order of an operator; it holds until the next one.

    off: whether lending is off, or ends after the grace.
    at_s: time of the order, seconds since 1970.
    grace_s: seconds for which running reclaimed pods keep their share; no new ones come.
    drain: whether the reclaimed pods that still run after the grace are to be evicted.
    """

    off: bool = False
    at_s: float = 0.0
    grace_s: float = 0.0
    drain: bool = False

    @property
    def ends_s(self) -> float:
        """Return the end of the grace, seconds since 1970. If the clock is set back, the grace lasts longer."""
        return self.at_s + self.grace_s


ON: Final = Switch()
"""No order: the schedule decides."""
