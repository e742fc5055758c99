"""Prediction and memory through hours and days: a model node reacts to each decision.

There is no clock and no chance: days are curves, noise is a fixed sequence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import pi, sin

import pytest

from nri_coloc.core.lending import Binding, Capacity, MemoryTarget
from nri_coloc.core.readings import GroupReading, MemoryReading, NodeReading, Picture
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import checkpoint, expectations
from nri_coloc.forecast.capacity import Supply, capacity
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.forecast.use import SYSTEM, Use
from nri_coloc.memory import division, headroom
from nri_coloc.memory.division import MemoryControl
from nri_coloc.memory.headroom import Claim, Growth
from nri_coloc.pods.replicas import OnlinePod

GIB, MIB = 1 << 30, 1 << 20
MIDNIGHT = 20_000 * 86_400.0
TUNING = ReclaimTuning()
SUPPLY = Supply(16_000, 64 * GIB)
PODS = {"a": OnlinePod("shop/web", 2000, GIB), "b": OnlinePod("shop/db", 2000, GIB)}


def noise() -> Iterator[float]:
    """Yield numbers from 0 to 1 that look like chance."""
    state = 7
    while True:
        state = state * 1_103_515_245 % 2**31 + 12_345
        yield state % 2**31 / 2**31


DICE = noise()


def milli_at(minute: int) -> int:
    """Return the CPU use in a minute: two CPUs at night, six by day, one more from minute to minute."""
    return round(4000 - 2000 * sin(2 * pi * minute / 1440 + pi / 2) + 1000 * next(DICE))


def seen(before: Forecast, minute: int, milli: int) -> Forecast:
    uses = {
        "a": Use("shop/web", milli // 2, GIB),
        "b": Use("shop/db", milli // 2, GIB),
        SYSTEM: Use(SYSTEM, 200, GIB),
    }
    return expectations.observe(before, uses, MIDNIGHT + 60.0 * minute, TUNING)


def offered(of: Forecast, minute: int, previous: Capacity = Capacity(1 << 30, 1 << 50)) -> Capacity:  # noqa: B008 - an immutable value
    return capacity(of, PODS, SUPPLY, MIDNIGHT + 60.0 * minute, TUNING, previous=previous)


@pytest.fixture(scope="module")
def three_days() -> tuple[Forecast, list[tuple[int, Capacity]]]:
    """Return the forecast after three days, and the use and offer in each of their minutes."""
    of, told = Forecast(), []
    for minute in range(3 * 1440):
        milli = milli_at(minute)
        of = seen(of, minute, milli)
        told.append((milli, offered(of, minute)))
    return of, told


def test_what_is_offered_lasts_through_the_next_hour_nearly_always(three_days):
    _, told = three_days
    usable = SUPPLY.cpu_milli * TUNING.watermark - 200
    starts = range(1440, len(told) - 60, 10)
    broken = [at for at in starts if told[at][1].cpu_milli > usable - max(m for m, _ in told[at : at + 60])]
    assert len(broken) <= 0.01 * len(starts)


def test_and_is_still_worth_having(three_days):
    _, told = three_days
    least_free = SUPPLY.cpu_milli * TUNING.watermark - 200 - 7000
    assert min(offer.cpu_milli for _, offer in told[1440:]) >= 0.7 * least_free


def test_it_does_not_run_after_every_minute(three_days):
    _, told = three_days
    offers = [offer.cpu_milli for _, offer in told[2 * 1440 :]]
    steps = [abs(one - other) for one, other in pairwise(offers)]
    assert sum(step > 500 for step in steps) <= 24


def test_after_a_restart_the_offer_returns_with_measurements(three_days):
    of, told = three_days
    again = checkpoint.read(
        checkpoint.write(of, MIDNIGHT + 3 * 86_400.0), MIDNIGHT + 3 * 86_400.0, TUNING
    ).forecast
    assert again is not None
    assert offered(again, 3 * 1440).binding is Binding.NOT_MEASURED
    after = offered(seen(again, 3 * 1440, told[-1][0]), 3 * 1440)
    assert after.binding is Binding.FORECAST
    assert after.cpu_milli == pytest.approx(told[-1][1].cpu_milli, abs=300)


def test_when_readings_fail_at_night_the_morning_is_still_foreseen(three_days):
    of, told = three_days
    night, noon = told[-1][1], 3 * 1440 + 720
    blind = offered(of, noon, previous=night)
    assert blind.binding is Binding.YESTERDAY
    assert blind.cpu_milli <= SUPPLY.cpu_milli * TUNING.watermark - 200 - 6000


# --- memory ----------------------------------------------------------------------------------------------


@dataclass
class MemoryNode:
    """Model a node of 32 GiB; a tick is a second.

    An online pod takes the memory that it wants, the reclaim cgroups as much as memory.high allows.
    anon: the part of the reclaim cgroups' use that is no page cache and stays.
    """

    online: int
    wish: int
    anon: int = 0
    box: int = 0
    now_s: float = 0.0
    control: MemoryControl = MemoryControl()  # noqa: RUF009 - an immutable value
    growth: Growth = Growth()  # noqa: RUF009 - likewise

    TOTAL = 32 * GIB

    @property
    def free(self) -> int:
        return self.TOTAL - self.online - self.box

    def picture(self) -> Picture:
        cache = max(0, self.box - self.anon)
        held = MemoryReading(
            self.box, anon=self.anon, file=cache, inactive_file=cache, working_set=self.box - cache
        )
        own = MemoryReading(self.online, anon=self.online, working_set=self.online)
        pods = MemoryReading(self.online + self.box, working_set=self.online + self.box - cache)
        at = self.now_s
        node = NodeReading(
            at, memory_total=self.TOTAL, memory_free=self.free, inactive_file=cache, watermark=64 * MIB
        )
        groups = {"web": GroupReading(1, at, memory=own), "job": GroupReading(2, at, memory=held)}
        return Picture(at, node, GroupReading(9, at, memory=pods), groups)

    def tick(self, online: int) -> MemoryTarget:
        self.now_s += 1.0
        self.online = online
        taken = self.picture()
        self.growth, claim = headroom.claim_of(self.growth, taken, {"web": 2 * GIB}, TUNING)
        found = headroom.headroom_memory(taken, {"job": taken.pods["job"]}, claim, TUNING)
        self.control, goal = division.target(self.control, found, self.now_s, TUNING)
        assert goal.high is not None
        self.box = max(self.anon, min(self.wish, goal.high, self.box + self.free))
        return goal


def test_a_page_cache_hog_yields_to_an_online_pod():
    node = MemoryNode(online=2 * GIB, wish=64 * GIB)
    for _ in range(120):
        node.tick(2 * GIB)
    assert node.box >= 20 * GIB
    for second in range(200):
        node.tick(2 * GIB + second * 100 * MIB)
        assert node.free > 500 * MIB


def test_and_gets_it_back_when_that_is_over():
    node = MemoryNode(online=24 * GIB, wish=64 * GIB)
    for _ in range(60):
        node.tick(24 * GIB)
    low = node.box
    for _ in range(400):
        node.tick(4 * GIB)
    assert low < 7 * GIB
    assert node.box > 20 * GIB


def test_unreclaimable_memory_stops_growing_and_is_never_walled():
    node = MemoryNode(online=10 * GIB, wish=64 * GIB, anon=8 * GIB, box=12 * GIB)
    for _ in range(60):
        goal = node.tick(24 * GIB - 100 * MIB)
        assert goal.limit is not None
        assert goal.limit > node.anon
    assert goal.high is not None
    assert goal.high == node.anon


def test_a_sawing_online_pod_does_not_make_the_box_saw():
    node = MemoryNode(online=8 * GIB, wish=64 * GIB)
    highs = [node.tick(8 * GIB if second % 20 < 10 else 12 * GIB).high for second in range(600)]
    turns = [one != other for one, other in pairwise(highs[100:])]
    assert sum(turns) <= 25


def test_the_claim_of_a_silent_node_is_nothing():
    assert headroom.claim_of(Growth(), Picture(0.0, NodeReading(0.0)), {}, TUNING)[1] == Claim()
