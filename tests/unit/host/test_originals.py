"""A container's original values are read from journalled files or its record, and restored."""

import pytest

from nri_coloc.core.knobs import ATTRIBUTES, NO_KNOBS, UNLIMITED_BYTES, Knobs, Original
from nri_coloc.host import originals

POD = Knobs(cpus="0-7", mems="0-1")
OURS = Knobs(cpus="2-3", mems="1", shares=512, quota=50_000, period=50_000, memory_limit=1 << 26)
ALL = frozenset(ATTRIBUTES)


def texts(found) -> dict[str, str]:
    return {value.name: value.text for value in found}


class TestOfFiles:
    def test_v1s_files(self):
        found = originals.of_files(
            {
                "cpuset.cpus": "0-7\n",
                "cpuset.mems": "",
                "cpu.shares": "2",
                "cpu.cfs_quota_us": "-1",
                "cpu.cfs_period_us": "100000",
                "memory.limit_in_bytes": "9223372036854771712",
                "blkio.bfq.weight": "100",
            }
        )
        names = {"cpus", "mems", "shares", "quota", "period", "memory_limit"}
        assert found == Original(
            frozenset(names), Knobs(cpus="0-7", shares=2, quota=-1, period=100_000, memory_limit=None)
        )

    def test_v2s_files(self):
        found = originals.of_files({"cpu.weight": "1", "cpu.max": "max 100000", "memory.max": "4096"})
        assert found.values == Knobs(shares=2, quota=None, period=100_000, memory_limit=4096)
        assert found.ours == {"shares", "quota", "period", "memory_limit"}

    @pytest.mark.parametrize("text", ["", "x", "²", "9" * 30, "--1"])
    @pytest.mark.parametrize("name", ["cpu.weight", "cpu.shares", "memory.max"])
    def test_what_is_no_number_is_nothing(self, name, text):
        assert originals.of_files({name: text}).values == NO_KNOBS

    @pytest.mark.parametrize(("limit", "kept"), [(UNLIMITED_BYTES - 1, True), (UNLIMITED_BYTES, False)])
    def test_half_of_the_largest_limit_is_none(self, limit, kept):
        found = originals.of_files({"memory.limit_in_bytes": str(limit)})
        assert found.values.memory_limit == (limit if kept else None)

    def test_every_file_that_a_spec_speaks_of_is_read(self):
        assert all(originals.of_files({name: "-1"}).ours for name in originals.SPEC_FILES)

    @pytest.mark.parametrize(
        "files",
        [{"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"}, {"cpu.max": "50000 100000"}],
        ids=["v1", "v2"],
    )
    def test_a_quota_that_was_the_kubelets_is_left_to_the_spec(self, files):
        found = originals.of_files({**files, "cpuset.cpus": "0-7"})
        assert found == Original(frozenset({"cpus"}), Knobs(cpus="0-7"))


def test_later_values_of_ours_complete_and_never_replace():
    first = Original(frozenset({"shares", "quota"}), Knobs(shares=2))
    later = Original(frozenset({"cpus", "quota"}), Knobs(cpus="0-7", quota=-1))
    assert first.completed(later) == Original(
        frozenset({"shares", "quota", "cpus"}), Knobs(cpus="0-7", shares=2)
    )


class TestAsUpdate:
    def test_the_former_values_are_told(self):
        was = Knobs(cpus="0-5", mems="0", shares=2, quota=20_000, period=100_000, memory_limit=4096)
        assert originals.as_update(Original(ALL, was), POD, OURS) == was

    def test_without_an_original_kernels_values_and_pods_cpus_count(self):
        told = originals.as_update(Original(ALL), POD, OURS)
        assert told == POD._replace(shares=1024, quota=-1, period=100_000, memory_limit=-1)

    def test_what_is_not_ours_is_left_alone(self):
        assert originals.as_update(Original(frozenset({"shares"})), POD, OURS) == Knobs(shares=1024)

    def test_what_the_spec_says_already_is_not_told_again(self):
        was = Knobs(shares=512)
        assert originals.as_update(Original(frozenset({"shares"}), was), POD, OURS) == NO_KNOBS

    def test_a_spec_gains_no_field_it_lacked(self):
        assert originals.as_update(Original(ALL, Knobs(quota=-1)), POD, NO_KNOBS) == NO_KNOBS

    def test_what_no_update_carries_is_not_in_it(self):
        was = Knobs(oom_score_adj=5, memory_high=7)
        assert originals.as_update(Original(ALL, was), POD, Knobs(oom_score_adj=9, memory_high=8)) == NO_KNOBS


