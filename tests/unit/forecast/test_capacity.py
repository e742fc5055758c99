"""The advertised capacity is computed case by case; the table is meant to be read."""

import re
from dataclasses import dataclass, field, replace

import pytest

from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.settings import ForecastTuning, ReclaimTuning
from nri_coloc.forecast import expectations
from nri_coloc.forecast.capacity import Supply, ahead, capacity, untold
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.forecast.use import SYSTEM, Use
from nri_coloc.pods.replicas import OnlinePod
from tests.unit.lending.kit import GIB

NOON = 20_000 * 86_400.0
NOTHING = Forecast()
MARGIN = 456 << 20
"""Bytes that lending leaves on a small node, and below a small limit."""

MACHINE = Supply(8000, 32 * GIB + MARGIN)
ALL_OF_IT = Capacity(8000, 32 * GIB)
EXACT = ReclaimTuning(
    watermark=1.0,
    memory_watermark=1.0,
    margin=0.0,
    percentile=0.0,
    forecast=ForecastTuning(memory_percentile=0.0),
    cold_start_s=600.0,
)
"""Settings under which pods are expected to keep their present use, so that figures can be checked by hand."""


def seen(minutes: int = 30, system: Use | None = None, **uses: Use) -> Forecast:
    found = Forecast()
    for step in range(minutes + 1):
        observed = {**uses, SYSTEM: system or Use(SYSTEM, 0, 0)}
        found = expectations.observe(found, observed, NOON + 60.0 * step, EXACT)
    return found


def pod(milli: int = 0, memory: int = 0, **more: object) -> OnlinePod:
    return OnlinePod("shop/web", milli, memory, **more)  # type: ignore[arg-type]  # keywords of the table


@dataclass(frozen=True)
class Case:
    """A row of the table.

    now_min: minutes after the first reading.
    """

    story: str
    cpu_milli: int
    memory_gib: float
    binding: Binding
    seen: Forecast = NOTHING
    online: dict[str, OnlinePod] = field(default_factory=dict)
    supply: Supply = MACHINE
    tuning: ReclaimTuning = EXACT
    now_min: float = 30.0
    previous: Capacity = ALL_OF_IT


WEB = Use("shop/web", 2000, 4 * GIB)

