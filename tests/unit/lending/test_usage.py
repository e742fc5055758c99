"""Counters become rates: a doubtful interval gives none, and a missing figure counts as online use."""

import math

import pytest

from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.lending import usage
from nri_coloc.lending.usage import Use

AT = 50.0


def pair(role: Role, milli: int, *, seconds: float = 1.0, key: int = 1) -> tuple[Sample, Sample]:
    """Return two samples of one cgroup with this rate, milli-CPU, between them; the second is taken at AT."""
    risen = round(milli * seconds * 1000)
    return Sample(key, role, AT - seconds, 7_000), Sample(key, role, AT, 7_000 + risen)


def meters(*samples: Sample, cpus: int = 0) -> dict[int, usage.Meter]:
    """Return the meters after one sample a tick."""
    known: dict[int, usage.Meter] = {}
    for sample in samples:
        known = usage.advance(known, FastReadings(sample.at, (sample,), cpus=cpus), stale_s=1.0)
    return known


def total(*samples: Sample, at: float = AT) -> Use | None:
    return usage.total(meters(*samples), at)


def use(*samples: Sample, at: float = AT) -> Use:
    found = total(*samples, at=at)
    assert found is not None
    return found


def milli(*samples: Sample, cpus: int = 0) -> int | None:
    (meter,) = meters(*samples, cpus=cpus).values()
    return meter.milli if meter.rated_at > 0 else None


PODS, SYSTEM = pair(Role.PODS, 3000, key=1), pair(Role.SYSTEM, 400, key=2)


def test_rate_is_the_rise_over_its_interval():
    assert milli(*pair(Role.PODS, 1500, seconds=0.02)) == 1500


def test_the_first_sample_has_no_rate():
    assert milli(pair(Role.PODS, 1500)[0]) is None


@pytest.mark.parametrize(
    "second",
    [
        Sample(1, Role.BOX, AT, 6_999),
        Sample(1, Role.BOX, AT - 2, 8_000),
        Sample(1, Role.BOX, AT + 11, 8_000),
        Sample(1, Role.BOX, AT, 7_000 + 2 * 1_004_001),
    ],
    ids=["counter went back", "clock went back", "clock jumped", "faster than all CPUs"],
)
def test_doubtful_interval_of_reclaimed_pods_leaves_no_rate(second):
    first = Sample(1, Role.BOX, AT - 1, 7_000)
    assert milli(first._replace(at=AT - 1.5, usage_us=6_500), first, second, cpus=2) is None


def test_doubtful_interval_of_pods_keeps_the_rate():
    known = meters(*PODS, Sample(1, Role.PODS, AT + 1, 0))
    assert (known[1].milli, known[1].rated_at, known[1].at) == (3000, AT, AT + 1)


def test_next_interval_begins_after_the_doubtful_one():
    restarted = Sample(1, Role.PODS, AT + 1, 0)
    assert milli(*PODS, restarted, Sample(1, Role.PODS, AT + 2, 250_000)) == 250


def test_rise_beyond_all_cpus_by_a_tick_counts():
    assert milli(*pair(Role.BOX, 2008), cpus=2) == 2008


def test_a_sample_too_soon_waits_for_the_next():
    early = Sample(1, Role.PODS, AT + 0.001, 90_000_000)
    assert meters(*PODS, early) == meters(*PODS)


def test_ended_reclaimed_pod_is_not_subtracted():
    gone = Sample(3, Role.BOX, AT, None)
    with_box = use(*PODS, *SYSTEM, *pair(Role.BOX, 1000, key=3))
    without = use(*PODS, *SYSTEM, *pair(Role.BOX, 1000, key=3), gone)
    assert (with_box.online, without.online, without.members) == (2000, 3000, 0)


def test_cgroup_gone_before_its_first_reading_is_ignored():
    assert meters(Sample(3, Role.BOX, AT, None)) == {}


def test_unreadable_pods_keep_their_rate_and_age():
    kept = use(*PODS, *SYSTEM, Sample(1, Role.PODS, AT + 0.5, None), at=AT + 0.5)
    assert (kept.online, kept.oldest) == (3000, AT)


@pytest.mark.parametrize("role", [Role.PODS, Role.SYSTEM])
def test_rate_returns_two_readings_after_an_empty_one(role):
    unread, after = Sample(1, role, AT + 0.5, None), Sample(1, role, AT + 1, 3_107_000)
    known = meters(*pair(role, 3000), unread, after)
    assert (known[1].milli, known[1].rated_at) == (3000, AT)
    assert milli(*pair(role, 3000), unread, after, Sample(1, role, AT + 2, 3_807_000)) == 700


@pytest.mark.parametrize("role", [Role.PODS, Role.SYSTEM])
def test_ended_cgroup_has_no_rate(role):
    assert meters(*pair(role, 1000), Sample(1, role, AT, gone=True)) == {}


def test_cgroup_unread_for_long_is_forgotten():
    late = Sample(2, Role.SYSTEM, AT + 10.5, 0)
    assert set(meters(*pair(Role.BOX, 10), late)) == {2}


