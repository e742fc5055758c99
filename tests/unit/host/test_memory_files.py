"""host/counters.py: the memory of a cgroup, of the machine and of its nodes is read."""

import pytest

from nri_coloc.core.readings import MemoryReading, NumaMemory
from nri_coloc.host import counters
from nri_coloc.host.counters import CgroupFiles, NodeMemory

V1_STAT = (
    b"cache 1\nrss 2\ninactive_file 3\nhierarchical_memory_limit 9223372036854771712\n"
    b"total_cache 4000\ntotal_rss 5000\ntotal_inactive_file 1500\n"
)
V1 = CgroupFiles(
    b"9500\n", V1_STAT, b"9223372036854771712\n", b"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
)
V2 = CgroupFiles(
    b"9500\n",
    b"anon 5000\nfile 4000\nkernel 500\ninactive_file 1500\nactive_file 2500\n",
    b"max\n",
    b"low 0\nhigh 6\nmax 0\noom 2\noom_kill 2\noom_group_kill 0\n",
)
NONSENSE = pytest.mark.parametrize(
    "text",
    [None, b"", b"-1\n", b"maximum\n", b"9" * 5000, b"\xff\0"],
    ids=["gone", "empty", "negative", "word", "huge", "binary"],
)  # fmt: skip - one line of words


class TestReading:
    def test_version_one(self):
        assert counters.reading(V1) == MemoryReading(
            usage=9500,
            anon=5000,
            file=4000,
            inactive_file=1500,
            working_set=8000,
            limit=None,
            oom_kills=2,
            high_events=0,
        )

    def test_version_two(self):
        assert counters.reading(V2) == MemoryReading(
            usage=9500,
            anon=5000,
            file=4000,
            inactive_file=1500,
            working_set=8000,
            limit=None,
            oom_kills=2,
            high_events=6,
        )

    @pytest.mark.parametrize(("files", "line"), [(V1, b"total_shmem"), (V2, b"shmem")], ids=["v1", "v2"])
    def test_shared_memory_is_no_page_cache_that_could_be_reclaimed(self, files, line):
        found = counters.reading(files._replace(stat=files.stat + b"shmem_thp 9\n%b 3000\n" % line))
        assert found is not None
        assert (found.usage, found.file, found.working_set) == (9500, 1000, 8000)

    def test_version_two_tells_what_the_kernel_itself_could_give_back(self):
        found = counters.reading(
            V2._replace(stat=(V2.stat or b"") + b"slab_reclaimable 300\nslab_unreclaimable 9\n")
        )
        assert found is not None
        assert (found.slab_reclaimable, found.most_slab) == (300, 300)

    @pytest.mark.parametrize(("files", "line"), [(V1, b"total_shmem"), (V2, b"shmem")], ids=["v1", "v2"])
    def test_an_untold_amount_is_at_most_the_unowned_one(self, files, line):
        found = counters.reading(files._replace(stat=files.stat + b"%b 3000\n" % line))
        assert found is not None
        assert (found.slab_reclaimable, found.shared, found.most_slab) == (None, 3000, 500)

    @pytest.mark.parametrize(("files", "prefix"), [(V1, b"total_"), (V2, b"")], ids=["v1", "v2"])
    def test_locked_page_cache_is_use(self, files, prefix):
        stat = (files.stat or b"").replace(b"active_file 2500\n", b"")
        lines = b"%bactive_file 500\n%bunevictable 2000\n" % (prefix, prefix)
        found = counters.reading(files._replace(stat=stat + lines))
        assert found is not None
        assert (found.file, found.locked, found.unreclaimable) == (4000, 2000, 7500)

    def test_locked_anonymous_memory_is_no_page_cache(self):
        found = counters.reading(V2._replace(stat=(V2.stat or b"") + b"unevictable 3000\n"))
        assert found is not None
        assert (found.locked, found.unreclaimable) == (0, 5500)

    def test_a_working_set_is_never_negative(self):
        found = counters.reading(V2._replace(usage=b"1000\n"))
        assert found is not None
        assert found.working_set == 0

    def test_a_limit_is_bytes(self):
        found = counters.reading(V2._replace(limit=b"1073741824\n"))
        assert found is not None
        assert found.limit == 1 << 30

    def test_without_events_nothing_is_known_to_have_been_killed(self):
        found = counters.reading(V1._replace(events=None))
        assert found is not None
        assert (found.oom_kills, found.high_events) == (0, 0)

    @NONSENSE
    @pytest.mark.parametrize("part", ["usage", "stat", "limit"])
    def test_nonsense_in_a_part_that_counts_is_no_reading(self, part, text):
        assert counters.reading(V2._replace(**{part: text})) is None

    @pytest.mark.parametrize("name", [b"anon", b"inactive_file", b"\nfile"])
    def test_a_figure_that_is_missing_is_no_reading(self, name):
        assert V2.stat is not None
        assert counters.reading(V2._replace(stat=V2.stat.replace(name, b"\nother"))) is None


class TestLimit:
    @pytest.mark.parametrize(
        "text",
        [b"max\n", b"9223372036854771712\n", b"9223372036854710272\n"],
        ids=["v2", "v1 4K", "v1 64K"],
    )
    def test_no_limit(self, text):
        assert counters.limit(text) is None

    def test_a_limit(self):
        assert counters.limit(b"4096\n") == 4096


class TestNode:
    TEXT = (
        b"MemTotal:       24684092 kB\nMemFree:        21862008 kB\nActive(file):     390328 kB\n"
        b"Inactive(file):   579968 kB\nSReclaimable:     875504 kB\nHugePages_Total:       0\n"
    )

    def test_meminfo_is_bytes(self):
        kib = (24684092, 21862008, 579968, 390328, 875504)
        assert counters.meminfo(self.TEXT) == NodeMemory(*(amount * 1024 for amount in kib))

    def test_reclaimable_slab_may_be_absent(self):
        found = counters.meminfo(self.TEXT.replace(b"SReclaimable", b"Other"))
        assert found is not None
        assert found.slab_reclaimable == 0

    @NONSENSE
    def test_nonsense_is_none(self, text):
        assert counters.meminfo(text) is None
        assert counters.numa_meminfo(text) is None
        assert counters.watermark(text, 4096) is None

    def test_a_numa_nodes_meminfo(self):
        text = b"Node 1 MemTotal:       100 kB\nNode 1 MemFree:         40 kB\nNode 1 FilePages:  30 kB\n"
        assert counters.numa_meminfo(text) == NumaMemory(102_400, 40_960, 30_720)
        shared = text + b"Node 1 Shmem:         10 kB\n"
        assert counters.numa_meminfo(shared) == NumaMemory(102_400, 40_960, 20_480)

    def test_locked_page_cache_of_a_numa_node_is_not_available(self):
        amounts = {"MemTotal": 100, "MemFree": 40, "FilePages": 30, "Shmem": 10}
        amounts |= {"Active(file)": 6, "Inactive(file)": 4, "Unevictable": 12}
        text = "".join(f"Node 1 {name}: {kib} kB\n" for name, kib in amounts.items())
        assert counters.numa_meminfo(text.encode()) == NumaMemory(102_400, 40_960, 10_240)

    def test_the_low_watermarks_of_all_zones_are_summed(self):
        zone = b"Node 0, zone  DMA\n  pages free 3840\n        min      23\n        low      %d\n        high     33\n"
        assert counters.watermark(zone % 28 + zone % 1000, 4096) == 1028 * 4096
