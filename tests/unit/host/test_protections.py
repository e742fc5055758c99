"""host/cgroups.py: protections are raised, and never fall below their original value."""

import pytest

from nri_coloc.host.knob_files import Applied, Correction
from tests.unit.host.host import WEIGHT


class TestProtections:
    def test_it_is_raised_and_noted(self, v2):
        applied = v2.writer.protect("pod", "memory.low", 100)
        assert applied == Applied(corrected=(Correction("memory.low", "0", "100"),))
        assert (v2.text("memory.low"), v2.noted()) == ("100", {"memory.low": "0"})
        assert v2.writer.protected() == {"pod"}

    def test_it_falls_with_our_request_to_the_original(self, v2):
        v2.cgroup(memory_low="50")
        for amount, text in ((100, "100"), (70, "70"), (0, "50")):
            v2.writer.protect("pod", "memory.low", amount)
            assert v2.text("memory.low") == text

    @pytest.mark.parametrize("others", ["500", "max"], ids=["more", "everything"])
    def test_what_somebody_else_protects_is_not_lowered(self, v2, others):
        v2.cgroup(memory_low=others)
        v2.writer.protect("pod", "memory.low", 100)
        assert (v2.text("memory.low"), v2.noted()) == (others, {})

    def test_nothing_is_put_back_that_we_never_wrote(self, v2):
        v2.cgroup(memory_low="7")
        v2.writer.protect("pod", "memory.low", 0)
        assert (v2.text("memory.low"), v2.noted()) == ("7", {})

    def test_a_file_that_is_not_there_is_no_failure(self, v2):
        assert v2.writer.protect("gone", "memory.low", 5) == Applied(absent=("memory.low",))

    def test_a_refusal_is_returned(self, v2):
        v2.file("memory.low").unlink()
        v2.file("memory.low").mkdir()
        (failure,) = v2.writer.protect("pod", "memory.low", 5).failures
        assert failure.path == str(v2.file("memory.low"))

    def test_other_journalled_files_are_no_protection(self, v2):
        v2.apply("2-7", WEIGHT, journalled=True)
        assert v2.writer.protected() == set()
