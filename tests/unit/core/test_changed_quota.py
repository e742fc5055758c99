"""core/changed_quota.py: a changed quota knows the record of its end."""

import pytest

from nri_coloc.core.changed_quota import ChangedQuota, left_behind
from nri_coloc.core.reasons import AuditEvent, Reason

RAISED = ChangedQuota(
    quota=150,
    own=100,
    event=AuditEvent.UPDATE,
    reason=Reason.QUOTA_BURST,
    because="raised",
    inputs={"node": "idle"},
)
LOWERED = ChangedQuota(
    quota=50,
    own=100,
    event=AuditEvent.PRESSURE_DEGRADE,
    reason=Reason.CPU_STALL,
    because="lowered",
    inputs={"pool": "share"},
)


@pytest.mark.parametrize(
    ("one", "event", "reason", "inputs"),
    [
        (RAISED, AuditEvent.UPDATE, Reason.QUOTA_BURST, {"node": "idle", "own_quota": 100}),
        (LOWERED, AuditEvent.PRESSURE_RECOVER, Reason.RECONFIGURED, {"pool": "share", "own_quota": 100}),
    ],
    ids=["raised", "lowered"],
)
def test_an_end_keeps_the_figures(one, event, reason, inputs):
    end = one.ended("the daemon ends")
    assert (end.quota, end.own, end.event, end.reason, end.inputs) == (None, 100, event, reason, inputs)
    assert end.because == "quota restored: the daemon ends (own_quota=100)"
    assert end.is_raise is one.is_raise
    assert end.ended("again") is end


@pytest.mark.parametrize(
    ("own", "present", "is_raise"),
    [(100, 150, True), (100, 100, True), (100, -1, True), (100, 99, False), (0, 50, False), (0, -1, True)],
)
def test_a_left_quota_below_the_own_one_was_lowered(own, present, is_raise):
    left = left_behind(own, present)
    assert (left.quota, left.own, left.is_raise) == (None, own, is_raise)
