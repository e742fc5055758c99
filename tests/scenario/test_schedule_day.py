"""Days of a schedule on a simulated node of eight CPUs, of which online pods use two.

Each line of a day is a moment of the wall clock: the operator's order at that moment, if there is one, then the state,
the lent and the offered percentage, and the CPUs of the reclaim pool some seconds later. `restart` and `reboot` write
the switch as the daemon does and read it again; a reboot also starts the clock of the boot again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from nri_coloc.core.durations import seconds
from nri_coloc.core.settings import ScheduleTuning
from nri_coloc.schedule.lending import at
from nri_coloc.schedule.switch import ON, Clocks, Switch, parsed, switched_off, switched_on, text_of
from tests.unit.lending.node_model import Node, steady
from tests.unit.schedule.kit import BERLIN, NIGHT, window

SETTLES_S = 8
NIGHT_WITH_BACKUP = replace(NIGHT, windows=(*NIGHT.windows, window("mon-fri 02:00-03:00", 50)))
EARLY_SUNDAYS = ScheduleTuning(BERLIN, (window("sun 02:30-04:00"),), outside=0, grace_s=600)


@dataclass(frozen=True)
class Day:
    """A day; `moments` is a table, as described above. A `#` marks the second pass of a repeated hour."""

    story: str
    date: str
    schedule: ScheduleTuning
    moments: str


DAYS = [
    Day(
        "a night with a backup in it",
        "2026-11-24",
        NIGHT_WITH_BACKUP,
        """
        00:00                    | Offline          100 100  6
        01:50                    | OfflineToOnline  100  50  6
        02:00                    | Offline           50  50  3
        03:00                    | OnlineToOffline  100 100  6
        03:01                    | Offline          100 100  6
        05:49                    | Offline          100 100  6
        05:50                    | OfflineToOnline  100   0  6
        06:00                    | Online             0   0  1
        21:59                    | Online             0   0  1
        22:00                    | OnlineToOffline  100 100  6
        """,
    ),
    Day(
        "the hour that daylight saving skips",
        "2026-03-29",
        EARLY_SUNDAYS,
        """
        01:59                    | Online             0   0  1
        03:00                    | OnlineToOffline  100 100  6
        03:50                    | OfflineToOnline  100   0  6
        04:00                    | Online             0   0  1
        """,
    ),
    Day(
        "the hour that daylight saving repeats",
        "2026-10-25",
        EARLY_SUNDAYS,
        """
        02:29                    | Online             0   0  1
        02:31                    | Offline          100 100  6
        02:10#                   | Offline          100 100  6
        02:31#                   | Offline          100 100  6
        04:00                    | Online             0   0  1
        """,
    ),
    Day(
        "the switch lies over the schedule",
        "2026-11-24",
        NIGHT,
        """
        01:00                    | Offline          100 100  6
        01:10 off                | Online             0   0  1
        06:00                    | Online             0   0  1
        22:30                    | Online             0   0  1
        23:00 on                 | OnlineToOffline  100 100  6
        23:01                    | Offline          100 100  6
        """,
    ),
    Day(
        "a window that closes ends the grace of an order",
        "2026-11-24",
        NIGHT,
        """
        05:30 off 1h             | OfflineToOnline  100   0  6
        06:00                    | Online             0   0  1
        """,
    ),
    Day(
        "restarts do not extend a grace",
        "2026-11-24",
        NIGHT,
        """
        01:00 drain 1h           | OfflineToOnline  100   0  6
        01:20 restart            | OfflineToOnline  100   0  6
        01:40 reboot             | OfflineToOnline  100   0  6
        01:59                    | OfflineToOnline  100   0  6
        02:00                    | Online             0   0  1
        02:10 restart            | Online             0   0  1
        """,
    ),
    Day(
        "a drain after off lends nothing for its grace",
        "2026-11-24",
        NIGHT,
        """
        01:00 off                | Online             0   0  1
        01:10 drain 1h           | Online             0   0  1
        01:20 off 2h             | Online             0   0  1
        01:30 on                 | OnlineToOffline  100 100  6
        01:30 restart            | Offline          100 100  6
        """,
    ),
]


class Bed:
    """A node whose lent part follows schedule and switch, as the daemon's does."""

    def __init__(self, schedule: ScheduleTuning) -> None:
        self.schedule = schedule
        self.switch = ON
        self.boot, self.booted_s = 1, 0.0
        self.node = Node(8, steady(2_000), noise=0.1)

    def moment(self, now: datetime, order: str) -> str:
        """Carry out an order, and return the state as in the table."""
        self.switch = self.ordered(order, self.clocks(now))
        found = at(self.schedule, now, self.switch.later(self.clocks(now).ahead_s))
        self.node.watcher.retune(replace(self.node.watcher.tuning, lend=found.factor))
        cpus = self.node.run(SETTLES_S).moments[-1].cpus
        return f"{found.state.value} {found.factor:.0%} {found.offer:.0%} {cpus}".replace("%", "")

    def clocks(self, now: datetime) -> Clocks:
        return Clocks(str(self.boot), now.timestamp() - self.booted_s, now.timestamp())

    def ordered(self, order: str, clocks: Clocks) -> Switch:
        name, _, grace = order.partition(" ")
        if name in ("off", "drain"):
            return switched_off(self.switch, clocks.boot_s, seconds(grace or "0"), drain=name == "drain")
        if name in ("restart", "reboot"):
            return self.restarted(clocks, reboots=name == "reboot")
        return switched_on(self.switch, clocks.boot_s) if name == "on" else self.switch

    def restarted(self, clocks: Clocks, *, reboots: bool) -> Switch:
        text = text_of(self.switch, clocks)
        if reboots:
            self.boot, self.booted_s = self.boot + 1, clocks.wall_s - 30
        return parsed(text, self.clocks(datetime.fromtimestamp(clocks.wall_s, BERLIN)))


def moments(day: Day) -> Iterator[tuple[str, datetime, str, str]]:
    """Yield the text, the time, the order and the expected state of each line of a day."""
    for line in filter(None, map(str.strip, day.moments.splitlines())):
        left, _, expected = line.partition("|")
        clock, _, order = left.strip().partition(" ")
        local = datetime.fromisoformat(f"{day.date}T{clock.rstrip('#')}")
        now = local.replace(tzinfo=BERLIN, fold=int(clock.endswith("#")))
        yield left.strip(), now, order.strip(), " ".join(expected.split())


@pytest.mark.parametrize("day", DAYS, ids=[day.story for day in DAYS])
def test_the_pool_follows_the_day(day: Day):
    bed = Bed(day.schedule)
    found = [(text, bed.moment(now, order)) for text, now, order, _ in moments(day)]
    assert found == [(text, expected) for text, _, _, expected in moments(day)]
