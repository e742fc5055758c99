"""One replica leads at a time, and the next one follows it without a common clock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.kubernetes import lease
from nri_coloc.kubernetes.lease import DURATION_S, RENEW_WITHIN_S, RETRY_S, Seen

THEIRS = Seen("7", "b", DURATION_S, 3, since_s=100.0)


def stored(version: str = "7", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "spec": spec}


def test_a_missing_lease_may_be_taken():
    assert lease.may_take(lease.seen(None, {}, 5.0), "a", 5.0)


def test_an_own_lease_may_be_renewed():
    assert lease.may_take(THEIRS, "b", 100.0)


def test_a_released_lease_may_be_taken():
    assert lease.may_take(lease.seen(None, stored(holderIdentity=""), 5.0), "a", 5.0)


@pytest.mark.parametrize(("age_s", "expected"), [(0, False), (DURATION_S, False), (DURATION_S + 0.1, True)])
def test_a_held_lease_is_free_after_its_duration(age_s, expected):
    assert lease.may_take(THEIRS, "a", 100.0 + age_s) is expected


def test_an_unchanged_lease_grows_old():
    assert lease.seen(THEIRS, stored("7"), 110.0) is THEIRS


def test_a_renewed_lease_is_young():
    found = lease.seen(
        THEIRS, stored("8", holderIdentity="b", leaseDurationSeconds=15, leaseTransitions=3), 110.0
    )
    assert found == Seen("8", "b", 15, 3, 110.0)


def test_a_new_holder_counts():
    assert lease.spec(THEIRS, "a", "2026-11-26T10:00:00.000000Z") == {
        "holderIdentity": "a",
        "leaseDurationSeconds": DURATION_S,
        "renewTime": "2026-11-26T10:00:00.000000Z",
        "acquireTime": "2026-11-26T10:00:00.000000Z",
        "leaseTransitions": 4,
    }


def test_a_renewal_keeps_the_time_of_its_beginning():
    assert "acquireTime" not in lease.spec(THEIRS, "b", "")
    assert lease.spec(THEIRS, "b", "")["leaseTransitions"] == 3


def test_a_replica_without_the_lease_never_leads():
    assert not lease.leads(None, 0.0)


@given(st.floats(0, 100), st.floats(0, 100))
def test_a_leader_stops_before_another_begins(renewed_s, passed_s):
    now_s = renewed_s + passed_s
    theirs = Seen("7", "b", DURATION_S, 0, since_s=renewed_s)
    assert not (lease.leads(renewed_s, now_s) and lease.may_take(theirs, "a", now_s))


def test_a_leader_has_several_tries():
    assert RENEW_WITHIN_S / RETRY_S >= 5
