"""host/counters.py: CPU time, throttling, pressure and run-queue delay are read from the kernel's text."""

import pytest

from nri_coloc.host import counters
from nri_coloc.host.counters import Schedstat, Throttling

V1_STAT = b"nr_periods 40\nnr_throttled 7\nthrottled_time 123456789\nnr_bursts 0\nburst_time 0\n"
V2_STAT = (
    b"usage_usec 257655082\nuser_usec 91799783\nsystem_usec 165855298\nnice_usec 0\n"
    b"nr_periods 40\nnr_throttled 7\nthrottled_usec 123456\nnr_bursts 0\nburst_usec 0\n"
)
PSI = (
    b"some avg10=16.95 avg60=11.69 avg300=5.82 total=2315326970\n"
    b"full avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"
)
NONSENSE = pytest.mark.parametrize(
    "text",
    [None, b"", b"\n", b"max\n", b"-5\n", b"1_0\n", b"+1\n", b"9" * 5000, b"\0\xff", "٣".encode()],
    ids=["gone", "empty", "blank", "max", "negative", "underscore", "plus", "huge", "binary", "foreign"],
)


class TestWhole:
    @pytest.mark.parametrize(
        ("text", "number"), [(b"0\n", 0), (b"18446744073709551615\n", (1 << 64) - 1), (b"12\n\n\n", 12)]
    )
    def test_the_one_number_of_a_file(self, text, number):
        assert counters.whole(text) == number

    @NONSENSE
    def test_nonsense_is_none(self, text):
        assert counters.whole(text) is None


class TestUsage:
    def test_version_one_counts_nanoseconds(self):
        assert counters.cpuacct_usage_us(b"10878882599006\n") == 10_878_882_599

    def test_version_two_counts_microseconds(self):
        assert counters.cpu_stat_usage_us(V2_STAT) == 257_655_082

    @NONSENSE
    def test_nonsense_is_none(self, text):
        assert counters.cpuacct_usage_us(text) is None
        assert counters.cpu_stat_usage_us(text) is None

    def test_a_line_that_is_cut_off_is_none(self):
        assert counters.cpu_stat_usage_us(b"usage_usec") is None


class TestThrottling:
    @pytest.mark.parametrize("text", [V1_STAT, V2_STAT], ids=["v1", "v2"])
    def test_both_versions_give_periods_and_microseconds(self, text):
        assert counters.throttling(text) == Throttling(7, 123_456)

    @NONSENSE
    def test_nonsense_is_none(self, text):
        assert counters.throttling(text) is None

    def test_a_unified_cgroup_without_the_cpu_controller_has_none(self):
        assert counters.throttling(b"usage_usec 5\nuser_usec 5\nsystem_usec 0\n") is None

    def test_periods_without_a_time_are_none(self):
        assert counters.throttling(b"nr_throttled 7\nthrottled_time max\n") is None


class TestPressure:
    def test_the_total_of_its_first_line(self):
        assert counters.some_us(PSI) == 2_315_326_970

    def test_a_full_line_alone_is_none(self):
        assert counters.some_us(PSI.split(b"\n", 1)[1]) is None

    @NONSENSE
    def test_nonsense_is_none(self, text):
        assert counters.some_us(text) is None


class TestSchedstat:
    def test_the_first_figure_is_the_running_and_the_second_the_waiting(self):
        assert counters.schedstat(b"655850 114667000 2\n") == Schedstat(655, 114_667)

    def test_zeros_alone_are_a_kernel_that_does_not_count(self):
        assert counters.schedstat(b"0 0 0\n") is None

    def test_a_task_that_has_only_waited_has_waited(self):
        assert counters.schedstat(b"0 5000 0\n") == Schedstat(0, 5)

    @NONSENSE
    def test_nonsense_is_none(self, text):
        assert counters.schedstat(text) is None

    @pytest.mark.parametrize("text", [b"1 2", b"1 2 3 4", b"1 -2 3", b"1 max 3"])
    def test_another_form_is_none(self, text):
        assert counters.schedstat(text) is None


class TestBusy:
    def test_idle_and_iowait_do_not_count_and_stolen_time_does(self):
        text = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 200 8 16 32 64 128\ncpu12 5 0 0 7\nintr 5 0\n"
        assert counters.busy_us(text) == {0: 63 * 10_000, 12: 5 * 10_000}

    @pytest.mark.parametrize(
        "line",
        [b"cpu0 1 x 3 4", b"cpu0 -1 2 3", b"cpu0 1 2", b"cpu8192 1 2 3", b"cpu99999999 1 2 3", b"cpu0"],
        ids=["word", "negative", "short", "high", "higher", "bare"],
    )
    def test_a_broken_line_is_left_out(self, line):
        assert counters.busy_us(line + b"\ncpu1 1 0 0 0\n") == {1: 10_000}

    @NONSENSE
    def test_nonsense_is_no_cpu_at_all(self, text):
        assert counters.busy_us(text) == {}
