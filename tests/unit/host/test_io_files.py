"""host/counters.py: bytes and operations are summed over all devices."""

import pytest

from nri_coloc.core.readings import IOReading
from nri_coloc.host import counters

BYTES = b"8:0 Read 100\n8:0 Write 20\n8:0 Sync 7\n8:0 Async 3\n8:0 Total 120\n8:16 Read 1\nTotal 121\n"
OPERATIONS = b"8:0 Read 10\n8:0 Write 2\n8:0 Total 12\n8:16 Read 1\nTotal 13\n"


class TestVersionTwo:
    def test_devices_are_summed(self):
        text = (
            b"8:0 rbytes=100 wbytes=20 rios=10 wios=2 dbytes=5 dios=1\n8:16 rbytes=1 wbytes=0 rios=1 wios=0\n"
        )
        assert counters.io_stat(text) == IOReading(101, 20, 11, 2)

    def test_nothing_yet_is_zero(self):
        assert counters.io_stat(b"") == IOReading()

    def test_a_device_without_figures_and_unknown_figures_are_passed_over(self):
        assert counters.io_stat(b"7:0 8:0 rbytes=4 cost.usage=77 wbytes=1\n") == IOReading(4, 1)

    @pytest.mark.parametrize("text", [None, b"8:0 rbytes=-1", b"8:0 rbytes=max", b"8:0 rios="])
    def test_nonsense_is_none(self, text):
        assert counters.io_stat(text) is None


class TestVersionOne:
    def test_devices_are_summed(self):
        assert counters.blkio(BYTES, OPERATIONS) == IOReading(101, 20, 11, 2)

    def test_nothing_yet_is_zero(self):
        assert counters.blkio(b"Total 0\n", b"Total 0\n") == IOReading()

    @pytest.mark.parametrize("text", [None, b"8:0 Read -1\n", b"8:0 Write max\n"])
    def test_nonsense_in_either_file_is_none(self, text):
        assert counters.blkio(text, OPERATIONS) is None
        assert counters.blkio(BYTES, text) is None
