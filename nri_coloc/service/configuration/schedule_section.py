"""The section `schedule` of the configuration file: windows of the week in which a part of the headroom is lent."""

import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nri_coloc.core.durations import seconds
from nri_coloc.core.settings import ScheduleTuning, WindowTuning
from nri_coloc.service.configuration.sections import MisplacedError, Section, listed, written

MOST_WINDOWS: Final = 32

_DEFAULTS: Final = ScheduleTuning()
_WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


def weekdays(text: str) -> frozenset[int]:
    """Return the days of a text such as "mon-fri" or "sat,sun"; 0 is Monday. A range may pass the end of the week."""
    found: set[int] = set()
    for part in text.split(","):
        days = part.strip().split("-")
        if len(days) > 2 or not set(days) <= set(_WEEK):
            raise ValueError(f"{part.strip()[:40]!r} is no day and no range of days")
        start, end = _WEEK.index(days[0]), _WEEK.index(days[-1])
        found |= {day % 7 for day in range(start, end + (8 if end < start else 1))}
    return frozenset(found)


def minute(text: str) -> int:
    """Return the minute of the day of a text such as "22:00"; 24:00 is 1440."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time of the day")
    return 60 * int(match[1]) + int(match[2]) if match[1] else 1440


def zone(name: str) -> tzinfo:
    """Return a time zone by its name in the operating system's database; UTC needs no database."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # not there, no relative path, a folder such as Europe
        raise ValueError(f"{name[:40]!r} is no time zone of this machine") from error


def _checked(read: Callable[[str], object]) -> AfterValidator:
    """Return a check that a text can be read; the text stays."""

    def check(text: str) -> str:
        read(text)
        return text

    return AfterValidator(check)


Clock = Annotated[str, _checked(minute)]
Part = Annotated[int, Field(ge=0, le=100)]


class Window(Section):
    """One window of the week."""

    days: Annotated[
        str,
        _checked(weekdays),
        Field(description='days on which it opens, such as mon-fri or "sat,sun"'),
    ] = "mon-sun"
    opens: Annotated[Clock, Field(alias="from", description="HH:MM, from 00:00 to 23:59")] = "00:00"
    closes: Annotated[
        Clock,
        Field(
            alias="to",
            description="HH:MM, from 00:00 to 24:00, not the same as `from`; before `from` it is on the next day",
        ),
    ] = "24:00"
    lend: Annotated[
        Part, Field(description="percent of the headroom, 0 to 100, that is lent while the window is open")
    ] = 100

    @model_validator(mode="after")
    def _opens_before_it_closes(self) -> "Window":
        if self.opens == "24:00":
            raise MisplacedError(("from",), "'24:00' is the end of a day; write 00:00 and the next day")
        if self.opens == self.closes:
            raise MisplacedError(
                ("to",), f"{self.closes!r} leaves the window no time; write 00:00 to 24:00 for all day"
            )
        return self

    def tuning(self) -> WindowTuning:
        return WindowTuning(weekdays(self.days), minute(self.opens), minute(self.closes), self.lend)


class Schedule(Section):
    """Lending by the clock."""

    time_zone: Annotated[
        str,
        _checked(zone),
        Field(
            alias="timeZone",
            description="UTC, or a name of the tz database such as Europe/Berlin (package tzdata)",
        ),
    ] = "UTC"
    windows: Annotated[
        tuple[Window, ...],
        BeforeValidator(listed),
        Field(
            max_length=MOST_WINDOWS,
            description=f"a list of at most {MOST_WINDOWS} windows such as "
            '[{days: mon-fri, from: "22:00", to: "06:00", lend: 100}]',
        ),
    ] = ()
    outside: Annotated[
        Part,
        Field(description="percent of the headroom, 0 to 100, that is lent while no window is open"),
    ] = _DEFAULTS.outside
    grace: Annotated[
        str,
        BeforeValidator(written),
        _checked(seconds),
        Field(description="a duration such as 10m, 1h30m, 90s or 0, at most 24h"),
    ] = "10m"

    def tuning(self) -> ScheduleTuning:
        return ScheduleTuning(
            zone(self.time_zone),
            tuple(window.tuning() for window in self.windows),
            self.outside,
            seconds(self.grace),
        )
