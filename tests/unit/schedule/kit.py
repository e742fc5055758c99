"""Schedules and local times in a few words."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from nri_coloc.core.settings import ScheduleTuning, WindowTuning

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
MON, TUE, WED, THU, FRI, SAT, SUN = range(7)
WEEKDAYS, WEEKEND, DAILY = frozenset(range(5)), frozenset({SAT, SUN}), frozenset(range(7))
DAYS = {
    "daily": DAILY,
    "mon-fri": WEEKDAYS,
    "sat,sun": WEEKEND,
    "sun": frozenset({SUN}),
    "sat": frozenset({SAT}),
}


def minute(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return 60 * int(hours) + int(minutes)


def window(text: str, lend: int = 100) -> WindowTuning:
    """Return a window such as "mon-fri 22:00-06:00"."""
    days, _, span = text.partition(" ")
    opens, _, closes = span.partition("-")
    return WindowTuning(DAYS[days], minute(opens), minute(closes), lend)


def at_utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def in_berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


def in_new_york(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=NEW_YORK, fold=fold)


NIGHT = ScheduleTuning(BERLIN, (window("mon-fri 22:00-06:00"),), outside=0, grace_s=600)
"""Full lending in the nights that begin on weekdays, ten minutes of grace, in Berlin."""
