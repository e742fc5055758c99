"""pressure.disk_writers: no pod is named for bytes that it did not write, and none for a disk that fills no further."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.readings import DiskLeft
from nri_coloc.pressure.disk_space import DiskShort, FileSystem, Lack, Lines
from nri_coloc.pressure.disk_writers import LEAST_BYTES, Written, filled

BYTES = st.integers(0, 1 << 40)
INODES = 1_000_000
READINGS = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(Written, key=st.integers(1, 2), bytes=BYTES), max_size=6
)


def short(available: int, lack: Lack = Lack.SPACE) -> DiskShort:
    return DiskShort(FileSystem.NODE, lack, DiskLeft(1 << 41, available, 100, 50, "8:0"), Lines(0.11, 0.06))


def without_inodes(free: int) -> DiskShort:
    left = DiskLeft(1 << 41, 1 << 40, INODES, free, "8:0")
    return DiskShort(FileSystem.NODE, Lack.INODES, left, Lines(0.11, 0.06))


@given(BYTES, BYTES, READINGS, READINGS)
def test_only_pods_that_wrote_much_are_named(
    before: int, now: int, first: dict[str, Written], last: dict[str, Written]
):
    found = filled(short(before), short(now), first, last)
    if found is None:
        return
    assert found.lost == before - now > 0
    largest = max(found.writers.values())
    assert largest >= LEAST_BYTES
    assert 4 * found.lost >= largest
    for pod_id, written in found.writers.items():
        known = first.get(pod_id)
        start = known.bytes if known is not None and known.key == last[pod_id].key else 0
        assert 0.5 * largest <= written == last[pod_id].bytes - start


@given(BYTES, READINGS, READINGS)
def test_a_disk_with_as_much_left_names_none(left: int, first: dict[str, Written], last: dict[str, Written]):
    assert filled(short(left), short(left), first, last) is None


@given(st.integers(0, INODES // 1000 - 1), READINGS, READINGS)
def test_a_few_lost_inodes_name_none(lost: int, first: dict[str, Written], last: dict[str, Written]):
    assert filled(without_inodes(lost), without_inodes(0), first, last) is None


def test_a_thousandth_of_the_inodes_names_the_writer():
    last = {"a": Written(1, LEAST_BYTES)}
    found = filled(without_inodes(INODES // 1000), without_inodes(0), {}, last)
    assert found is not None
    assert found.writers == {"a": LEAST_BYTES}


@given(BYTES, READINGS, READINGS)
def test_another_lack_begins_anew(left: int, first: dict[str, Written], last: dict[str, Written]):
    assert filled(short(left), short(0, Lack.INODES), first, last) is None