CASES = [
    Case("switched off", 0, 0, Binding.DISABLED, tuning=ReclaimTuning(enabled=False), seen=seen(a=WEB)),
    Case("nothing was measured yet", 0, 0, Binding.NOT_MEASURED, online={"a": pod()}),
    Case("an idle node offers all", 8000, 32, Binding.FORECAST, seen=seen()),
    Case("what a pod uses is not offered", 6000, 28, Binding.FORECAST, seen(a=WEB), online={"a": pod()}),
    Case("a pod that is gone takes nothing", 8000, 32, Binding.FORECAST, seen(a=WEB)),
    Case("two of a kind take twice", 4000, 24, Binding.FORECAST, seen(a=WEB, b=WEB), online={"a": pod(), "b": pod()}),
    Case("memory requested is not offered", 6000, 24, Binding.FORECAST, seen(a=WEB), online={"a": pod(0, 8 * GIB)}),
    Case("a CPU request that is not used is", 6000, 28, Binding.FORECAST, seen(a=WEB), online={"a": pod(7000)}),
    Case("unless it is still learnt", 1000, 28, Binding.LEARNING, seen(5, a=WEB), online={"a": pod(7000)}, now_min=5),
    Case("what the system uses is not offered", 7000, 30, Binding.FORECAST, seen(system=Use(SYSTEM, 1000, 2 * GIB))),
    Case(
        "nor above the watermarks", 6000, 8, Binding.FORECAST, seen(a=WEB),
        supply=Supply(8000, 32 * GIB), tuning=replace(EXACT, watermark=0.75, memory_watermark=0.25),
    ),
    Case(
        "nor the reserve, nor the kernel's own", 7500, 30, Binding.FORECAST, seen(),
        supply=Supply(8000, 32 * GIB + MARGIN, watermark_bytes=GIB),
        tuning=replace(EXACT, reserve_milli=500, memory_reserve=GIB),
    ),
    Case(
        "kubepods' own limit bounds memory", 6000, 16, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        supply=Supply(8000, 32 * GIB + MARGIN, kubepods_limit=20 * GIB + MARGIN),
    ),
    Case(
        "but where host groups lie beside kubepods", 6000, 28, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        supply=Supply(8000, 32 * GIB + MARGIN, kubepods_limit=20 * GIB + MARGIN, host_groups=1),
    ),
    Case(
        "a limit above the machine does not", 8000, 32, Binding.FORECAST, seen(),
        supply=Supply(8000, 32 * GIB + MARGIN, kubepods_limit=99 * GIB),
    ),
    Case(
        "never more than the maximum of the reclaim pool", 2000, 28, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        supply=Supply(8000, 32 * GIB + MARGIN, most_milli=2000),
    ),
    Case(
        "which is nothing new where less is left", 6000, 28, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        supply=Supply(8000, 32 * GIB + MARGIN, most_milli=7000),
    ),
    Case(
        "half is lent", 3000, 14, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        tuning=replace(EXACT, lend=0.5, offer=0.5),
    ),
    Case(
        "nothing is lent", 0, 0, Binding.SCHEDULE, seen(a=WEB), online={"a": pod()},
        tuning=replace(EXACT, lend=0.0, offer=0.0),
    ),
    Case(
        "a part within the pool's maximum", 2000, 14, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        supply=Supply(8000, 32 * GIB + MARGIN, most_milli=2000), tuning=replace(EXACT, lend=0.5, offer=0.5),
    ),
    Case(
        "a full node offers nothing, not less", 0, 0, Binding.FORECAST, seen(a=WEB), online={"a": pod()},
        supply=Supply(1000, GIB),
    ),
    Case(
        "CPUs of one's own are not lendable anyway", 8000, 28, Binding.FORECAST,
        seen(a=WEB._replace(cpu_milli=None)), online={"a": pod(own_cpus=True)},
    ),
    Case(
        "readings fail: yesterday, as yet unknown, and at most what was offered before", 5000, 20, Binding.YESTERDAY,
        seen(a=WEB), online={"a": pod()}, now_min=60, previous=Capacity(5000, 20 * GIB),
    ),
    Case("readings failed for more than a day", 0, 0, Binding.STALE, seen(a=WEB), online={"a": pod()}, now_min=3000),
]  # fmt: skip


def found(case: Case) -> Capacity:
    now_s = NOON + 60.0 * case.now_min
    return capacity(case.seen, case.online, case.supply, now_s, case.tuning, previous=case.previous)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_capacity(case):
    offered = found(case)
    # an expectation is up to a bucket, 5 %, above the truth; an offer may only be that much lower
    assert offered.cpu_milli <= case.cpu_milli <= offered.cpu_milli + 0.05 * (8000 - case.cpu_milli) + 60
    assert offered.memory_bytes <= case.memory_gib * GIB <= offered.memory_bytes + 0.5 * GIB
    assert offered.binding is case.binding
    assert offered.because


def near(amount: int | None, wanted: int) -> bool:
    return amount is not None and amount <= wanted <= amount + 0.05 * (8000 - wanted) + 60


def test_a_partly_guessed_offer_also_shows_the_measured_one():
    cold = Case("", 0, 0, Binding.LEARNING, seen(5, a=WEB), online={"a": pod(7000)}, now_min=5)
    assert near(found(cold).cpu_milli, 1000)
    assert near(found(cold).borne_milli, 6000)
    few = found(replace(cold, supply=MACHINE._replace(most_milli=3000)))
    assert (few.borne_milli, few.borne_bytes) == (3000, few.memory_bytes)


def test_where_nobody_is_being_learnt_it_is_the_offer_itself():
    offer = found(Case("", 0, 0, Binding.FORECAST, seen(a=WEB), online={"a": pod(7000)}))
    assert (offer.borne_milli, offer.borne_bytes) == (None, None)


def went_on(*, minutes: int, cpu: int | None = 2000, memory: int | None = 4 * GIB) -> Forecast:
    """Return a forecast of half an hour, and then of `minutes` in which a resource of None is unread."""
    found = seen(a=WEB)
    system = Use(SYSTEM, None if cpu is None else 0, None if memory is None else 0)
    for step in range(1, minutes + 1):
        uses = {"a": Use("shop/web", cpu, memory), SYSTEM: system}
        found = expectations.observe(found, uses, NOON + 1800.0 + 60.0 * step, EXACT)
    return found


