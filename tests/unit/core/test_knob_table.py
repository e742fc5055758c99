"""core/knobs.py: one row for each knob."""

import pytest

from nri_coloc.core import knobs
from nri_coloc.core.knobs import NO_LIMIT, ROWS, TABLE, Capability, Carrier, Knobs
from nri_coloc.sim import cgroup_files

CPUSET = "cpuset.cpus cpuset.mems"
BLKIO = "blkio.bfq.weight blkio.weight"
MEMORY_V2 = "memory.high memory.low memory.min"
EVERY = Knobs(
    cpus="0",
    mems="0",
    shares=2,
    quota=-1,
    period=100_000,
    burst=0,
    memory_limit=1 << 30,
    memory_high=1 << 30,
    memory_low=1 << 20,
    memory_min=1 << 20,
    oom_score_adj=5,
    io_weight=100,
    blockio_class="a",
    rdt_class="b",
)
V1 = Capability(1, frozenset(BLKIO.split()))
V2 = Capability(2, frozenset({*MEMORY_V2.split(), "io.weight"}))


def test_each_knob_has_one_row_in_order():
    assert tuple(knob.field for knob in TABLE) == Knobs._fields


@pytest.mark.parametrize("knob", TABLE, ids=[knob.field for knob in TABLE])
def test_only_knobs_of_a_creation_lack_files(knob):
    assert (knob.carrier is Carrier.CREATION) == (not knob.files)


@pytest.mark.parametrize("file", knobs.files(cgroup=2), ids=lambda file: file.name)
def test_fresh_texts_are_those_of_a_new_cgroup(file):
    assert file.fresh in ("", cgroup_files.V2[file.name].replace("default 100", file.fresh))


@pytest.mark.parametrize(
    ("can", "names"),
    [
        (V1, f"{CPUSET} cpu.shares cpu.cfs_quota_us cpu.cfs_period_us memory.limit_in_bytes {BLKIO}"),
        (V2, f"{CPUSET} cpu.weight cpu.max cpu.max memory.max {MEMORY_V2} io.weight"),
    ],
    ids=["v1", "v2"],
)
def test_values_go_into_files_that_exist(can, names):
    found = [file.name for knob in TABLE for file, _ in knobs.written(EVERY, can, knob.field)]
    assert found == names.split()


@pytest.mark.parametrize("can", [V1, V2], ids=["v1", "v2"])
def test_a_missing_limit_is_left_to_the_runtime(can):
    assert [*knobs.written(Knobs(memory_limit=NO_LIMIT), can, "memory_limit")] == []


def test_another_runtimes_weight_is_known():
    (weight,) = (file for file in ROWS["shares"].files if file.cgroup == 2)
    assert weight.image is not None
    assert (weight.text(512), weight.image(512)) == ("20", "59")