def test_a_cgroup_in_a_new_role_begins_anew():
    known = meters(*pair(Role.ONLINE, 500), Sample(1, Role.BOX, AT + 1, 900_000))
    assert (known[1].role, known[1].milli, known[1].until) == (Role.BOX, 0, -math.inf)


def test_online_use_excludes_reclaimed_and_dedicated_pods():
    found = use(*PODS, *SYSTEM, *pair(Role.BOX, 1000, key=3), *pair(Role.DEDICATED, 700, key=4))
    assert (found.online, found.system, found.box, found.members) == (1300, 400, 1000, 1)


def test_host_group_counts_beside_the_pods():
    system = pair(Role.SYSTEM, 4_300, key=2)
    found = use(*pair(Role.PODS, 500, key=1), *system, *pair(Role.HOST, 4_000, key=3))
    assert (found.online, found.system, found.box, found.members) == (500, 300, 4_000, 1)


def test_idle_host_group_takes_nothing_off_pods():
    found = use(*PODS, *SYSTEM, *pair(Role.HOST, 4_000, key=3), *pair(Role.RESERVED, 150, key=5))
    assert (found.online, found.system) == (2850, 0)


def test_use_of_reserved_cpus_is_not_the_systems():
    found = use(*PODS, *SYSTEM, *pair(Role.RESERVED, 150, key=5))
    assert (found.online, found.system) == (3000, 250)


def test_pods_on_reserved_cpus_are_no_online_use():
    found = use(*PODS, *SYSTEM, *pair(Role.RESERVED, 900, key=5))
    assert (found.online, found.system) == (2500, 0)


def test_idle_system_is_judged_as_any_other():
    found = use(*PODS, *pair(Role.SYSTEM, 0, key=2), *pair(Role.RESERVED, 900, key=5))
    assert (found.online, found.system, found.reserved) == (2100, 0, 900)


def test_unmeasured_system_takes_nothing_from_the_pods():
    found = use(*PODS, *pair(Role.RESERVED, 900, key=5))
    assert (found.online, found.system, found.reserved) == (3000, 0, 0)


def test_busier_online_group_replaces_the_remainder():
    found = use(*PODS, *SYSTEM, *pair(Role.BOX, 2500, key=3), *pair(Role.ONLINE, 1900, key=6))
    assert found.online == 1900


def test_online_use_is_never_negative():
    found = use(*PODS, *SYSTEM, *pair(Role.BOX, 3500, key=3))
    assert found.online == 0


def test_no_use_without_a_rate_of_pods():
    assert total(PODS[0], *SYSTEM) is None


def test_no_use_without_a_rate_of_the_system():
    assert total(*PODS, SYSTEM[0]) is None


def test_without_the_pods_there_is_no_use():
    assert total(*SYSTEM) is None


def test_a_box_not_read_lately_is_not_subtracted():
    found = use(*PODS, *SYSTEM, *pair(Role.BOX, 1000, key=3), at=AT + 1.01)
    assert (found.online, found.members) == (3000, 1)


def test_dedicated_container_keeps_its_rate_two_rounds():
    slow = pair(Role.DEDICATED, 700, seconds=4, key=4)
    within, beyond = use(*PODS, *SYSTEM, *slow, at=AT + 8), use(*PODS, *SYSTEM, *slow, at=AT + 8.01)
    assert (within.online, beyond.online) == (2300, 3000)


def test_oldest_vital_rate_gives_the_age():
    found = use(*PODS, *SYSTEM, Sample(1, Role.PODS, AT + 0.1, 3_307_000))
    assert (found.rated_at, found.oldest) == (AT + 0.1, AT)


BEHIND = usage.behind_s(4, 0.004)


def test_burst_counts_without_the_counters_error():
    # 4 ms of 20 ms on each of 4 CPUs, independently: 200m x 2
    assert usage.judged(4000, 0.02, 1000, 0.06, BEHIND) == 3600


def test_noise_of_the_counters_moves_the_mean_only():
    assert usage.judged(1300, 0.02, 1000, 0.06, BEHIND) == 1075


def test_a_fall_is_believed_slowly():
    assert usage.judged(0, 0.02, 1000, 0.06, BEHIND) == 750


def test_first_rate_is_the_mean():
    assert usage.judged(800, 0.02, 0, 0.0, BEHIND) == 800


@pytest.mark.parametrize(("counters_s", "milli"), [(0.004, None), (0.01, 1500)], ids=["250 Hz", "100 Hz"])
def test_counter_may_catch_up_by_one_tick(counters_s, milli):
    first, later = (Sample(1, Role.PODS, at, used) for at, used in ((AT, 0), (AT + 0.02, 30_000)))
    known = usage.advance({}, FastReadings(AT, (first,), cpus=1), 1.0)
    readings = FastReadings(AT + 0.02, (later,), cpus=1, counters_s=counters_s)
    meter = usage.advance(known, readings, 1.0)[1]
    assert (meter.milli if meter.until >= AT + 0.02 else None) == milli
