"""host/knob_files.py: each value has its file and its form on each kernel."""

import pytest

from nri_coloc.core.knobs import ATTRIBUTES, NO_KNOBS, Capability, Knobs
from nri_coloc.host import knob_files
from nri_coloc.host.knob_files import FileValue

V1 = Capability(1, frozenset({"blkio.bfq.weight", "blkio.weight", "cpu.cfs_burst_us"}))
V2 = Capability(
    2,
    frozenset({"memory.high", "memory.low", "memory.min", "io.weight", "io.bfq.weight", "cpu.max.burst"}),
)
PAGE = 4096
ALL = Knobs(
    cpus="0-1",
    mems="0",
    shares=1024,
    memory_limit=4 * PAGE + 5,
    memory_high=3 * PAGE + 5,
    memory_low=2 * PAGE + 5,
    memory_min=PAGE + 5,
    io_weight=5050,
)


NO_NUMBERS = {
    "word": "garbage",
    "digits without end": "9" * 5000,
    "longer than 64 bits": "9" * 21,
    "underscore": "1_0",
    "plus": "+1",
    "two signs": "--1",
    "another script": "\N{ARABIC-INDIC DIGIT ONE}",
    "superscript": "\N{SUPERSCRIPT TWO}",
    "no text": "\N{REPLACEMENT CHARACTER}",
    "empty": "",
    "blank": " ",
}

NUMBERS = ("cpu.shares", "cpu.weight", "cpu.cfs_quota_us", "cpu.cfs_burst_us", "memory.max", "io.weight")


def shown(values: tuple[FileValue, ...]) -> dict[str, str]:
    return {f"{v.controller}/{v.name}": v.text for v in values}


class TestEveryValue:
    def test_on_v1(self):
        assert shown(knob_files.all_but_cpuset(ALL, V1)) == {
            "cpuset/cpuset.mems": "0",
            "cpu/cpu.shares": "1024",
            "memory/memory.limit_in_bytes": str(4 * PAGE),
            "blkio/blkio.bfq.weight": "550",
            "blkio/blkio.weight": "550",
        }

    def test_on_v2(self):
        assert shown(knob_files.all_but_cpuset(ALL, V2)) == {
            "cpuset/cpuset.mems": "0",
            "cpu/cpu.weight": "39",
            "memory/memory.max": str(4 * PAGE),
            "memory/memory.high": str(3 * PAGE),
            "memory/memory.low": str(2 * PAGE),
            "memory/memory.min": str(PAGE),
            "blkio/io.weight": "default 5050",
            "blkio/io.bfq.weight": "550",
        }

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_file_that_the_kernel_does_not_have_is_left_out(self, version):
        names = shown(knob_files.all_but_cpuset(ALL, Capability(version))).keys()
        assert len(names) == 3  # mems, the weight and the limit are in every kernel

    @pytest.mark.parametrize("can", [V1, V2], ids=["v1", "v2"])
    def test_what_was_not_ordered_is_not_written(self, can):
        assert knob_files.all_but_cpuset(NO_KNOBS, can) == ()

    def test_no_protection_is_written_as_a_value_too(self):
        assert shown(knob_files.all_but_cpuset(Knobs(memory_low=0), V2)) == {"memory/memory.low": "0"}

    def test_memory_is_written_in_whole_pages_as_the_kernel_shows_it(self):
        assert shown(knob_files.all_but_cpuset(Knobs(memory_high=3 * PAGE - 1), V2)) == {
            "memory/memory.high": str(2 * PAGE)
        }

    @pytest.mark.parametrize("can", [V1, V2], ids=["v1", "v2"])
    def test_the_end_of_a_limit_is_left_to_the_runtime(self, can):
        assert knob_files.all_but_cpuset(Knobs(memory_limit=-1), can) == ()

    def test_the_cpuset_is_not_here(self):
        assert knob_files.all_but_cpuset(Knobs(cpus="0-1"), V2) == ()


class TestBeyondPushes:
    """An answered container needs files only for values that no push carries, or that the runtime does not keep."""

    def test_on_v1_nodes_and_weights(self):
        assert shown(knob_files.beyond_pushes(ALL, V1)) == {
            "cpuset/cpuset.mems": "0",
            "blkio/blkio.bfq.weight": "550",
            "blkio/blkio.weight": "550",
        }

    def test_on_v2_what_the_spec_carried_since_creation_too(self):
        assert shown(knob_files.beyond_pushes(ALL, V2)) == {
            "cpuset/cpuset.mems": "0",
            "memory/memory.high": "12288",
            "memory/memory.low": "8192",
            "memory/memory.min": "4096",
            "blkio/io.weight": "default 5050",
            "blkio/io.bfq.weight": "550",
        }

    @pytest.mark.parametrize("can", [V1, V2])
    def test_without_orders_there_is_nothing(self, can):
        assert knob_files.beyond_pushes(NO_KNOBS, can) == ()