class TestWhereOneResourceCanBeReadNoMore:
    """A pod with 2 CPUs and 4 GiB was read for half an hour; 5 CPUs and 20 GiB were offered."""

    def offered(self, known: Forecast, now_min: float) -> Capacity:
        before = Capacity(5000, 20 * GIB)
        return found(
            Case("", 0, 0, Binding.FORECAST, known, online={"a": pod()}, now_min=now_min, previous=before)
        )

    def test_an_unread_amount_is_offered_as_before(self):
        without_cpu = self.offered(went_on(minutes=30, cpu=None), 60)
        assert (without_cpu.cpu_milli, without_cpu.binding) == (5000, Binding.YESTERDAY)
        assert without_cpu.memory_bytes > 27 * GIB
        without_memory = self.offered(went_on(minutes=30, memory=None), 60)
        assert (without_memory.memory_bytes, without_memory.binding) == (20 * GIB, Binding.YESTERDAY)
        assert without_memory.cpu_milli > 5800

    def test_after_a_day_nothing_of_it_is(self):
        without_cpu = self.offered(went_on(minutes=1500, cpu=None), 1530)
        assert (without_cpu.cpu_milli, without_cpu.binding) == (0, Binding.STALE)
        assert without_cpu.memory_bytes > 27 * GIB
        without_memory = self.offered(went_on(minutes=1500, memory=None), 1530)
        assert (without_memory.memory_bytes, without_memory.binding) == (0, Binding.STALE)
        assert without_memory.cpu_milli > 5800

    def test_the_sentence_says_which_and_since_when(self):
        told = self.offered(went_on(minutes=30, memory=None), 60).because
        assert told.startswith("lendable_cpus: CPU ")
        assert "; memory could not be read for 1800 s, so the same hour yesterday counts, at most" in told
        assert f"at most the previous {20 * GIB} bytes; memory " in told
        assert self.offered(went_on(minutes=1500, cpu=None), 1530).because.startswith(
            "CPU could not be read for 90000 s; memory "
        )

    def test_of_one_that_was_never_read_nothing_is_offered(self):
        uses = {"a": Use("shop/web", None, 4 * GIB), SYSTEM: Use(SYSTEM, None, 0)}
        offer = self.offered(expectations.observe(Forecast(), uses, NOON, EXACT), 0)
        assert (offer.cpu_milli, offer.binding) == (0, Binding.NOT_MEASURED)
        assert offer.memory_bytes > 27 * GIB
        assert offer.because.startswith("CPU was not measured yet; memory ")


def test_the_sentence_holds_every_figure():
    told = found(CASES[3]).because
    for figure in ("8000m lendable * 1", "0m reserve", "of 1 online pods", "shop/web", "25m of the system"):
        assert figure in told


@pytest.mark.parametrize(
    ("box", "most", "words"),
    [
        (
            None,
            2000,
            "25m of the system, and no more than the 2000m of pools.reclaim.maxCPUs;",
        ),
        (
            3000,
            2000,
            "25m of the system, and no more than the 2000m of pools.reclaim.maxCPUs;",
        ),
        (1000, 2000, "25m of the system, and no more than the 1000m of the reclaim pool;"),
        (7000, 7500, "25m of the system;"),
    ],
    ids=["an operator's bound", "the lower of both", "what it has", "neither"],
)
def test_the_sentence_names_what_else_bounds_the_offer(box, most, words):
    supply = MACHINE._replace(box_milli=box, most_milli=most)
    case = replace(CASES[3], supply=supply)
    assert words in found(case).because


@pytest.mark.parametrize(
    ("pods", "system", "binding"),
    [(5000, 0, "online_use"), (2000, 0, "lendable_cpus"), (1000, 4000, "system_use")],
)
def test_the_sentence_begins_with_what_bound_the_cpu(pods, system, binding):
    known = seen(system=Use(SYSTEM, system, GIB), a=Use("shop/web", pods, GIB))
    assert found(Case("", 0, 0, Binding.FORECAST, known, online={"a": pod()})).because.startswith(
        f"{binding}: CPU "
    )


