"""actuation/cgroups.py: cgroups brought to their values, on v1 and v2, and back again."""

from pathlib import Path
from typing import get_args

import pytest

from nri_coloc.actuation import cgroups, files
from nri_coloc.actuation.bandwidths import PodBandwidth, Share
from nri_coloc.actuation.cgroups import Applied, CgroupWriter, Target
from nri_coloc.actuation.files import Correction
from nri_coloc.actuation.journal import Journal, load
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.knobs.files import Controller, FileValue
from nri_coloc.model import cpuset
from nri_coloc.model.knobs import Knobs
from nri_coloc.sampling.cgroup_layout import CgroupLayout

SHARES = FileValue("cpu", "cpu.shares", "2")
WEIGHT = FileValue("cpu", "cpu.weight", "1")


class Host:
    """A host's folder with a writer on it; `cgroup` makes one with these files."""

    def __init__(self, root: Path, version: int) -> None:
        self.version = version
        self.base = root / "sys/fs/cgroup"
        mounts: dict[str, str] = {
            name: str(self.base if version == 2 else self.base / name)
            for name in ("cpu", "cpuset", "memory", "blkio")
        }
        self.journal_path = root / "journal"
        self.reports: list[str] = []
        self.journal = Journal(str(self.journal_path), self.reports.append, str(root))
        self.writer = CgroupWriter(CgroupLayout(version, **mounts), self.journal, str(root))
        self.root = root

    def file(self, name: str, path: str = "pod") -> Path:
        first = name.partition(".")[0]
        mount = first if first in cgroups.CONTROLLERS else "cpuset"
        return (self.base if self.version == 2 else self.base / mount) / path / name

    def cgroup(self, path: str = "pod", **files: str) -> None:
        for name, text in files.items():
            file = self.file(name.replace("_", ".", 1) if name != "cgroup_procs" else "cgroup.procs", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")

    def text(self, name: str, path: str = "pod") -> str:
        return self.file(name, path).read_text().strip()

    def apply(
        self, cpus: str = "", *values: FileValue, path: str = "pod", journalled: bool = False
    ) -> Applied:
        return self.writer.apply(Target(path, cpuset.parse(cpus), values, journalled))

    def noted(self) -> dict[str, str]:
        return {name.rpartition("/")[2]: was for name, was in load(str(self.journal_path)).items()}


@pytest.fixture
def v1(tmp_path: Path) -> Host:
    host = Host(tmp_path, 1)
    host.cgroup(cpuset_cpus="0-7", cpu_shares="1024", memory_limit_in_bytes="9", blkio_weight="500")
    return host


@pytest.fixture
def v2(tmp_path: Path) -> Host:
    host = Host(tmp_path, 2)
    host.cgroup(cpu_weight="39", memory_high="max", memory_low="0", io_weight="default 100")
    (host.base / "pod/cpuset.cpus").write_text("0-7\n")
    (host.base / "pod/cpuset.cpus.effective").write_text("0-7\n")
    return host


class TestApplyingOnV1:
    def test_cpus_are_moved_and_read_back(self, v1):
        applied = v1.apply("2-7")
        assert (applied.before, applied.cpus) == (cpuset.parse("0-7"), cpuset.parse("2-7"))
        assert applied.failures == ()
        assert v1.text("cpuset.cpus") == "2-7"

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


class TestWhatIsNotThere:
    def test_a_cgroup_that_is_gone_is_nothing(self, v1):
        assert v1.apply("2-7", SHARES, path="gone") == Applied(absent=("cpu.shares",))
        assert not v1.file("cpuset.cpus", "gone").exists()

    def test_a_file_that_the_kernel_lacks_is_left_out(self, v2):
        assert v2.apply("", FileValue("memory", "memory.min", "5")).failures == ()
        assert not v2.file("memory.min").exists()

    def test_a_controller_that_is_not_mounted_is_left_out(self, tmp_path):
        writer = CgroupWriter(CgroupLayout(2), Journal(str(tmp_path / "j"), print), str(tmp_path))
        assert writer.apply(Target("pod", 0b1, (WEIGHT,))) == Applied(absent=("cpu.weight",))
        assert (writer.cpus("pod"), writer.members("pod")) == (None, ())
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


class TestJournal:
    @pytest.mark.parametrize("host", ["v1", "v2"])
    def test_cpus_that_hold_already_are_noted_and_not_written(self, host, request):
        found = request.getfixturevalue(host)
        before = found.file("cpuset.cpus").stat().st_mtime_ns
        assert found.apply("0-7", journalled=True) == Applied(0xFF, 0xFF)
        assert found.file("cpuset.cpus").stat().st_mtime_ns == before
        assert found.noted() == {"cpuset.cpus": "0-7"}

    def test_on_v2_a_set_that_others_cut_is_written_once(self, v2):
        v2.apply("2-7", journalled=True)
        v2.file("cpuset.cpus.effective").write_text("2-5\n")
        before = v2.file("cpuset.cpus").stat().st_mtime_ns
        assert v2.apply("2-7", journalled=True) == Applied(cpuset.parse("2-5"), cpuset.parse("2-5"))
        assert v2.file("cpuset.cpus").stat().st_mtime_ns == before

    def test_what_is_journalled_is_noted_before_it_is_written(self, v1):
        v1.apply("2-7", SHARES, journalled=True)
        assert v1.noted() == {"cpuset.cpus": "0-7", "cpu.shares": "1024"}

    def test_what_the_runtime_owns_is_not(self, v1):
        v1.apply("2-7", SHARES)
        assert v1.noted() == {}

    def test_a_journal_that_cannot_be_written_costs_no_placement(self, v1):
        v1.journal_path.symlink_to("/dev/full")
        assert v1.apply("2-7", SHARES, journalled=True).failures == ()
        assert (v1.text("cpuset.cpus"), v1.text("cpu.shares")) == ("2-7", "2")
        assert len(v1.reports) == 1

    def test_on_v1_members_that_a_former_life_left_behind_follow_their_pod(self, v1):
        v1.cgroup(cpuset_cpus="0-7")
        v1.cgroup("pod/app", cpuset_cpus="2-3")
        applied = v1.writer.apply(Target("pod", 0xFF, inherited=True))
        assert (applied.before, applied.cpus) == (0xFF, 0xFF)
        assert v1.text("cpuset.cpus", "pod/app") == "0-7"

    def test_on_v1_they_are_looked_at_once_until_the_next_tidying(self, v1):
        v1.cgroup(cpuset_cpus="0-7")
        v1.cgroup("pod/app", cpuset_cpus="0-7")
        target = Target("pod", 0xFF, inherited=True)
        v1.writer.apply(target)
        v1.cgroup("pod/app", cpuset_cpus="2-3")
        v1.writer.apply(target)
        assert v1.text("cpuset.cpus", "pod/app") == "2-3"
        v1.writer.tidy()
        v1.writer.apply(target)
        assert v1.text("cpuset.cpus", "pod/app") == "0-7"

    def test_cgroups_that_are_gone_are_forgotten(self, v1):
        v1.apply("2-7", journalled=True)
        v1.file("cpuset.cpus").unlink()
        v1.writer.tidy()
        assert v1.noted() == {}


class TestPuttingBack:
    def test_everything_is_as_it_was(self, v1):
        v1.apply("2-7", SHARES, journalled=True)
        assert v1.writer.put_back("pod", frozenset()) == ()
        assert (v1.text("cpuset.cpus"), v1.text("cpu.shares"), v1.noted()) == ("0-7", "1024", {})

    def test_what_is_still_ours_is_kept(self, v2):
        v2.apply("2-7", WEIGHT, journalled=True)
        v2.writer.put_back("pod", frozenset({"cpu.weight"}))
        assert (v2.text("cpuset.cpus"), v2.text("cpu.weight")) == ("0-7", "1")
        assert v2.noted() == {"cpu.weight": "39"}

    def test_a_refusal_is_returned_and_the_rest_goes_on(self, v2):
        v2.apply("2-7", WEIGHT, journalled=True)
        v2.file("cpu.weight").unlink()
        v2.file("cpu.weight").symlink_to("/dev/full")
        (failure,) = v2.writer.put_back("pod", frozenset())
        assert failure.path == str(v2.file("cpu.weight"))
        assert (v2.text("cpuset.cpus"), v2.noted()) == ("0-7", {"cpu.weight": "39"})

    def test_a_set_that_was_empty_is_empty_again(self, v2):
        v2.file("cpuset.cpus").write_text("\n")
        v2.apply("2-7", journalled=True)
        v2.writer.put_back("pod", frozenset())
        assert v2.text("cpuset.cpus") == ""

    def test_a_value_that_no_journal_of_ours_holds_is_refused(self, v2):
        with pytest.raises(KernelInterfaceError, match="cannot write 'x' to"):
            cgroups.restore(str(v2.file("cpuset.cpus")), "x", 2)


class TestBandwidths:
    def test_whose_quota_or_burst_is_not_the_kubelets_is_known_to_the_next_life(self, v2):
        for path, text in (("pod", "200000"), ("pod/a", "100000"), ("pod/b", "100000")):
            (v2.base / path).mkdir(exist_ok=True)
            (v2.base / path / "cpu.max").write_text(f"{text} 100000\n")
        v2.writer.bandwidth(PodBandwidth("pod", {"pod/a": Share(100_000, 150_000), "pod/b": Share(100_000)}))
        v2.apply("2-7", WEIGHT, path="pod/b", journalled=True)
        layout = CgroupLayout(2, **dict.fromkeys(("cpu", "cpuset"), str(v2.base)))
        successor = CgroupWriter(layout, Journal(str(v2.journal_path), print, str(v2.root)), str(v2.root))
        assert successor.held_back() == {"pod", "pod/a"}


class TestProtections:
    def test_it_is_raised_and_noted(self, v2):
        applied = v2.writer.protect("pod", "memory.low", 100)
        assert applied == Applied(corrected=(Correction("memory.low", "0", "100"),))
        assert (v2.text("memory.low"), v2.noted()) == ("100", {"memory.low": "0"})
        assert v2.writer.protected() == {"pod"}

    def test_it_falls_with_what_we_ask_for_but_not_below_what_was_there(self, v2):
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


class TestRemembering:
    """What a push is about to change through the runtime."""

    LENT = Knobs(cpus="0-3", shares=512, quota=50_000, period=100_000, memory_limit=1 << 26)

    def test_on_v1_the_files_that_the_runtime_will_write(self, v1):
        v1.cgroup(cpu_cfs_quota_us="-1", cpu_cfs_period_us="100000")
        v1.file("memory.memsw.limit_in_bytes").write_text("9\n")
        v1.writer.remember("pod", self.LENT)
        assert v1.noted() == {
            "cpu.shares": "1024",
            "cpu.cfs_quota_us": "-1",
            "cpu.cfs_period_us": "100000",
            "memory.memsw.limit_in_bytes": "9",
            "memory.limit_in_bytes": "9",
        }

    def test_on_v2_too(self, v2):
        v2.cgroup(cpu_max="max 100000", memory_max="max")
        v2.file("memory.swap.max").write_text("max\n")
        v2.writer.remember("pod", self.LENT)
        noted = {"cpu.weight": "39", "cpu.max": "max 100000", "memory.swap.max": "max", "memory.max": "max"}
        assert v2.noted() == noted

    def test_only_what_changes_and_what_is_there(self, v2):
        v2.writer.remember("pod", Knobs(shares=2, memory_limit=5))
        v2.writer.remember("gone", Knobs(shares=2))
        assert v2.noted() == {"cpu.weight": "39"}


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
    assert cgroups.same(current, wanted) is equal


def test_the_actual_cpus_can_be_read_alone(v1, v2):
    assert v1.writer.cpus("pod") == v2.writer.cpus("pod") == cpuset.parse("0-7")


def test_every_controller_is_searched_for_what_is_put_back():
    assert set(cgroups.CONTROLLERS) == set(get_args(Controller))


class TestEmptySets:
    """On v2 the kernel takes no set away from a cgroup that has tasks."""

    @pytest.mark.parametrize("name", ["cpuset.cpus", "cpuset.mems"])
    def test_a_set_that_cannot_be_taken_away_becomes_the_parents(self, v2, monkeypatch, name):
        (v2.base / f"{name}.effective").write_text("0-5\n")
        v2.file(name).write_text("2-3\n")
        write = files.write

        def refuse_empty(path: str, text: str) -> bool:
            if not text.strip():
                raise KernelInterfaceError(path, "write '\\n' to", "No space left on device")
            return write(path, text)

        monkeypatch.setattr(files, "write", refuse_empty)
        assert cgroups.restore(str(v2.file(name)), "", 2)
        assert v2.text(name) == "0-5"
        (v2.base / f"{name}.effective").unlink()
        with pytest.raises(KernelInterfaceError, match="No space left"):
            cgroups.restore(str(v2.file(name)), "", 2)

    def test_one_that_can_be_is(self, v2):
        assert cgroups.restore(str(v2.file("cpuset.cpus")), "", 2)
        assert v2.text("cpuset.cpus") == ""
