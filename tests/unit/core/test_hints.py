"""The tasks of each class get the scheduling hint of that class."""

import pytest

from nri_coloc.core.scheduler_hints import Hint, Policy, SchedulerCapability, hint
from nri_coloc.core.settings import HintTuning
from nri_coloc.core.workload import QoSClass

SLICES, NO_SLICES = SchedulerCapability(slices=True), SchedulerCapability(returns=True)
NO_WAY_BACK = SchedulerCapability(slices=True)
SHORT, IDLE, BATCH = Hint(Policy.OTHER, 100), Hint(Policy.IDLE), Hint(Policy.BATCH)


@pytest.mark.parametrize(
    ("story", "qos", "tuning", "can", "told"),
    [
        ("online pods of a pool get short slices", QoSClass.SHARED, HintTuning(), SLICES, SHORT),
        ("not where the kernel ignores them", QoSClass.SHARED, HintTuning(), NO_SLICES, None),
        ("not where switched off", QoSClass.SHARED, HintTuning(online_slice_us=0), SLICES, None),
        ("never shorter than the kernel's least", QoSClass.SHARED, HintTuning(online_slice_us=1), SLICES, SHORT),
        (
            "never longer than its most", QoSClass.SHARED, HintTuning(online_slice_us=10**6), SLICES,
            Hint(Policy.OTHER, 100_000),
        ),
        ("offline pods do not count when a place is chosen", QoSClass.RECLAIMED, HintTuning(), NO_SLICES, IDLE),
        ("batch instead of idle if that cannot be reverted", QoSClass.RECLAIMED, HintTuning(), NO_WAY_BACK, BATCH),
        ("or batch work", QoSClass.RECLAIMED, HintTuning(offline_policy="SCHED_BATCH"), NO_SLICES, BATCH),
        ("not where switched off", QoSClass.RECLAIMED, HintTuning(offline_policy=""), SLICES, None),
        ("CPUs of one's own need no hint", QoSClass.DEDICATED, HintTuning(), SLICES, None),
        ("daemons stay as they are", QoSClass.SYSTEM, HintTuning(), SLICES, None),
    ],
)  # fmt: skip
def test_a_hint_by_class(story, qos, tuning, can, told):
    assert hint(qos, tuning, can) == told


def test_policies_are_named_as_the_kernel_does():
    assert [policy.value for policy in Policy] == ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"]
