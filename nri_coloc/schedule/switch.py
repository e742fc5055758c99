"""The operator's switch over the schedule: `admin lending off [--drain] [--grace DURATION]`, and `on`.

Times of a `Switch` are seconds of one clock, which the caller chooses. The daemon keeps them on the clock of the boot,
so that a wall clock that is set neither shortens nor extends a grace. The file has them on the wall clock, beside the
boot's id: after a reboot the grace goes on by the wall clock.
"""

import json
from math import floor
from typing import Any, Final, NamedTuple

from nri_coloc.core.durations import LONGEST_S

MOST_CHARACTERS: Final = 4096

_VERSION: Final = 1
_FAR_S: Final = 1e12
"""No time and no duration of a sound file is as large; NaN and infinity are refused too."""


class Switch(NamedTuple):
    """The last order of an operator; it holds until the next one.

    off: whether lending is off, or ends after the grace.
    at_s: time of the order.
    grace_s: seconds after which the order takes effect; until then no new reclaimed pods come.
    drain: whether the reclaimed pods that still run after the grace are to be evicted.
    ends_s: time at which lending ends. It is earlier than `drains_s` if an earlier order had ended lending.
    rises_s: time at which the order `on` let lending begin again; None if it had not ended. No file keeps it.
    """

    off: bool = False
    at_s: float = 0.0
    grace_s: float = 0.0
    drain: bool = False
    ends_s: float = 0.0
    rises_s: float | None = None

    @property
    def drains_s(self) -> float:
        """Return the time from which running reclaimed pods are to be evicted, if `drain` orders it."""
        return self.at_s + self.grace_s

    def later(self, by_s: float) -> "Switch":
        """Return the order with times of a clock that is so many seconds ahead."""
        if self.rises_s is not None:
            return self._replace(rises_s=self.rises_s + by_s)
        return self._replace(at_s=self.at_s + by_s, ends_s=self.ends_s + by_s) if self.off else self


ON: Final = Switch()
"""No order: the schedule decides."""


def switched_off(before: Switch, now_s: float, grace_s: float, *, drain: bool) -> Switch:
    """Return the switch after an order to end lending.

    The same order again keeps its time, so that a script can repeat it until no pod is left. Lending that has ended
    does not begin again for the grace of a further order.
    """
    if before.off and (before.grace_s, before.drain) == (grace_s, drain):
        return before
    has_ended = before.off and before.ends_s <= now_s
    return Switch(True, now_s, grace_s, drain, before.ends_s if has_ended else now_s + grace_s)


def switched_on(before: Switch, now_s: float) -> Switch:
    """Return the switch after an order to lend again. Without an order to undo it stays the same."""
    if not before.off:
        return before
    return Switch(rises_s=now_s) if before.ends_s <= now_s else ON


class Clocks(NamedTuple):
    """The clocks of one moment.

    boot: the kernel's id of this boot; "" for unknown.
    boot_s: seconds since the boot.
    wall_s: seconds since 1970.
    """

    boot: str
    boot_s: float
    wall_s: float

    @property
    def ahead_s(self) -> float:
        """Return by how much the wall clock is ahead of the boot's clock, in whole seconds.

        Rounded down, so that an order of now is never one of the future.
        """
        return float(floor(self.wall_s - self.boot_s))

    def ahead_of(self, boot: str, ahead_s: float) -> float:
        """Return by how much the wall clock of a kept time is ahead of this boot's clock, in seconds.

        After a reboot a kept time goes on by the present wall clock.

        boot: the boot in which the time was kept.
        ahead_s: its `ahead_s` at that moment.
        """
        is_same_boot = bool(self.boot) and boot == self.boot
        return ahead_s if is_same_boot else self.ahead_s


def text_of(switch: Switch, clocks: Clocks) -> str:
    """Return the content of the file; the times of `switch` are seconds since the boot."""
    fields = switch.later(clocks.ahead_s)._asdict()
    del fields["rises_s"]
    return json.dumps({"version": _VERSION, **fields, "boot": clocks.boot, "ahead_s": clocks.ahead_s}) + "\n"


def parsed(text: str, clocks: Clocks) -> Switch:
    """Return the switch of a file, with seconds since this boot; raise ValueError for any other text.

    After a reboot the wall clock tells how old the order is. An order of the future counts as given now, so that a
    grace never lasts longer than it was ordered.
    """
    found = _object(text)
    switch = Switch(
        off=_flag(found, "off"),
        at_s=_number(found, "at_s"),
        grace_s=_number(found, "grace_s"),
        drain=_flag(found, "drain"),
        ends_s=_number(found, "ends_s"),
    )
    if not 0 <= switch.grace_s <= LONGEST_S or switch.ends_s > switch.drains_s:
        raise ValueError("has a grace out of range")
    since_boot = switch.later(-clocks.ahead_of(found.get("boot", ""), _number(found, "ahead_s")))
    return since_boot.later(min(0.0, clocks.boot_s - since_boot.at_s))


def _object(text: str) -> dict[str, Any]:
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has more than {MOST_CHARACTERS} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not JSON") from error
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise ValueError(f"is not a switch of version {_VERSION}")
    return found


def _flag(found: dict[str, Any], key: str) -> bool:
    value = found.get(key)
    if not isinstance(value, bool):
        raise ValueError(f"has no {key!r}, true or false")  # noqa: TRY004 - a fault of the file, not of the caller
    return value


def _number(found: dict[str, Any], key: str) -> float:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _FAR_S:
        raise ValueError(f"has no number {key!r}")
    return float(value)