class TestAsFiles:
    def test_on_v1_the_former_values(self):
        was = Knobs(cpus="0-5", mems="0", shares=2, quota=20_000, period=50_000, memory_limit=4096)
        assert texts(originals.as_files(Original(ALL, was), POD, 1)) == {
            "cpuset.cpus": "0-5",
            "cpuset.mems": "0",
            "cpu.shares": "2",
            "cpu.cfs_period_us": "50000",
            "cpu.cfs_quota_us": "20000",
            "memory.limit_in_bytes": "4096",
            "blkio.bfq.weight": "100",
            "blkio.weight": "500",
        }

    def test_on_v1_where_there_was_nothing(self):
        found = texts(originals.as_files(Original(ALL), POD, 1))
        assert (found["cpuset.cpus"], found["cpuset.mems"]) == ("0-7", "0-1")
        assert (found["cpu.shares"], found["cpu.cfs_quota_us"], found["cpu.cfs_period_us"]) == (
            "1024",
            "-1",
            "100000",
        )
        assert found["memory.limit_in_bytes"] == "-1"

    def test_without_its_pods_cpuset_none_is_written(self):
        assert "cpuset.cpus" not in texts(originals.as_files(Original(ALL), NO_KNOBS, 1))

    def test_on_v2_where_there_was_nothing(self):
        assert texts(originals.as_files(Original(ALL), POD, 2)) == {
            "cpuset.cpus": "",
            "cpuset.mems": "",
            "cpu.weight": "100",
            "cpu.max": "max 100000",
            "memory.max": "max",
            "memory.high": "max",
            "memory.low": "0",
            "memory.min": "0",
            "io.weight": "default 100",
            "io.bfq.weight": "100",
        }

    def test_on_v2_original_values_except_converted_weights(self):
        was = Knobs(cpus="0-5", shares=2, quota=20_000, memory_limit=4096)
        found = texts(originals.as_files(Original(frozenset({"cpus", "shares", "quota"}), was), POD, 2))
        assert found == {"cpuset.cpus": "0-5", "cpu.max": "20000 100000"}

    @pytest.mark.parametrize(("amount", "text"), [(None, "max"), (-1, "max"), (0, "max"), (1, "1")])
    def test_on_v2_only_amounts_above_zero_limit(self, amount, text):
        was = Knobs(quota=amount, memory_limit=amount)
        found = texts(originals.as_files(Original(frozenset({"quota", "memory_limit"}), was), POD, 2))
        assert found == {"cpu.max": f"{text} 100000", "memory.max": text}

    def test_what_is_not_ours_has_no_file(self):
        assert originals.as_files(Original(frozenset()), POD, 2) == ()


@pytest.mark.parametrize(
    ("shown", "wanted", "same"),
    [
        ("100", "100", True),
        ("default 100\n8:0 50", "100", True),
        ("default 100", "default 100", True),
        ("-1", "-1", True),
        ("9223372036854771712", "-1", True),
        (str(UNLIMITED_BYTES), "-1", True),
        (str((UNLIMITED_BYTES) - 1), "-1", False),
        ("4096", "-1", False),
        ("", "", True),
        ("0-7", "", False),
        ("9" * 5000, "-1", False),
        ("garbage", "-1", False),
    ],
)
def test_a_file_shows_a_value_or_not(shown, wanted, same):
    assert originals.holds(shown, wanted) is same


@pytest.mark.parametrize(
    ("name", "was", "text"),
    [
        ("io.weight", "default 100\n8:0 200\n8:16 50", "default 100"),
        ("io.bfq.weight", "8:0 200\ndefault 300", "default 300"),
        ("io.weight", "default 100", "default 100"),
        ("blkio.bfq.weight", "500", "500"),
        ("cpu.max", "max 100000", "max 100000"),
        ("cpuset.cpus", "", ""),
    ],
    ids=["devices after", "devices before", "no device", "v1", "no weight", "nothing"],
)
def test_of_a_weight_the_default_alone_is_given_back(name, was, text):
    assert originals.written(name, was) == text


class TestWhatASpecHasOfAFormerLife:
    def of(self, said: Knobs, **texts: str) -> Original:
        """Return the original values for a spec, from journalled files; a dot in a name is two underscores."""
        return originals.in_spec(
            originals.of_files({name.replace("__", "."): text for name, text in texts.items()}), said
        )

    def test_what_it_says_otherwise_than_there_was_is_ours(self):
        found = self.of(Knobs(shares=2048, memory_limit=64), memory__max="128", cpu__shares="2")
        assert found == Original(frozenset({"shares", "memory_limit"}), Knobs(shares=2, memory_limit=128))

    def test_what_it_says_as_there_was_is_not(self):
        assert self.of(Knobs(shares=2, memory_limit=128), memory__max="128", cpu__shares="2").ours == set()

    def test_shares_of_the_same_weight_are_as_there_was(self):
        assert self.of(Knobs(shares=1000), cpu__weight="39").ours == set()
        assert self.of(Knobs(shares=1024), cpu__weight="100").ours == set()
        assert self.of(Knobs(shares=2), cpu__weight="39").ours == {"shares"}

    def test_no_limit_and_no_quota_were_nothing(self):
        found = self.of(
            Knobs(quota=5000, period=100_000, memory_limit=64), cpu__max="max 100000", memory__max="max"
        )
        assert found == Original(frozenset({"quota", "memory_limit"}), Knobs(period=100_000))

    def test_a_limit_of_zero_was_none(self):
        assert self.of(Knobs(memory_limit=64), memory__max="0") == Original(frozenset({"memory_limit"}))

    def test_of_cpus_it_tells_nothing(self):
        assert self.of(Knobs(cpus="0-3"), cpuset__cpus="0-7").ours == set()
