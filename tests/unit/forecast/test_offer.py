"""Snapshots become an advertised capacity, on clocks that the test sets."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import MemoryReading, NodeReading, Picture
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast.offer import Offer, Scene
from nri_coloc.forecast.use import SYSTEM
from nri_coloc.pods.replicas import OnlinePod
from tests.unit.lending.kit import GIB, group, picture

MARGIN = 456 << 20
"""Bytes that lending leaves below a small limit."""

NOON = 20_000 * 86_400.0
TUNING = ReclaimTuning()
WEB = OnlinePod("shop/web", 500)


class Rig:
    def __init__(self) -> None:
        self.offer = Offer()
        self.online = {"web": WEB}
        self.at, self.used = 0.0, 0.0
        self.before: Picture | None = None
        self.scene = Scene(self.online, 8000, TUNING)
        self.offers = 0
        self.node: dict[str, int] = {}

    def turn(self, milli: float = 1000, gap_s: float = 5.0, limit: int | None = None) -> Picture:
        self.at += gap_s
        self.used += milli * gap_s
        pod = replace(group(1, self.at, 0, GIB), usage_us=round(self.used * 1000))
        held = MemoryReading(GIB, anon=GIB, working_set=GIB, limit=limit)
        pods = replace(group(2, self.at), usage_us=round(self.used * 1000), memory=held)
        taken = picture(
            self.at, {"web": pod}, pods, usage_us=round(self.used * 1000),
            **{"memory_total": 16 * GIB, "memory_free": 15 * GIB, **self.node},
        )  # fmt: skip
        return self.see(taken)

    def see(self, taken: Picture) -> Picture:
        self.offer.saw(self.before, taken, self.online, self.now, TUNING)
        self.offers += self.offer.advertise(taken, self.scene, self.now)
        self.before = taken
        return taken

    def miss(self, gap_s: float = 5.0, **parts: Any) -> None:
        """Repeat the last snapshot `gap_s` seconds later, with `parts` that could not be read."""
        assert self.before is not None
        self.at += gap_s
        node = replace(self.before.node, at=self.at)
        self.see(replace(self.before, **{"at": self.at, "node": node, **parts}))

    @property
    def now(self) -> float:
        return NOON + self.at

    @property
    def milli(self) -> int:
        return self.offer.capacity.cpu_milli


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_one_picture_tells_no_rate_and_nothing_is_offered(rig):
    rig.turn()
    assert rig.offer.capacity.binding is Binding.NOT_MEASURED
    assert rig.milli == 0


def test_two_pictures_make_an_offer_that_names_its_terms(rig):
    rig.turn()
    rig.turn(1000)
    offer = rig.offer.capacity
    assert offer.binding is Binding.LEARNING
    assert 6500 <= offer.cpu_milli <= 6600
    assert offer.memory_bytes < 16 * GIB * 0.95 - GIB
    assert "8000m lendable" in offer.because


def test_another_bound_of_an_operator_ends_the_offer(rig):
    offers = []
    rig.turn()
    for most in (None, 2000, 3000, None):
        rig.scene = rig.scene._replace(most_milli=most)
        rig.turn(1000)
        offers.append(rig.milli)
    assert offers[1:3] == [2000, 3000]
    assert offers[0] == offers[3] > 6000


@pytest.mark.parametrize(("bound", "former"), [("most_milli", None), ("box_milli", 4000)])
def test_a_bound_holds_where_memory_could_not_be_read(rig, bound, former):
    rig.scene = rig.scene._replace(**{bound: former})
    rig.turn()
    rig.turn(1000)
    rig.scene = rig.scene._replace(**{bound: 2000})
    rig.at += 5
    rig.see(Picture(rig.at, NodeReading(rig.at)))
    assert rig.milli == 2000


class TestOfABoxWithCPUsOfItsOwn:
    def test_no_more_is_offered_than_it_has(self, rig):
        rig.scene = rig.scene._replace(box_milli=3000)
        rig.turn()
        rig.turn(1000)
        assert rig.milli == 3000
        assert "no more than the 3000m of the reclaim pool; memory" in rig.offer.capacity.because

    def test_a_box_that_shrank_ends_the_offer(self, rig):
        rig.scene = rig.scene._replace(box_milli=4000)
        rig.turn()
        rig.turn(1000)
        rig.scene = rig.scene._replace(box_milli=2000)
        rig.turn(1000)
        assert rig.milli == 2000

    def test_one_that_grew_is_offered_when_the_minute_is_over(self, rig):
        rig.scene = rig.scene._replace(box_milli=2000)
        rig.turn()
        rig.turn(1000)
        rig.scene = rig.scene._replace(box_milli=4000)
        rig.turn(1000)
        assert rig.milli == 2000
        rig.turn(1000, gap_s=61.0)
        assert rig.milli == 4000


def test_an_offer_falls_as_soon_as_more_is_used(rig):
    rig.turn()
    rig.turn(1000)
    first = rig.milli
    rig.turn(4000)
    assert rig.milli < first - 2500


def test_noise_and_falls_of_use_wait_for_the_minutes_end(rig):
    rig.turn()
    rig.turn(1000)
    first = rig.offers
    for used in (1100, 300, 1000, 1190, 0) * 2:
        rig.turn(used)
    assert rig.offers == first
    rig.turn(0)
    rig.turn(0)
    assert rig.offers == first + 1


def test_a_pod_that_comes_makes_a_new_offer_at_once(rig):
    rig.turn()
    rig.turn(1000)
    first = rig.milli
    rig.online = {"web": WEB, "new": OnlinePod("shop/new", 3000)}
    rig.scene = rig.scene._replace(online=rig.online)
    rig.turn(1000)
    assert rig.milli == first - 3000


@pytest.mark.parametrize(
    "changed", [{"lendable_milli": 6000}, {"tuning": replace(TUNING, watermark=0.7)}], ids=["cpus", "tuning"]
)
def test_other_cpus_and_other_settings_make_a_new_offer_at_once(rig, changed):
    rig.turn()
    rig.turn()
    first = rig.milli
    rig.scene = rig.scene._replace(**changed)
    rig.turn()
    assert rig.milli <= first - 1900


def test_pictures_of_nothing_are_failed_readings_and_the_offer_never_rises(rig):
    for _ in range(3):
        rig.turn(4000)
    first = rig.offer.capacity
    for _ in range(40):
        rig.at += 5.0
        rig.see(Picture(rig.at, NodeReading(rig.at)))
    offer = rig.offer.capacity
    assert offer.binding is Binding.YESTERDAY
    assert offer.cpu_milli <= first.cpu_milli
    assert 0 < offer.memory_bytes <= first.memory_bytes, "the machine has not lost its memory"


class TestWhereOneResourceCanBeReadNoMore:
    def test_a_cpu_offer_stays_while_memorys_rises(self, rig):
        for _ in range(3):
            rig.turn(4000)
        first = rig.offer.capacity
        for _ in range(5):
            node = NodeReading(rig.at + 60.0, memory_total=16 * GIB, memory_free=16 * GIB)
            rig.miss(60.0, node=node)
        offer = rig.offer.capacity
        assert offer.cpu_milli <= first.cpu_milli
        assert offer.binding is Binding.YESTERDAY
        assert "CPU could not be read for 300 s" in offer.because
        assert "memory could" not in offer.because

    def test_a_memory_offer_stays_while_cpus_follows_use(self, rig):
        for _ in range(3):
            rig.turn(1000)
        first = rig.offer.capacity
        for _ in range(5):
            rig.node = {"memory_total": 0}
            rig.turn(5000, 60.0)
        offer = rig.offer.capacity
        assert 0 < offer.memory_bytes <= first.memory_bytes
        assert "memory could not be read for 300 s" in offer.because
        assert offer.cpu_milli < first.cpu_milli - 3000


class TestKubepodsOwnLimit:
    def test_one_that_cannot_be_read_for_once_is_what_it_was(self, rig):
        rig.turn(limit=3 * GIB)
        rig.turn(limit=3 * GIB)
        first = rig.offer.capacity.memory_bytes
        rig.miss(61.0, kubepods=None)
        assert 0 < rig.offer.capacity.memory_bytes <= first < 3 * GIB
        assert f"{3 * GIB - MARGIN} bytes below kubepods' own limit" in rig.offer.capacity.because

    def test_it_is_the_last_reading_not_an_offers(self, rig):
        rig.turn()
        rig.turn()
        first = rig.offers
        rig.turn(limit=3 * GIB)
        assert rig.offers == first
        rig.miss(61.0, kubepods=None)
        assert rig.offer.capacity.memory_bytes < 3 * GIB

    def test_one_that_was_never_read_leaves_nothing(self, rig):
        rig.turn()
        rig.miss(kubepods=None)
        learnt, rig.offer = rig.offer.forecast, Offer()
        rig.offer.resume(learnt)
        rig.miss(kubepods=None)
        assert rig.offer.capacity.memory_bytes == 0

    def test_it_bounds_no_offer_where_host_groups_lie_beside_kubepods(self, rig):
        rig.turn(limit=2 * GIB)
        alone = rig.turn(limit=2 * GIB)
        bounded = rig.offer.capacity.memory_bytes
        yarn = {"yarn": group(3, rig.at, memory=GIB)}
        rig.at += 60.0
        rig.see(replace(alone, at=rig.at, host_groups=yarn))
        assert bounded < 2 * GIB
        assert rig.offer.capacity.memory_bytes > 8 * GIB
        assert "to pods at most" in rig.offer.capacity.because

    def test_one_that_is_taken_away_bounds_no_more(self, rig):
        for limit in (3 * GIB, 3 * GIB, None):
            rig.turn(limit=limit, gap_s=61.0)
        assert rig.offer.capacity.memory_bytes > 10 * GIB


def test_expectations_are_kept_until_somebody_comes_or_a_sample_is_in(rig):
    rig.turn()
    rig.turn()
    kept = rig.offer.expected(rig.online, rig.now, TUNING)
    rig.turn()
    assert rig.offer.expected(rig.online, rig.now, TUNING) is kept
    for _ in range(13):
        rig.turn()
    sampled = rig.offer.expected(rig.online, rig.now, TUNING)
    assert sampled is not kept
    assert rig.offer.expected(dict(rig.online), rig.now, TUNING) is not sampled


def test_the_systems_memory_is_no_claim_of_a_pods(rig):
    rig.turn()
    rig.turn()
    assert SYSTEM in rig.offer.expected(rig.online, rig.now, TUNING).memory_bytes
    assert set(rig.offer.expected_memory(rig.online, rig.now, TUNING)) == {"web"}
