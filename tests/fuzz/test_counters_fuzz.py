"""Any counter file of a cgroup or of /proc gives a number in bounds or no reading."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import UNLIMITED_BYTES
from nri_coloc.host import counters
from nri_coloc.host.counters import CgroupFiles
from nri_coloc.host.knob_files import U64_DIGITS
from tests.fuzz import corpus

MOST: Final = 10**U64_DIGITS
"""No reading of one number is longer than 64 bits are in decimal."""

PAGE: Final = 4096
NUMBERS: Final[tuple[Callable[[bytes | None], int | None], ...]] = (
    counters.whole,
    counters.cpuacct_usage_us,
    counters.cpu_stat_usage_us,
    counters.throttled_us,
    counters.some_us,
    counters.limit,
)
RECORDS: Final[tuple[Callable[[bytes | None], Any], ...]] = (
    counters.throttling,
    counters.schedstat,
    counters.meminfo,
    counters.numa_meminfo,
    counters.io_stat,
)


def of_one_file(data: bytes) -> None:
    for number in NUMBERS:
        found = number(data)
        assert found is None or 0 <= found < MOST, number.__name__
    for record in RECORDS:
        assert all(value >= 0 for value in _fields(record(data))), record.__name__
    for name, value in counters.flat(data).items():
        assert not re.search(rb"\s", name)
        assert 0 <= value < MOST
    assert all(0 <= cpu <= cpuset.MAX_CPU_ID and us >= 0 for cpu, us in counters.busy_us(data).items())
    watermark = counters.watermark(data, PAGE)
    assert watermark is None or (watermark >= 0 and watermark % PAGE == 0)


def of_a_cgroups_memory(data: bytes) -> None:
    found = counters.reading(CgroupFiles(*corpus.parts(data, 4)))
    if found is not None:
        assert 0 <= found.working_set <= found.usage
        assert found.limit is None or 0 <= found.limit < UNLIMITED_BYTES
        assert all(value >= 0 for value in _fields(found))


def of_v1_io(data: bytes) -> None:
    assert all(value >= 0 for value in _fields(counters.blkio(*corpus.parts(data, 2))))


CHECKS: Final[Mapping[str, corpus.Check]] = {
    "counters": of_one_file,
    "memory": of_a_cgroups_memory,
    "blkio": of_v1_io,
}


def _fields(record: Any) -> list[int]:
    """Return the numbers of a reading: a tuple's or a dataclass's; for None an empty list."""
    if record is None:
        return []
    values = record if isinstance(record, tuple) else asdict(record).values()
    return [value for value in values if value is not None]


@corpus.replayed(*CHECKS)
def test_a_kept_counter_file_is_read_or_refused(seed: Path):
    CHECKS[seed.parent.name](seed.read_bytes())


@pytest.mark.parametrize("noun", CHECKS)
def test_any_counter_file_is_read_or_refused(noun: str, fuzz_inputs: int):
    corpus.made_up(noun, CHECKS[noun], fuzz_inputs)


def test_the_kept_counter_files_are_not_all_refused():
    """If every parser refused the seeds, all other tests of this file would pass without testing anything."""
    texts = [path.read_bytes() for path in corpus.seeds("counters")]
    for parser in (*NUMBERS, *RECORDS):
        assert any(parser(text) is not None for text in texts), parser.__name__
    memory = [counters.reading(CgroupFiles(*corpus.parts(p.read_bytes(), 4))) for p in corpus.seeds("memory")]
    assert any(memory)
    assert any(counters.blkio(*corpus.parts(p.read_bytes(), 2)) for p in corpus.seeds("blkio"))
