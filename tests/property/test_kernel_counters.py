"""For any bytes in a kernel file, each parser returns a reading in bounds or None, and never raises."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.readings import IOReading, MemoryReading
from nri_coloc.host import counters
from nri_coloc.host.counters import CgroupFiles, Schedstat, Throttling

U64 = st.integers(0, (1 << 64) - 1)
SCRAPS = st.lists(
    st.sampled_from(
        [
            b"usage_usec ",
            b"nr_throttled ",
            b"throttled_usec ",
            b"throttled_time ",
            b"some avg10=0.00 total=",
            b"full ",
            b"total=",
            b"max",
            b"cpu0 ",
            b"cpu",
            b"anon ",
            b"file ",
            b"inactive_file ",
            b"total_rss ",
            b"oom_kill ",
            b"8:0 Read ",
            b"8:0 rbytes=",
            b"MemTotal: ",
            b"MemFree:",
            b" kB\n",
            b"        low ",
            b"Node 0 ",
            b"-",
            b"\n",
            b" ",
            b"0",
            b"7",
            b"9" * 20,
            b"9" * 21,
            b"\0",
            b"\xff",
            b"_",
            b"+",
        ]
    )
    | st.binary(max_size=8),
    max_size=24,
).map(b"".join)  # fmt: skip - a pile of scraps, not a table
TEXTS = st.none() | st.binary(max_size=200) | SCRAPS


def in_bounds(number: int | None) -> bool:
    return number is None or 0 <= number < 10**20


@given(TEXTS)
def test_a_counter_is_none_or_not_negative(text):
    for parse in (
        counters.whole,
        counters.cpuacct_usage_us,
        counters.cpu_stat_usage_us,
        counters.some_us,
    ):
        assert in_bounds(parse(text))
    for found in (counters.throttling(text), counters.schedstat(text)):
        assert found is None or all(map(in_bounds, found))
    assert all(amount >= 0 for amount in counters.busy_us(text).values())


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_cgroups_memory_is_none_or_makes_sense(usage, stat, limit, events):
    found = counters.reading(CgroupFiles(usage, stat, limit, events))
    if found is not None:
        assert 0 <= found.working_set <= found.usage
        assert found.limit is None or found.limit >= 0


@given(TEXTS, TEXTS)
def test_io_is_none_or_not_negative(one, other):
    for found in (counters.io_stat(one), counters.blkio(one, other)):
        assert found is None or min(found) >= 0


@given(TEXTS)
def test_a_machines_memory_is_none_or_not_negative(text):
    for found in (counters.meminfo(text), counters.numa_meminfo(text)):
        assert found is None or min(found) >= 0
    watermark = counters.watermark(text, 4096)
    assert watermark is None or watermark >= 0


@given(U64, U64, U64)
def test_what_the_kernel_prints_is_read_back(one, other, third):
    assert counters.cpu_stat_usage_us(b"usage_usec %d\nuser_usec 1\n" % one) == one
    assert counters.cpuacct_usage_us(b"%d\n" % one) == one // 1000
    assert counters.throttling(b"nr_throttled %d\nthrottled_usec %d\n" % (one, other)) == Throttling(
        one, other
    )
    psi = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 total=%d\n" % (one, other)
    assert counters.some_us(psi) == one
    told = Schedstat(one // 1000, other // 1000) if one + other + third else None
    assert counters.schedstat(b"%d %d %d\n" % (one, other, third)) == told
    assert counters.io_stat(b"8:0 rbytes=%d wbytes=%d\n" % (one, other)) == IOReading(one, other)


@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50), st.integers(0, 1 << 50))
def test_memory_that_the_kernel_prints_is_read_back(anon, cache, inactive):
    usage = anon + cache
    stat = b"anon %d\nfile %d\ninactive_file %d\n" % (anon, cache, inactive)
    found = counters.reading(CgroupFiles(b"%d\n" % usage, stat, b"max\n"))
    assert found == MemoryReading(usage, anon, cache, inactive, max(0, usage - inactive))