class TestReadingBack:
    @pytest.mark.parametrize("can", [V1, V2], ids=["v1", "v2"])
    def test_what_a_file_shows_is_told_by_its_knob(self, can):
        for value in knob_files.all_but_cpuset(ALL, can):
            knobs = knob_files.shown(value.name, value.text)
            assert knob_files.all_but_cpuset(knobs, can)[0].controller == value.controller
            assert (value.name, value.text) in [
                (v.name, v.text) for v in knob_files.all_but_cpuset(knobs, can)
            ]

    @pytest.mark.parametrize(
        ("name", "text", "knobs"),
        [
            ("cpu.max", "50000 100000", Knobs(quota=50_000)),
            ("cpu.cfs_quota_us", "50000", Knobs(quota=50_000)),
            ("cpu.max.burst", "7", Knobs(burst=7)),
            ("cpu.cfs_burst_us", "7", Knobs(burst=7)),
            ("io.weight", "default 300\n8:0 50", Knobs(io_weight=300)),
            ("cpuset.mems", "0-1", Knobs(mems="0-1")),
        ],
    )
    def test_what_only_others_write_is_told_too(self, name, text, knobs):
        assert knob_files.shown(name, text) == knobs

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("memory.high", "max"),
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("cpu.max", "max 100000"),
            ("cpu.cfs_quota_us", "-1"),
            ("cpuset.mems", ""),
            ("io.weight", ""),
            ("pids.max", "5"),
        ],
    )
    def test_no_limit_and_what_is_not_ours_is_nothing(self, name, text):
        assert knob_files.shown(name, text) == NO_KNOBS


class TestWhatATextSays:
    @pytest.mark.parametrize(
        ("text", "found"),
        [("100", 100), (" 7\n", 7), ("-1", -1), ("0", 0), ("9" * 20, int("9" * 20))],
        ids=["number", "blanks", "negative", "zero", "64 bits"],
    )
    def test_a_number_is_read(self, text, found):
        assert knob_files.number(text) == found

    @pytest.mark.parametrize("text", NO_NUMBERS.values(), ids=NO_NUMBERS)
    def test_what_is_no_number_is_none_and_no_exception(self, text):
        assert knob_files.number(text) is None

    def test_of_a_list_the_numbers_are_read(self):
        assert [*knob_files.numbers(f"7\n0\nx\n{'9' * 5000}\n12")] == [7, 0, 12]

    @pytest.mark.parametrize("text", NO_NUMBERS.values(), ids=NO_NUMBERS)
    @pytest.mark.parametrize("name", NUMBERS)
    def test_what_is_no_number_is_no_knob(self, name, text):
        assert knob_files.shown(name, text) == NO_KNOBS

    @pytest.mark.parametrize("text", [text for text in NO_NUMBERS.values() if text.strip()])
    @pytest.mark.parametrize("name", [*NUMBERS, "cpu.max"])
    def test_files_of_numbers_refuse_other_text(self, name, text):
        assert not knob_files.makes_sense(name, text)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("cpu.max", "max 100000"),
            ("cpu.max", "50000 100000"),
            ("memory.high", "max"),
            ("memory.low", "0"),
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("cpu.cfs_quota_us", "-1"),
            ("io.weight", "default 100\n8:0 50"),
            ("io.bfq.weight", "100"),
            ("cpuset.mems", "0-1"),
            ("cpuset.mems", ""),
            ("cpu.weight", ""),
            ("io.max", "8:0 rbps=1"),
        ],
    )
    def test_what_a_kernel_shows_makes_sense(self, name, text):
        assert knob_files.makes_sense(name, text)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("cpu.weight", "max"),
            ("cpu.cfs_quota_us", "max"),
            ("cpu.max", "100000"),
            ("cpu.max", "max max"),
            ("cpu.weight", "1 2"),
            ("io.weight", "default "),
            ("cpuset.mems", "max"),
        ],
    )
    def test_what_no_kernel_shows_there_makes_none(self, name, text):
        assert not knob_files.makes_sense(name, text)


def test_no_kernel_is_asked_for_a_file_of_the_other_version():
    every = Capability(2, V1.files | V2.files)
    assert not {v.name for v in knob_files.all_but_cpuset(ALL, every)} & V1.files


def test_every_knob_that_a_file_can_carry_is_tried_here():
    elsewhere = {"quota", "period", "burst", "oom_score_adj", "io_max", "blockio_class", "rdt_class"}
    assert {name for name in ATTRIBUTES if getattr(ALL, name) is None} == elsewhere
