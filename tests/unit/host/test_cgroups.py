"""host/cgroups.py: cgroups brought to their values, on v1 and v2."""

from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import Applied, Correction, FileValue, Target, same
from tests.unit.host.host import SHARES, WEIGHT, Host


class TestApplyingOnV1:
    def test_cpus_are_moved_and_read_back(self, v1):
        applied = v1.apply("2-7")
        assert (applied.before, applied.cpus) == (cpuset.parse("0-7"), cpuset.parse("2-7"))
        assert applied.failures == ()
        assert v1.text("cpuset.cpus") == "2-7"

    def test_children_leave_cpus_that_the_cgroup_keeps(self, v1):
        v1.cgroup("", cpuset_cpus="0-7")
        v1.cgroup("pod/app", cpuset_cpus="0-7")
        whole = Target("pod", cpuset.parse("0-7"), inherited=True)
        v1.writer.apply(whole)
        v1.writer.apply(replace(whole, cpus=cpuset.parse("2-7"), beyond=cpuset.parse("0-1")))
        assert (v1.text("cpuset.cpus"), v1.text("cpuset.cpus", "pod/app")) == ("0-7", "2-7")

    def test_each_value_goes_to_its_controllers_own_folder(self, v1):
        v1.apply("", SHARES, FileValue("blkio", "blkio.weight", "10"))
        assert (v1.text("cpu.shares"), v1.text("blkio.weight")) == ("2", "10")
        assert v1.text("cpuset.cpus") == "0-7"

    def test_what_was_written_is_told_with_what_was_there(self, v1):
        applied = v1.apply("2-7", SHARES)
        assert applied.corrected == (Correction("cpu.shares", "1024", "2"),)
        assert v1.apply("2-7", SHARES).corrected == ()

    def test_a_target_without_cpus_reads_none_back(self, v1):
        applied = v1.apply("", SHARES)
        assert (applied.cpus, applied.before) == (None, None)


class TestApplyingOnV2:
    def test_cpus_are_written_once_and_what_is_effective_comes_back(self, v2):
        applied = v2.apply("2-7")
        assert (applied.before, applied.cpus) == (cpuset.parse("0-7"), cpuset.parse("2-7"))
        assert v2.text("cpuset.cpus") == "2-7"

    def test_all_values_go_to_the_one_folder(self, v2):
        v2.apply("", WEIGHT, FileValue("memory", "memory.high", "400"))
        assert (v2.text("cpu.weight"), v2.text("memory.high")) == ("1", "400")

    def test_what_holds_already_is_not_written(self, v2):
        file = v2.file("io.weight")
        before = file.stat().st_mtime_ns
        v2.apply("", FileValue("blkio", "io.weight", "default 100"), journalled=True)
        assert (file.stat().st_mtime_ns, v2.noted()) == (before, {})


class TestImagesOfAWeight:
    """For the same order runc writes weight 39 before 1.3.2, and 100 since."""

    LENT = FileValue("cpu", "cpu.weight", "39", image="100")

    def test_image_is_left_alone(self, v2):
        v2.cgroup("lent", cpu_weight="100")
        assert v2.apply("", self.LENT, path="lent").corrected == ()
        assert v2.text("cpu.weight", "lent") == "100"

    def test_known_image_is_written_from_then_on(self, v2):
        for path in ("first", "second", "third"):
            v2.cgroup(path, cpu_weight="1")
        v2.apply("", self.LENT, path="first")
        assert v2.text("cpu.weight", "first") == "39"
        v2.cgroup("second", cpu_weight="100")
        v2.apply("", self.LENT, path="second")
        v2.apply("", self.LENT, path="third")
        assert v2.text("cpu.weight", "third") == "100"