@pytest.mark.parametrize(("box", "most", "binding"), [(1000, 2000, "box_cpus"), (3000, 2000, "pool_maximum")])
def test_a_bound_of_the_box_is_what_bound_it(box, most, binding):
    case = replace(CASES[3], supply=MACHINE._replace(box_milli=box, most_milli=most))
    assert found(case).because.startswith(f"{binding}: CPU ")


def test_the_sentence_states_the_part_of_pods_beside_host_groups():
    supply = Supply(8000, 32 * GIB + MARGIN, kubepods_limit=20 * GIB + MARGIN, host_groups=1)
    found = capacity(seen(a=WEB), {"a": pod()}, supply, NOON + 1800, EXACT, previous=ALL_OF_IT)
    told = re.search(r", to pods at most (\d+) for the (\d+) bytes below kubepods' own limit$", found.because)
    assert told is not None
    assert found.memory_bytes - int(told[1]) == pytest.approx(12 * GIB, rel=0.001)
    assert int(told[2]) == pytest.approx(20 * GIB, rel=0.001)


def test_the_sentence_says_how_many_are_still_learnt():
    learnt = next(case for case in CASES if case.binding is Binding.LEARNING)
    assert "2 of them still being learnt" in found(learnt).because


def test_in_the_grace_running_pods_keep_their_part():
    falling = replace(EXACT, lend=1.0, offer=0.0)
    offer = found(Case("", 0, 0, Binding.SCHEDULE, seen(a=WEB), online={"a": pod()}, tuning=falling))
    assert (offer.cpu_milli, offer.memory_bytes) == (0, 0)
    assert near(offer.borne_milli, 6000)
    assert offer.because.startswith("schedule: CPU 0m = 0% of (8000m lendable * 1 - ")


@pytest.mark.parametrize(("part", "binding"), [(0.5, "lendable_cpus"), (0.49, "schedule")])
def test_a_part_binds_if_the_offer_would_more_than_double(part, binding):
    case = replace(CASES[3], tuning=replace(EXACT, lend=part, offer=part))
    assert found(case).because.startswith(f"{binding}: CPU ")


def test_a_part_is_named_with_its_terms():
    part = replace(CASES[3], tuning=replace(EXACT, lend=0.4, offer=0.4))
    told = re.match(r"schedule: CPU \d+m = 40% of \(.*\); memory \d+ = 40% of \(.*\)$", found(part).because)
    assert told is not None


def test_before_the_first_list_nothing_is_offered():
    assert untold() == Capacity(0, 0, Binding.NOT_MEASURED, "the runtime has not listed its containers yet")


def test_while_lending_is_paused_nothing_is_offered_and_it_says_so():
    paused = replace(EXACT, paused="lending is paused until noon")
    found = capacity(seen(), {}, MACHINE, NOON + 1900.0, paused, previous=ALL_OF_IT)
    assert found == Capacity(0, 0, Binding.PAUSED, "lending is paused until noon")


def busy_by_day() -> Forecast:
    """Return a forecast of a pod that used 6 CPUs from noon for 12 hours, then 1 CPU until 13 o'clock."""
    found, step_s = Forecast(), 120.0
    for step in range(25 * 30 + 1):
        milli = 6000 if step < 12 * 30 else 1000
        uses = {"web": Use("shop/web", milli, GIB), SYSTEM: Use(SYSTEM, 0, 0)}
        found = expectations.observe(found, uses, NOON + step_s * step, EXACT)
    return found


def test_an_outlook_has_the_course_of_yesterday():
    online = {"web": pod()}
    found = ahead(busy_by_day(), online, MACHINE, NOON + 25 * 3600.0, EXACT)
    assert len(found) == 24
    assert [each.cpu_milli for each in found[1:9]] == [2000] * 8
    assert [each.cpu_milli for each in found[12:20]] == [7000] * 8


def test_an_outlook_needs_a_day():
    assert ahead(seen(60, web=Use("shop/web", 1000, GIB)), {"web": pod()}, MACHINE, NOON, EXACT) == ()
