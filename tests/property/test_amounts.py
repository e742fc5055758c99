"""Invariants of every set of loans and every capacity."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.knobs import PAGE, Knobs
from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.pod_facts import Lent
from nri_coloc.core.settings import AmountTuning
from nri_coloc.tuning.lent_amounts import Course, Loan, Settled, amounts, rebalance

MAYBE_MEMORY = st.none() | st.integers(1, 1 << 36)
LENT = st.builds(
    lambda shares, quota, memory: Knobs(shares=shares, quota=quota, period=100_000, memory_limit=memory),
    st.none() | st.integers(2, 262_144),
    st.none() | st.integers(1000, 6_400_000),
    MAYBE_MEMORY,
)
CONFIRMED = st.builds(
    Lent, st.just(2**63 - 1) | st.integers(0, 400_000), st.just(2**63 - 1) | st.integers(0, 1 << 36)
)
LOANS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(
        Loan,
        LENT,
        LENT,
        st.none() | st.integers(0, 1 << 36),
        st.integers(-1, 1),
        st.sampled_from("pq"),
        st.none() | CONFIRMED,
    ),
)
CAPACITIES = st.builds(Capacity, st.integers(0, 400_000), st.integers(0, 1 << 38), st.just(Binding.FORECAST))
TUNING = AmountTuning()


def milli(knobs: Knobs) -> float:
    return (knobs.shares or 0) * 1000 / 1024


def settled_on(capacity):
    return Settled(Course(capacity.cpu_milli), Course(capacity.memory_bytes))


@given(LOANS, CAPACITIES)
def test_no_container_exceeds_its_loan(loans, capacity):
    for key, knobs in amounts(loans, capacity.cpu_milli, capacity.memory_bytes).items():
        for value, whole in zip(knobs, loans[key].lent, strict=True):
            assert (value is None) == (whole is None)
            assert not isinstance(value, int) or not isinstance(whole, int) or 0 <= value <= whole


@given(LOANS, CAPACITIES)
def test_together_they_exceed_capacity_by_kernel_minimums_only(loans, capacity):
    found = amounts(loans, capacity.cpu_milli, capacity.memory_bytes)
    assert sum(milli(knobs) for knobs in found.values()) <= capacity.cpu_milli + 12 * len(loans)
    assert sum(knobs.memory_limit or 0 for knobs in found.values()) <= capacity.memory_bytes


@given(LOANS, CAPACITIES, st.sampled_from("pqr"))
def test_no_loan_takes_another_pods_equal_part(loans, capacity, pod_id):
    mine = {key for key, loan in loans.items() if loan.pod_id == pod_id}
    claims = {
        key: min(loan.lent.memory_limit or 0, loan.confirmed.memory_bytes if loan.confirmed else 1 << 63)
        for key, loan in loans.items()
    }
    pods = {loan.pod_id for key, loan in loans.items() if claims[key]}
    found = amounts(loans, capacity.cpu_milli, capacity.memory_bytes)
    owed = sum(claims[key] for key in mine)
    had = sum(found[key].memory_limit or 0 for key in mine)
    assert had + PAGE * len(mine) >= min(owed, capacity.memory_bytes // max(1, len(pods)))


@given(LOANS, CAPACITIES, st.dictionaries(st.sampled_from("abcdef"), CONFIRMED))
def test_no_fact_lowers_another_pods_amount(loans, capacity, facts):
    told = {loans[key].pod_id for key in facts if key in loans}
    before = {key: loan._replace(confirmed=None) for key, loan in loans.items()}
    after = {key: loan._replace(confirmed=facts.get(key)) for key, loan in loans.items()}
    had = amounts(before, capacity.cpu_milli, capacity.memory_bytes)
    has = amounts(after, capacity.cpu_milli, capacity.memory_bytes)
    for pod_id in {"p", "q"} - told:
        mine = [key for key, loan in loans.items() if loan.pod_id == pod_id]
        assert sum(milli(has[key]) - milli(had[key]) for key in mine) >= -3 * len(loans)
        lowered = sum((had[key].memory_limit or 0) - (has[key].memory_limit or 0) for key in mine)
        assert lowered <= 2 * PAGE * len(loans)


@given(LOANS, CAPACITIES)
def test_where_all_loans_are_borne_everybody_has_its_own(loans, capacity):
    if sum(milli(each.lent) + 1 for each in loans.values()) <= capacity.cpu_milli:
        found = amounts(loans, capacity.cpu_milli, 1 << 50)
        assert found == {key: each.lent for key, each in loans.items()}


@given(LOANS, CAPACITIES)
def test_once_changed_there_is_nothing_left_to_change(loans, capacity):
    settled = settled_on(capacity)
    changes = rebalance(settled, loans, capacity, 0.0, TUNING).changes
    after = {
        key: each._replace(present=each.present.overlaid(changes.get(key, Knobs())))
        for key, each in loans.items()
    }
    assert rebalance(settled, after, capacity, 0.0, TUNING).changes == {}


@given(LOANS, CAPACITIES)
def test_a_memory_limit_is_between_use_and_loan(loans, capacity):
    for key, knobs in rebalance(settled_on(capacity), loans, capacity, 0.0, TUNING).changes.items():
        loan = loans[key]
        if knobs.memory_limit is not None:
            whole = loan.lent.memory_limit
            assert whole is not None
            assert knobs.memory_limit <= whole
            assert knobs.memory_limit == whole or loan.in_use is not None
            assert knobs.memory_limit >= min(whole, loan.in_use or 0)


@given(LOANS, CAPACITIES, st.sampled_from([Binding.FORECAST, Binding.STALE]))
def test_a_lowered_limit_keeps_half_of_its_room(loans, capacity, binding):
    changes = rebalance(settled_on(capacity), loans, capacity._replace(binding=binding), 0.0, TUNING).changes
    for key, loan in loans.items():
        whole, limit = loan.lent.memory_limit, loan.present.overlaid(changes.get(key, Knobs())).memory_limit
        if whole is not None and limit is not None and loan.in_use is not None:
            assert limit >= min(whole, loan.in_use + TUNING.memory_room // 2)
