"""Commands of the rig: what a failed one printed is in the error, whichever stream it used."""

import pytest

from tests.rig import RigError, commands


def test_output_of_a_command_is_returned():
    assert commands.output(["cat"], stdin="one\n", seconds=60) == "one\n"


def test_failure_shows_both_streams():
    with pytest.raises(RigError) as failed:
        commands.output(["sh", "-c", "echo why; echo where >&2; exit 3"], seconds=60)
    assert str(failed.value).splitlines()[-2:] == ["stderr: where", "stdout: why"]
    assert "failed (3)" in str(failed.value)


def test_failure_without_a_word_says_so():
    with pytest.raises(RigError, match=r"false failed \(1\), and printed nothing"):
        commands.output(["false"], seconds=60)


def test_late_command_shows_its_output_so_far():
    with pytest.raises(RigError, match=r"took more than 0.5 s\nstdout: begun"):
        commands.output(["sh", "-c", "echo begun; exec sleep 60"], seconds=0.5)