class TestWhatIsNotThere:
    def test_a_cgroup_that_is_gone_is_nothing(self, v1):
        assert v1.apply("2-7", SHARES, path="gone") == Applied(absent=("cpu.shares",))
        assert not v1.file("cpuset.cpus", "gone").exists()

    def test_a_file_that_the_kernel_lacks_is_left_out(self, v2):
        assert v2.apply("", FileValue("memory", "memory.min", "5")).failures == ()
        assert not v2.file("memory.min").exists()

    def test_a_controller_that_is_not_mounted_is_left_out(self, tmp_path):
        writer = CgroupWriter(CgroupLayout(2), Journal(str(tmp_path / "j")), str(tmp_path), lambda _: None)
        assert writer.apply(Target("pod", 0b1, (WEIGHT,))) == Applied(absent=("cpu.weight",))
        assert (writer.look("pod"), writer.members("pod")) == (None, ())
        assert writer.protect("pod", "memory.low", 5) == Applied(absent=("memory.low",))
        assert writer.put_back("pod", frozenset()) == ()
        assert writer.protected() == set()


class TestRefusals:
    def refusing(self, host: Host, name: str) -> None:
        """Let one file take no more: reading works, every write fails."""
        host.file(name).unlink()
        host.file(name).symlink_to("/dev/full")

    def test_one_refused_value_does_not_stop_the_next(self, v2):
        self.refusing(v2, "cpu.weight")
        applied = v2.apply("", WEIGHT, FileValue("memory", "memory.high", "400"))
        (failure,) = applied.failures
        assert failure.path == str(v2.file("cpu.weight"))
        assert v2.text("memory.high") == "400"

    def test_refused_cpus_leave_what_was_there(self, v2):
        v2.file("cpuset.cpus").unlink()
        v2.file("cpuset.cpus").mkdir()
        applied = v2.apply("2-7", WEIGHT)
        assert len(applied.failures) == 1
        assert applied.cpus == applied.before
        assert v2.text("cpu.weight") == "1"


class TestProcesses:
    def score(self, host: Host, text: str = "0") -> Path:
        file = host.root / "proc/7/oom_score_adj"
        file.parent.mkdir(parents=True)
        file.write_text(f"{text}\n")
        return file

    def test_a_score_is_written(self, v1):
        file = self.score(v1)
        assert v1.writer.score("pod", [7], 1000) is None
        assert file.read_text() == "1000"

    def test_one_that_holds_already_is_not(self, v1):
        file = self.score(v1, "1000")
        v1.writer.score("pod", [7], 1000)
        assert file.read_text() == "1000\n"

    def test_a_process_that_is_gone_is_no_failure(self, v1):
        assert v1.writer.score("pod", [7], 1000) is None

    def test_a_refusal_is_returned(self, v1):
        file = self.score(v1)
        file.unlink()
        file.symlink_to("/dev/full")
        failure = v1.writer.score("pod", [7], -1)
        assert failure is not None
        assert failure.action == "write '-1' to"

    @pytest.mark.parametrize(
        ("text", "members"), [("7\n12", (7, 12)), ("", ()), ("0\nx", (0,))], ids=["two", "none", "odd"]
    )
    def test_the_processes_of_a_cgroup_are_listed(self, v1, text, members):
        v1.cgroup(cgroup_procs=text)
        assert v1.writer.members("pod") == members

    def test_a_cgroup_that_is_gone_has_none(self, v1):
        assert v1.writer.members("gone") == ()


@pytest.mark.parametrize(
    ("current", "wanted", "equal"),
    [
        ("100", "100", True),
        ("default 100", "100", True),
        ("100", "default 100", True),
        ("default 100\n8:0 50", "default 100", True),
        ("default 200\n8:0 100", "100", False),
        ("0 1\n", "0 1", True),
        ("max", "400", False),
        ("", "5", False),
    ],
)
def test_a_weight_is_the_same_with_and_without_the_word_default(current, wanted, equal):
    assert same(current, wanted) is equal


def test_the_actual_cpus_can_be_read_alone(v1, v2):
    found = [host.writer.look("pod") for host in (v1, v2)]
    assert [each and each.cpus for each in found] == [cpuset.parse("0-7")] * 2


def test_a_cgroup_is_there_in_whichever_hierarchy_it_is(v1):
    v1.cgroup("yarn", cpu_shares="1024")
    assert v1.writer.is_there("yarn")
    assert not v1.writer.is_there("spark")
