"""knobs/capability.py: what this kernel and this runtime can take."""

import pytest

from nri_coloc.knobs.capability import NOTHING_KNOWN, Capability

FILES = frozenset({"memory.high"})


def test_before_anything_is_probed_nothing_is_assumed():
    assert not NOTHING_KNOWN.unified("memory.high")
    assert not NOTHING_KNOWN.resctrl


@pytest.mark.parametrize(
    ("can", "may"),
    [
        (Capability(2, FILES), True),
        (Capability(1, FILES), False),
        (Capability(2), False),
    ],
    ids=["v2", "v1", "no-such-file"],
)
def test_unified_is_for_v2_and_for_files_that_exist(can, may):
    assert can.unified("memory.high") is may


@pytest.mark.parametrize(
    ("can", "wanted", "former", "may"),
    [
        (Capability(), 1000, 0, True),
        (Capability(), 500, 500, True),
        (Capability(), 0, None, True),
        (Capability(), -1, None, False),
        (Capability(), 100, 500, False),
        (Capability(oom_may_fall=True), -998, 500, True),
        (Capability(oom_at_create=False, oom_may_fall=True), 1000, 0, False),
        (Capability(), None, 0, False),
    ],
    ids=["raised", "kept", "zero", "below-zero", "lowered", "privileged", "old-runtime", "not-asked"],
)
def test_a_score_travels_only_where_it_cannot_fail_the_creation(can, wanted, former, may):
    assert can.oom_by_answer(wanted, former) is may
