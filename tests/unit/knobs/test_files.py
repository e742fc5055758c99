"""knobs/files.py: which file takes a value, in which form, on which kernel."""

import pytest

from nri_coloc.knobs import files
from nri_coloc.knobs.capability import Capability
from nri_coloc.knobs.files import FileValue
from nri_coloc.model.knobs import ATTRIBUTES, NO_KNOBS, Knobs

V1 = Capability(1, frozenset({"blkio.bfq.weight", "blkio.weight", "cpu.cfs_burst_us"}))
V2 = Capability(
    2,
    frozenset({"memory.high", "memory.low", "memory.min", "io.weight", "io.bfq.weight", "cpu.max.burst"}),
)
ALL = Knobs(
    cpus="0-1",
    mems="0",
    shares=1024,
    memory_limit=400,
    memory_high=300,
    memory_low=200,
    memory_min=100,
    io_weight=5050,
)


def shown(values: tuple[FileValue, ...]) -> dict[str, str]:
    return {f"{v.controller}/{v.name}": v.text for v in values}


class TestEveryValue:
    def test_on_v1(self):
        assert shown(files.all_but_cpuset(ALL, V1)) == {
            "cpuset/cpuset.mems": "0",
            "cpu/cpu.shares": "1024",
            "memory/memory.limit_in_bytes": "400",
            "blkio/blkio.bfq.weight": "550",
            "blkio/blkio.weight": "550",
        }

    def test_on_v2(self):
        assert shown(files.all_but_cpuset(ALL, V2)) == {
            "cpuset/cpuset.mems": "0",
            "cpu/cpu.weight": "39",
            "memory/memory.max": "400",
            "memory/memory.high": "300",
            "memory/memory.low": "200",
            "memory/memory.min": "100",
            "blkio/io.weight": "default 5050",
            "blkio/io.bfq.weight": "550",
        }

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_file_that_the_kernel_does_not_have_is_left_out(self, version):
        names = shown(files.all_but_cpuset(ALL, Capability(version))).keys()
        assert len(names) == 3  # mems, the weight and the limit are in every kernel

    @pytest.mark.parametrize("can", [V1, V2], ids=["v1", "v2"])
    def test_what_was_not_ordered_is_not_written(self, can):
        assert files.all_but_cpuset(NO_KNOBS, can) == ()

    def test_no_protection_is_written_as_a_value_too(self):
        assert shown(files.all_but_cpuset(Knobs(memory_low=0), V2)) == {"memory/memory.low": "0"}

    def test_the_cpuset_is_not_here(self):
        assert files.all_but_cpuset(Knobs(cpus="0-1"), V2) == ()


class TestBeyondNRI:
    """What NRI cannot carry, or the runtime not keep, is all that an answered container needs as files."""

    def test_on_v1_weights(self):
        assert shown(files.beyond_nri(ALL, V1)) == {
            "blkio/blkio.bfq.weight": "550",
            "blkio/blkio.weight": "550",
        }

    def test_on_v2_weights_too_since_systemd_resets_what_the_spec_carried(self):
        assert shown(files.beyond_nri(ALL, V2)) == {
            "blkio/io.weight": "default 5050",
            "blkio/io.bfq.weight": "550",
        }

    @pytest.mark.parametrize("can", [V1, V2])
    def test_without_orders_there_is_nothing(self, can):
        assert files.beyond_nri(NO_KNOBS, can) == ()


def test_no_kernel_is_asked_for_a_file_of_the_other_version():
    every = Capability(2, V1.files | V2.files)
    assert not {v.name for v in files.all_but_cpuset(ALL, every)} & V1.files


def test_every_knob_that_a_file_can_carry_is_tried_here():
    elsewhere = {"quota", "period", "burst", "oom_score_adj", "blockio_class", "rdt_class"}
    assert {name for name in ATTRIBUTES if getattr(ALL, name) is None} == elsewhere
