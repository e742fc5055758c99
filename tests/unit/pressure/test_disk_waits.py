"""pressure.disk_waits: the stalls between two turns that bring the next turn forward."""

from collections.abc import Iterable
from math import inf

import pytest

from nri_coloc.core.workload import QoSClass, Tolerance
from nri_coloc.pressure.disk_waits import CHECK_S, LONGEST_REST_S, REST_S, STILL_S, DiskWaits
from nri_coloc.pressure.judging import Felt, Watched
from nri_coloc.pressure.population import Online
from nri_coloc.pressure.verdict import UNKNOWN, Judgement, Resource, Strain

ONLINE = {
    name: Online(
        path=f"kubepods/{name}",
        held_back=(),
        limited=(),
        tolerance=Tolerance.NORMAL,
        qos=QoSClass.SHARED,
        may_be_degraded=False,
    )
    for name in ("web", "db")
}
CALM = Judgement(hurt=False, bound=0.002)
HURT = Judgement(hurt=True, bound=0.002)
OPERATIONS = Strain(stall=0.05, operations=100)
"""At 100 operations a second and 2 ms for each the pod may wait for a fifth of the time."""


class Stalls:
    """The I/O stall of each cgroup, µs."""

    def __init__(self) -> None:
        self.us: dict[str, int | None] = {one.path: 0 for one in ONLINE.values()}
        self.kept: list[str] = []
        self.read: list[str] = []

    def keep(self, paths: Iterable[str]) -> None:
        self.kept = [*paths]

    def io_us(self, path: str) -> int | None:
        self.read.append(path)
        return self.us[path]


class Bed:
    """Two online pods that use a disk, of which web has a baseline; checks are `CHECK_S` apart."""

    def __init__(self) -> None:
        self.stalls, self.now = Stalls(), 100.0
        self.waits = DiskWaits(self.stalls)
        self.judged(CALM)
        self.waits.risen_of_all(self.now)
        for path in self.stalls.us:
            self.stalls.us[path] = 1
        self.turn(1.0)

    def turn(self, span: float, judgement: Judgement = CALM) -> frozenset[str]:
        """Take a turn after so many seconds, which judges web; return the alarms."""
        self.now += span
        found = self.waits.risen_of_all(self.now)
        self.judged(judgement)
        return found

    def checked(self) -> list[str]:
        """Return the cgroups that a check between turns reads."""
        self.stalls.read.clear()
        self.now += CHECK_S
        self.waits.risen(self.now)
        return self.stalls.read

    def judged(self, judgement: Judgement, strain: Strain | None = OPERATIONS) -> None:
        """Take the judgement of a turn for web."""
        felt = {Resource.IO: Felt(judgement=judgement, strain=strain)}
        self.waits.follow(ONLINE, {"web": Watched(felt=felt), "db": Watched()})

    def waited(self, share: float, name: str = "web", span: float = CHECK_S) -> frozenset[str]:
        """Let a pod wait for this share of the time until all pods are read; return the alarms."""
        path = ONLINE[name].path
        self.now += span
        self.stalls.us[path] = (self.stalls.us[path] or 0) + round(share * span * 1e6)
        return self.waits.risen_of_all(self.now)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_a_wait_above_the_bound_is_an_alarm(bed: Bed):
    assert bed.waited(0.2) == set()
    assert bed.waited(0.3) == {"web"}


def test_the_ticks_of_an_interval_are_no_wait(bed: Bed):
    assert bed.waited(0.2 + 0.02 / CHECK_S - 0.001) == set()
    assert bed.waited(0.2 + 0.02 / CHECK_S + 0.001) == {"web"}


def test_a_pod_without_a_baseline_gives_no_alarm(bed: Bed):
    assert bed.waited(1.0, "db") == set()


def test_a_pod_that_always_waits_gives_no_alarm(bed: Bed):
    bed.judged(Judgement(hurt=False, bound=0.02))
    assert bed.waited(1.0) == set()


def test_a_hurt_pod_gives_no_alarm(bed: Bed):
    bed.judged(HURT)
    assert bed.waited(1.0) == set()


def test_an_unread_pod_keeps_its_bound(bed: Bed):
    bed.judged(UNKNOWN, None)
    assert bed.waited(0.3) == {"web"}


@pytest.mark.parametrize("total", [None, -1])
def test_an_unknown_stall_is_no_alarm(bed: Bed, total: int | None):
    bed.stalls.us["kubepods/web"] = total
    assert bed.waits.risen_of_all(bed.now + CHECK_S) == set()
    bed.stalls.us["kubepods/web"] = 10_000_000 if total is None else total
    assert bed.waits.risen_of_all(bed.now + 2 * CHECK_S) == set()


def rest(bed: Bed) -> float:
    """Return the seconds from an alarm to the next one of a pod that waits all the time."""
    assert bed.waited(1.0, span=2 * LONGEST_REST_S) == {"web"}
    began = bed.now
    while not bed.waited(1.0, span=1.0):
        assert bed.now - began <= LONGEST_REST_S
    return bed.now - began


def test_an_alarm_in_vain_doubles_the_rest(bed: Bed):
    assert bed.waited(1.0) == {"web"}
    rests = [rest(bed) for _ in range(5)]
    assert rests == pytest.approx([2 * REST_S, 8 * REST_S, 32 * REST_S, LONGEST_REST_S, LONGEST_REST_S])


def test_a_hurt_after_an_alarm_ends_the_doubling(bed: Bed):
    rest(bed)
    bed.judged(HURT)
    bed.judged(CALM)
    assert rest(bed) == pytest.approx(REST_S)


def test_a_pod_without_waits_is_not_checked(bed: Bed):
    bed.turn(STILL_S)
    assert bed.waits.due_in(bed.now) == inf
    assert bed.checked() == []


def test_a_wait_in_a_turn_brings_checks_back(bed: Bed):
    bed.turn(STILL_S)
    bed.stalls.us["kubepods/web"] = 2
    assert bed.turn(1.0) == set()
    assert bed.checked() == ["kubepods/web"]


def test_a_turn_finds_the_wait_of_a_quiet_pod(bed: Bed):
    bed.turn(STILL_S)
    bed.stalls.us["kubepods/web"] = 300_000
    assert bed.turn(1.0) == {"web"}


def test_a_check_finds_a_wait_above_the_bound(bed: Bed):
    bed.stalls.us["kubepods/web"] = 100_000
    assert bed.waits.risen(bed.now + CHECK_S) == {"web"}


def test_a_wait_in_a_check_keeps_the_checks(bed: Bed):
    bed.turn(STILL_S - 1)
    bed.stalls.us["kubepods/web"] = 2
    assert bed.checked() == ["kubepods/web"]
    bed.turn(STILL_S - 1)
    assert bed.checked() == ["kubepods/web"]


@pytest.mark.parametrize("judgement", [HURT, Judgement(hurt=False, bound=0.02)], ids=["hurt", "always waits"])
def test_a_pod_without_alarms_is_not_checked(bed: Bed, judgement: Judgement):
    bed.judged(judgement)
    assert bed.checked() == []


def test_a_resting_pod_is_not_checked(bed: Bed):
    assert bed.waited(1.0) == {"web"}
    bed.turn(1.0)
    assert bed.checked() == []
    bed.turn(REST_S)
    assert bed.checked() == ["kubepods/web"]


def test_without_pods_nothing_is_read(bed: Bed):
    assert bed.waits.due_in(bed.now + 0.1) == pytest.approx(CHECK_S - 0.1)
    bed.waits.follow({}, {})
    assert (bed.waits.due_in(bed.now), bed.stalls.kept) == (inf, [])
