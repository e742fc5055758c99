"""Use on lendable CPUs counts against lending: all of it, and no other use.

On the node, pods, system and reclaim cgroups use any amount on each kind of CPUs, with exact counters. The loop reads
cgroups and reserved CPUs, which do not show on which CPUs a pod used them.
"""

from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.readings import FastReadings, Role, Sample
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast.use import uses_between
from nri_coloc.lending import fast_loop, usage
from nri_coloc.pods.replicas import OnlinePod
from tests.unit.lending.fast_kit import Watcher
from tests.unit.lending.kit import group, picture

CPUS = 64
PERIOD_S = 0.02
SUBTRACTED = (Role.BOX, Role.HOST, Role.DEDICATED, Role.RESERVED)
milli = st.integers(0, 4_000)


class Flows(NamedTuple):
    """Hold the use of each kind, in milli-CPU.

    online, system, box, host: online pods, the system, the reclaim cgroups and their host group on lendable CPUs.
    online_reserved, system_reserved: the first two on reserved CPUs.
    apart: each pod that is apart.
    """

    online: int
    system: int
    box: int
    host: int
    online_reserved: int
    system_reserved: int
    apart: tuple[int, ...]

    @property
    def claim(self) -> int:
        return self.online + self.system

    def samples(self, seconds: float) -> tuple[Sample, ...]:
        """Return the samples after these flows lasted for `seconds`."""
        pods = self.online + self.online_reserved + self.box + sum(self.apart)
        rates = [
            (Role.PODS, pods),
            (Role.SYSTEM, self.system + self.system_reserved + self.host),
            (Role.BOX, self.box),
            (Role.HOST, self.host),
            (Role.RESERVED, self.online_reserved + self.system_reserved),
            *((Role.DEDICATED, one) for one in self.apart),
        ]
        return tuple(
            Sample(key, role, 100.0 + seconds, round(rate * seconds * 1000))
            for key, (role, rate) in enumerate(rates)
        )


flows = st.builds(Flows, milli, milli, milli, milli, milli, milli, st.lists(milli, max_size=3).map(tuple))


def read(samples: tuple[Sample, ...]) -> FastReadings:
    return FastReadings(samples[0].at, samples, lendable=CPUS, cpus=CPUS)


def used(flows: Flows, unread: frozenset[Role] = frozenset()) -> usage.Use:
    known: dict[int, usage.Meter] = {}
    for second in (0, 1):
        samples = tuple(s for s in flows.samples(second) if s.role not in unread)
        known = usage.advance(known, read(samples), stale_s=1.0)
    found = usage.total(known, 101.0)
    assert found is not None
    return found


@given(flows)
def test_a_tick_counts_what_runs_on_lendable_cpus_and_nothing_else(flows):
    found = used(flows)
    assert found.online + found.system == flows.claim


@given(flows, st.frozensets(st.sampled_from(SUBTRACTED)))
def test_whatever_cannot_be_read_no_real_claim_is_overlooked(flows, unread):
    found = used(flows, unread)
    assert found.online + found.system >= flows.claim


@given(flows)
def test_skipped_readings_decide_as_full_ones(flows):
    watcher = Watcher(ReclaimTuning(dwell_s=0.1))
    for number in range(1, 150):
        watcher.take(read(flows.samples(number * PERIOD_S)))
        if watcher.glance is None:
            continue
        rates = fast_loop.caught_up(watcher.glance, watcher.memory).rates
        assert abs(rates.online + rates.system - flows.claim) <= 4
    assert watcher.passed


@given(flows, st.booleans(), st.booleans())
def test_pictures_overlook_no_real_claim_and_count_nothing_else(flows, same_cpus, known):
    """No file shows how a pod that runs on both kinds of CPUs divides its use.

    known: whether it is known that it may run on both.
    """
    online = {"web": OnlinePod("shop/web", on_reserved=known)}
    online |= {f"apart-{n}": OnlinePod("shop/db", own_cpus=True) for n in range(len(flows.apart))}
    before, after = picture_of(flows, 0.0, 0b1 if same_cpus else 0b11), picture_of(flows, 10.0, 0b1)
    found = sum(use.cpu_milli or 0 for use in uses_between(before, after, online).values())
    assert found >= flows.claim
    if same_cpus and (known or flows.online_reserved <= flows.system):
        assert found == flows.claim


def picture_of(flows: Flows, at: float, reserved: int):
    rates = {"web": flows.online + flows.online_reserved}
    rates |= {f"apart-{number}": rate for number, rate in enumerate(flows.apart)}
    pods = {name: group(key, at, rate) for key, (name, rate) in enumerate(rates.items())}
    of_pods = sum(rates.values()) + flows.box
    on_reserved = flows.online_reserved + flows.system_reserved
    node = {
        "usage_us": round((of_pods + flows.host + flows.system + flows.system_reserved) * at * 1000),
        "reserved_usage_us": round(on_reserved * at * 1000),
        "reserved": reserved,
    }
    found = picture(at, pods, group(99, at, of_pods), **node)
    return replace(found, host_groups={"yarn": group(98, at, flows.host)})
