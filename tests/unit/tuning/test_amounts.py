"""Loans shrink and grow with the capacity; the table is meant to be read."""

from dataclasses import dataclass, field

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.pod_facts import Lent
from nri_coloc.core.settings import AmountTuning
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.tuning.lent_amounts import Course, Loan, Rebalanced, Settled, amounts, lent, rebalance
from tests.unit.lending.kit import GIB, MIB
from tests.unit.pods import vocabulary_kit

TUNING = AmountTuning(dwell_s=300.0, dead_band=0.1, memory_room=64 * MIB)


def cpus(milli: int, memory: int | None = None) -> Knobs:
    """Return a loan of a limit and a request, milli-CPU, and of memory, bytes."""
    return Knobs(shares=milli * 1024 // 1000, quota=milli * 100, period=100_000, memory_limit=memory)


def there_are(milli: int, memory: int = 64 * GIB, binding: Binding = Binding.FORECAST) -> Capacity:
    return Capacity(milli, memory, binding)


def settled(milli: int, memory: int = 64 * GIB) -> Settled:
    return Settled(Course(milli), Course(memory))


def rebalanced(loans: dict[str, Loan], capacity: Capacity, before: Capacity | None = None) -> Rebalanced:
    """Return the new amounts after `capacity` has lasted, or after `before` was settled."""
    held = before or capacity
    return rebalance(settled(held.cpu_milli, held.memory_bytes), loans, capacity, 0.0, TUNING)


# --- loans -----------------------------------------------------------------------------------------------

TOLD = Knobs(shares=512, quota=200_000, period=100_000, memory_limit=GIB)
ALL_KEYS = ("lent-shares", "lent-quota", "memory-limit")


def wish(*keys: str, qos: QoSClass = QoSClass.RECLAIMED) -> Wish:
    return Wish(
        qos,
        annotated=TOLD,
        knobs=TOLD._replace(io_weight=10),
        origins=tuple((k, "theirs", "1") for k in keys),
    )


def test_a_loan_is_what_a_vocabulary_told():
    assert lent(wish(*ALL_KEYS)) == TOLD


def test_a_loan_is_what_the_configuration_gives_a_pod():
    cpu, memory = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
    told = {"containers": {"app": {"limits": {cpu: "2000", memory: "1Gi"}}}}
    found = vocabulary_kit.wish({"noderesource.dev/resources": told}, qos="reclaimed", shares=2)
    assert lent(found) == cpus(2000, GIB)._replace(shares=1024)


def test_a_memory_limit_by_our_annotation_is_no_loan():
    assert lent(wish("lent-quota")) == TOLD._replace(memory_limit=None)


@pytest.mark.parametrize("nobody", [wish(), wish("priority"), wish(*ALL_KEYS, qos=QoSClass.SHARED)])
def test_without_a_loan_there_is_nothing_to_rebalance(nobody):
    assert lent(nobody) is None


# --- amounts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A row of the table.

    found: milli-CPU by quota and, where lent, MiB of each container.
    """

    story: str
    found: dict[str, tuple[int, int | None]]
    capacity: Capacity
    loans: dict[str, Loan] = field(
        default_factory=lambda: {"a": Loan(cpus(2000, 2 * GIB)), "b": Loan(cpus(4000, 6 * GIB))}
    )


CONFIRMED = {
    "greedy": Loan(cpus(4000, 8 * GIB), pod_id="greedy", confirmed=Lent(1000, GIB)),
    "honest": Loan(cpus(4000, 8 * GIB), pod_id="honest", confirmed=Lent(4000, 8 * GIB)),
}
UNCONFIRMED = {key: loan._replace(confirmed=Lent()) for key, loan in CONFIRMED.items()}
LOW_AND_HIGH = {"low": Loan(cpus(2000), priority=-1), "high": Loan(cpus(2000), priority=5)}

CASES = [
    Case("all loans are borne", {"a": (2000, 2048), "b": (4000, 6144)}, there_are(6000, 8 * GIB)),
    Case("half of the CPUs, half of each loan", {"a": (1000, 2048), "b": (2000, 6144)}, there_are(3000, 8 * GIB)),
    Case("half of the memory likewise", {"a": (2000, 1024), "b": (4000, 3072)}, there_are(6000, 4 * GIB)),
    Case("nothing to lend leaves the kernel's least", {"a": (10, 0), "b": (10, 0)}, there_are(0, 0)),
    Case("the lower priority gives first", {"low": (1000, None), "high": (2000, None)},
         there_are(3000), LOW_AND_HIGH),
    Case("then the next", {"low": (10, None), "high": (1500, None)}, there_are(1500), LOW_AND_HIGH),
    Case("amounts that the spec requests go first", {"greedy": (2000, 2048), "honest": (4000, 8192)},
         there_are(6000, 10 * GIB), CONFIRMED),
    Case("each pod keeps its equal part of them", {"greedy": (1000, 1024), "honest": (1000, 1024)},
         there_are(2000, 2 * GIB), CONFIRMED),
    Case("loans that no spec requests are divided alike", {"greedy": (1000, 1024), "honest": (1000, 1024)},
         there_are(2000, 2 * GIB), UNCONFIRMED),
    Case("no loans", {}, there_are(0), {}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_amounts(case):
    found = {
        key: ((knobs.quota or 0) // 100, None if knobs.memory_limit is None else knobs.memory_limit // MIB)
        for key, knobs in amounts(case.loans, case.capacity.cpu_milli, case.capacity.memory_bytes).items()
    }
    assert found == case.found


def test_shares_shrink_in_the_same_proportion():
    assert amounts({"a": Loan(cpus(2000))}, 1000, 64 * GIB)["a"] == Knobs(
        shares=1024, quota=100_000, period=100_000
    )


def test_a_limit_takes_nothing_from_other_loans():
    large = Knobs(shares=1024, quota=6_400_000, period=100_000)
    both = {"a": Loan(cpus(1000)), "b": Loan(large), "c": Loan(large._replace(shares=None))}
    assert amounts(both, 2000, 64 * GIB) == {key: loan.lent for key, loan in both.items()}


def test_a_high_priority_leaves_other_pods_an_equal_part():
    greedy = Loan(cpus(4000, 64 * GIB), priority=10**9, pod_id="greedy")
    found = amounts({"greedy": greedy, "a": Loan(cpus(1000, GIB), pod_id="other")}, 2000, 2 * GIB)
    assert found["a"] == cpus(1000, GIB)
    assert (found["greedy"].quota, found["greedy"].memory_limit) == (100_000, GIB)


def test_a_large_loan_leaves_smaller_ones_whole():
    found = amounts(
        {"greedy": Loan(cpus(2000, 1 << 50), pod_id="greedy"), "a": Loan(cpus(1000, GIB), pod_id="other")},
        3000,
        4 * GIB,
    )
    assert found["a"] == cpus(1000, GIB)


def test_many_containers_of_one_pod_share_its_part():
    crowd = {f"greedy-{at}": Loan(cpus(1000), priority=5, pod_id="greedy") for at in range(20)}
    found = amounts({**crowd, "a": Loan(cpus(1000), pod_id="other")}, 2000, 64 * GIB)
    assert found["a"] == cpus(1000)


def test_beyond_equal_parts_the_higher_priority_has_the_rest():
    three = {name: Loan(cpus(milli), priority=at, pod_id=name)
             for name, milli, at in (("small", 500, 0), ("low", 4000, 0), ("high", 4000, 1))}  # fmt: skip
    found = {key: (knobs.quota or 0) // 100 for key, knobs in amounts(three, 6000, 64 * GIB).items()}
    assert found == {"small": 500, "low": 2000, "high": 3500}


def test_a_loan_of_memory_only_takes_no_cpu_from_others():
    both = {"a": Loan(Knobs(memory_limit=GIB)), "b": Loan(cpus(1000))}
    assert amounts(both, 1000, 64 * GIB)["b"] == cpus(1000)


def test_a_loan_below_the_kernels_least_is_not_raised():
    assert amounts({"a": Loan(Knobs(shares=4, quota=500, period=100_000))}, 0, 0)["a"].quota == 500


# --- when ------------------------------------------------------------------------------------------------

FULL = {"a": Loan(cpus(2000), cpus(2000))}


def test_a_capacity_must_last_before_anybody_is_changed():
    first = rebalance(settled(8000), FULL, there_are(1000), 0.0, TUNING)
    second = rebalance(first.settled, FULL, there_are(1000), 299.0, TUNING)
    third = rebalance(second.settled, FULL, there_are(1000), 300.0, TUNING)
    assert (first.changes, second.changes) == ({}, {})
    assert third.changes == {"a": Knobs(shares=1024, quota=100_000)}
    figures = {"lent_milli": 2000, "lent_bytes": 0, "loans": 1, "capacity_milli": 1000}
    assert figures.items() <= third.inputs.items()


def test_one_late_dip_takes_nothing_away():
    first = rebalance(settled(8000), FULL, there_are(9000), 0.0, TUNING)
    assert rebalance(first.settled, FULL, there_are(1000), 300.0, TUNING).changes == {}


def test_memory_alone_can_differ_too():
    found = rebalance(settled(8000, 8 * GIB), FULL, there_are(8000, 4 * GIB), 7.0, TUNING)
    assert found.settled == Settled(Course(8000), Course(8 * GIB, 7.0, 4 * GIB))


def test_a_start_takes_nothing_from_anybody_before_a_capacity_has_lasted():
    first = rebalance(Settled(), FULL, there_are(1000), 0.0, TUNING)
    assert first.changes == {}
    assert (first.inputs["dwell_s"], first.inputs["capacity_milli"]) == (300, None)
    assert rebalance(first.settled, FULL, there_are(1000), 300.0, TUNING).changes


@pytest.mark.parametrize("binding", [Binding.DISABLED, Binding.NOT_MEASURED, Binding.STALE])
def test_an_unknown_capacity_takes_nothing_away(binding):
    before = Settled(Course(8000, 0.0, 1000), Course(GIB))
    found = rebalance(before, FULL, there_are(0, 0, binding), 900.0, TUNING)
    assert (found.settled, found.changes) == (settled(8000, GIB), {})


# --- while workloads are being learnt --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "offered", "borne", "present", "becomes"),
    [
        ("a guess takes nothing from running containers", 100, 8000, 2000, None),
        ("nor does it withhold what is there", 100, 8000, 1000, 2000),
        ("what was measured takes", 100, 1000, 2000, 1000),
        ("without guesses it is the offer", 1000, None, 2000, 1000),
    ],
)
def test_while_a_workload_is_learnt(story, offered, borne, present, becomes):
    capacity = Capacity(offered, 64 * GIB, Binding.LEARNING, borne_milli=borne, borne_bytes=64 * GIB)
    before = settled(offered if borne is None else borne)
    found = rebalance(before, {"a": Loan(cpus(2000), cpus(present))}, capacity, 0.0, TUNING).changes
    assert found == ({} if becomes is None else {"a": cpus(becomes)._replace(period=None)})


def test_a_guess_about_memory_takes_none_either():
    capacity = Capacity(8000, GIB, Binding.LEARNING, borne_milli=8000, borne_bytes=3 * GIB)
    loan = Loan(Knobs(memory_limit=4 * GIB), Knobs(memory_limit=4 * GIB), 0)
    found = rebalance(settled(8000, 3 * GIB), {"a": loan}, capacity, 0.0, TUNING)
    assert found.changes == {"a": Knobs(memory_limit=3 * GIB)}


def test_the_measured_amount_must_last_too():
    less = Capacity(100, 64 * GIB, Binding.LEARNING, borne_milli=1000, borne_bytes=64 * GIB)
    first = rebalance(settled(8000), FULL, less, 0.0, TUNING)
    second = rebalance(first.settled, FULL, less, 300.0, TUNING)
    assert (first.changes, set(second.changes)) == ({}, {"a"})
    figures = {"capacity_milli": 1000, "capacity_bytes": 64 * GIB, "offered_milli": 100}
    assert figures.items() <= second.inputs.items()


# --- which values ----------------------------------------------------------------------------------------


def test_what_is_nearly_right_is_left_alone():
    nearly = {"a": Loan(cpus(2000), cpus(1900))}
    assert rebalanced(nearly, there_are(1800)).changes == {}


def test_the_whole_loan_comes_back_to_the_last_unit():
    assert rebalanced({"a": Loan(cpus(2000), cpus(1900))}, there_are(8000)).changes == {
        "a": Knobs(shares=2048, quota=200_000)
    }


def test_only_who_differs_is_changed():
    two = {**FULL, "b": Loan(cpus(1000), cpus(500))}
    assert set(rebalanced(two, there_are(8000)).changes) == {"b"}


def test_a_container_without_its_loan_gets_it():
    assert rebalanced({"a": Loan(cpus(2000, GIB))}, there_are(8000)).changes == {"a": cpus(2000, GIB)}


@pytest.mark.parametrize(
    ("story", "in_use", "limit"),
    [
        ("far below the new limit", 100 * MIB, 1024 * MIB),
        ("above it: what is in use, and room", 1500 * MIB, 1564 * MIB),
        ("near the loan: nothing to take", 2000 * MIB, None),
        ("use not known: left alone", None, None),
    ],
)
def test_a_lowered_memory_limit_never_kills(story, in_use, limit):
    loan = Loan(Knobs(memory_limit=2 * GIB), Knobs(memory_limit=2 * GIB), in_use)
    found = rebalanced({"a": loan}, there_are(8000, GIB)).changes
    assert found == ({} if limit is None else {"a": Knobs(memory_limit=limit)})


def test_in_the_grace_loans_keep_the_running_pods_part():
    offer = Capacity(0, 0, Binding.SCHEDULE, borne_milli=8000, borne_bytes=64 * GIB)
    found = rebalanced(
        {"a": Loan(Knobs(memory_limit=4 * GIB), Knobs(memory_limit=4 * GIB), 0)},
        offer,
        there_are(8000, 64 * GIB),
    )
    assert found.changes == {}
    assert "new pods are offered nothing" in found.because


LOWERED = 1564 * MIB
"""Bytes; the limit of a lowered loan of 4 GiB, whose dead band is 410 MiB."""


@pytest.mark.parametrize(
    ("story", "in_use", "raised"),
    [
        ("as much room as when it was set", 1500 * MIB, None),
        ("half of the room is left", 1532 * MIB, None),
        ("less than half of it", 1533 * MIB, 1597 * MIB),
        ("use has outgrown it", 2000 * MIB, 2064 * MIB),
        ("use near the loan", 4090 * MIB, 4096 * MIB),
        ("use not known", None, None),
    ],
)
@pytest.mark.parametrize(
    "capacity",
    [there_are(8000, GIB), there_are(0, 0, Binding.STALE), there_are(0, 0, Binding.PAUSED)],
    ids=["less than is lent", "not known", "paused"],
)
def test_use_near_a_lowered_limit_raises_it(story, in_use, raised, capacity):
    loan = Loan(Knobs(memory_limit=4 * GIB), Knobs(memory_limit=LOWERED), in_use)
    found = rebalanced({"a": loan}, capacity, there_are(8000, GIB)).changes
    assert found == ({} if raised is None else {"a": Knobs(memory_limit=raised)})


def test_a_lowered_limit_is_raised_before_any_capacity_has_lasted():
    loan = Loan(Knobs(memory_limit=4 * GIB), Knobs(memory_limit=LOWERED), LOWERED)
    found = rebalance(Settled(), {"a": loan}, there_are(8000, GIB), 0.0, TUNING)
    assert found.changes == {"a": Knobs(memory_limit=LOWERED + 64 * MIB)}
    assert found.inputs["memory_room_bytes"] == 64 * MIB


def test_a_limit_near_use_becomes_the_whole_loan_if_available():
    loan = Loan(Knobs(memory_limit=4 * GIB), Knobs(memory_limit=LOWERED), LOWERED)
    assert rebalanced({"a": loan}, there_are(8000)).changes == {"a": Knobs(memory_limit=4 * GIB)}


def test_use_above_the_loan_itself_is_not_lent_more():
    loan = Loan(Knobs(memory_limit=GIB), Knobs(memory_limit=GIB // 2), 5 * GIB)
    assert rebalanced({"a": loan}, there_are(0, 0)).changes == {"a": Knobs(memory_limit=GIB)}


def test_a_loan_of_no_memory_at_all_stays_one():
    loan = Loan(Knobs(memory_limit=0), Knobs(), 0)
    assert rebalanced({"a": loan}, there_are(0, 0)).changes == {"a": Knobs(memory_limit=0)}
