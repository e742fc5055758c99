"""core/knobs.py: the capability says which knobs this kernel and this runtime accept."""

import pytest

from nri_coloc.core import knobs
from nri_coloc.core.knobs import NOTHING_KNOWN, Capability, Knobs

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
        (Capability(), 100, 500, True),
        (Capability(oom_least=200), 100, 500, False),
        (Capability(oom_least=200), 100, 100, True),
        (Capability(oom_least=-1000), -998, 500, True),
        (Capability(oom_at_create=False, oom_least=-1000), 1000, 0, False),
        (Capability(), None, 0, False),
    ],
    ids=[
        "raised",
        "kept",
        "zero",
        "below-zero",
        "lowered",
        "below-its-own",
        "as-the-kubelet-has-it",
        "privileged",
        "old-runtime",
        "not-asked",
    ],
)
def test_a_score_travels_only_where_it_cannot_fail_the_creation(can, wanted, former, may):
    assert can.oom_by_answer(wanted, former) is may


ALL = frozenset({"memory.high", "memory.low", "memory.min", "io.weight", "cpu.max.burst"})
MEMORY = Knobs(memory_high=1, memory_low=2, memory_min=3)


@pytest.mark.parametrize(
    ("can", "lacking"),
    [
        (
            Capability(2, ALL, resctrl=True, seen_below=frozenset({"kubepods"})),
            Knobs(),
        ),
        (
            Capability(1, seen_below=frozenset({"kubepods"})),
            MEMORY._replace(rdt_class="gold", io_weight=5, burst=6),
        ),
        (
            Capability(2, FILES, resctrl=True, seen_below=frozenset({"kubepods"})),
            MEMORY._replace(memory_high=None, io_weight=5, burst=6),
        ),
        (Capability(1), Knobs(rdt_class="gold")),
    ],
    ids=["everything", "nothing", "a part", "guessed"],
)
def test_missing_files_count_once_seen_on_pods(can, lacking):
    wanted = MEMORY._replace(cpus="0", io_weight=5, burst=6, rdt_class="gold")
    assert knobs.lacking(wanted, can) == lacking
