"""host/cgroups.py: a cgroup's original values are journalled and restored."""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.scheduler_hints import Hint, Policy
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, write_back
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import Applied, Target
from nri_coloc.host.write_back import Apart
from tests.unit.host.host import SHARES, WEIGHT, Host


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
        v1.journal_path.mkdir()
        assert v1.apply("2-7", SHARES, journalled=True).failures == ()
        assert (v1.text("cpuset.cpus"), v1.text("cpu.shares")) == ("2-7", "2")
        assert v1.journal.problem

    def test_on_v1_left_behind_members_follow_their_pod(self, v1):
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


class TestRemembering:
    """The files that a push will change through the runtime are journalled first."""

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
            "cpuset.cpus": "0-7",
        }

    def test_on_v2_too(self, v2):
        v2.cgroup(cpu_max="max 100000", memory_max="max")
        v2.file("memory.swap.max").write_text("max\n")
        v2.writer.remember("pod", self.LENT)
        noted = {"cpu.weight": "39", "cpu.max": "max 100000", "memory.swap.max": "max", "memory.max": "max"}
        assert v2.noted() == {**noted, "cpuset.cpus": "0-7"}

    def test_only_what_changes_and_what_is_there(self, v2):
        v2.writer.remember("pod", Knobs(shares=2, memory_limit=5))
        v2.writer.remember("gone", Knobs(cpus="0-3", shares=2))
        assert v2.noted() == {"cpu.weight": "39"}

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_look_at_quotas_before_the_push_drops_none(self, tmp_path, version):
        host = Host(tmp_path, version)
        name, text = ("cpu.cfs_quota_us", "-1") if version == 1 else ("cpu.max", "max 100000")
        host.cgroup(**{name.replace(".", "_", 1): text})
        host.writer.remember("pod", Knobs(quota=50_000))
        host.writer.held_back()
        assert host.noted() == {name: text}

    def test_after_the_end_of_a_pushed_quota_a_look_drops_it(self, v1):
        v1.cgroup(cpu_cfs_quota_us="-1")
        v1.writer.remember("pod", Knobs(quota=50_000))
        for pushed in ("50000", "-1"):
            v1.file("cpu.cfs_quota_us").write_text(f"{pushed}\n")
            v1.writer.arrived()
            v1.writer.held_back()
        assert v1.noted() == {}


class TestBandwidths:
    def test_the_next_process_knows_whose_quotas_are_raised(self, v2):
        for path, text in (("pod", "200000"), ("pod/a", "100000"), ("pod/b", "100000")):
            (v2.base / path).mkdir(exist_ok=True)
            (v2.base / path / "cpu.max").write_text(f"{text} 100000\n")
        shares = {"pod/a": Share(100_000, 150_000), "pod/b": Share(100_000)}
        v2.writer.bandwidth(PodBandwidth("pod", shares), 0.0)
        v2.apply("2-7", WEIGHT, path="pod/b", journalled=True)
        layout = CgroupLayout(2, **dict.fromkeys(("cpu", "cpuset"), str(v2.base)))
        successor = CgroupWriter(
            layout, Journal(str(v2.journal_path), str(v2.root)), str(v2.root), lambda _: None
        )
        assert successor.held_back() == {"pod": 250_000 | 1, "pod/a": 150_000}


class TestPuttingBack:
    def test_everything_is_as_it_was(self, v1):
        v1.apply("2-7", SHARES, journalled=True)
        assert v1.writer.put_back("pod", frozenset()) == ()
        assert (v1.text("cpuset.cpus"), v1.text("cpu.shares"), v1.noted()) == ("0-7", "1024", {})

    @pytest.mark.parametrize(("host", "name"), [("v1", "tasks"), ("v2", "cgroup.threads")])
    def test_hints_and_scores_go_and_no_task_moves(self, host, name, request):
        found: Host = request.getfixturevalue(host)
        for listed in ("cgroup.procs", name):
            found.file(listed).write_text("7\n" if listed == "cgroup.procs" else "")
        cpu = found.file("cpu.shares").parent
        (cpu / name).write_text("")
        (cpu / "cgroup.procs").write_text("7\n")
        score = found.root / "proc/7/oom_score_adj"
        score.parent.mkdir(parents=True)
        score.write_text("900\n")
        assert found.writer.score("pod", [7], 1000) is None
        assert found.writer.hint("pod", Hint(Policy.BATCH)) is None
        assert found.writer.put_back("pod", frozenset()) == ()
        assert (score.read_text().strip(), found.noted()) == ("900", {})
        assert {(cpu / "cgroup.procs").read_text(), found.file("cgroup.procs").read_text()} == {"7\n"}

    def test_a_score_that_is_refused_is_kept(self, v2):
        v2.file("cgroup.procs").write_text("7\n")
        v2.file("cgroup.threads").write_text("")
        score = v2.root / "proc/7/oom_score_adj"
        score.parent.mkdir(parents=True)
        score.write_text("900\n")
        v2.writer.score("pod", [7], 1000)
        score.unlink()
        score.symlink_to("/dev/full")
        (failure,) = v2.writer.put_back("pod", frozenset())
        assert failure.path == str(score)
        assert v2.noted() == {"cgroup.threads": "900"}

    def killed_half_way(self, host: Host) -> None:
        """Narrow and widen a pod with a writer that is killed before it writes the children."""
        host.apply("2-3", journalled=True)
        host.cgroup(cpuset_cpus="0-7")
        for path in ("pod/app", "pod/app/inner", "pod/other", "pod/known"):
            host.cgroup(path, cpuset_cpus="2-3")

    def test_on_v1_all_but_own_sets_follow_their_pod(self, v1):
        self.killed_half_way(v1)
        v1.apply("2", path="pod/known", journalled=True)
        assert v1.writer.put_back("pod", frozenset(), iter([Apart("pod/other")])) == ()
        found = {
            path: v1.text("cpuset.cpus", f"pod/{path}") for path in ("app", "app/inner", "other", "known")
        }
        assert found == {"app": "0-7", "app/inner": "0-7", "other": "2-3", "known": "2"}
        assert v1.noted() == {"cpuset.cpus": "2-3"}, "the container's own is not restored yet"

    def test_on_v1_what_others_had_below_nobody_knows(self, v1):
        self.killed_half_way(v1)
        v1.writer.put_back("pod", frozenset())
        assert (v1.text("cpuset.cpus"), v1.text("cpuset.cpus", "pod/app")) == ("0-7", "2-3")

    def test_on_v1_a_returning_pods_members_are_read_again(self, v1):
        v1.cgroup("pod/app", cpuset_cpus="0-7")
        into_the_box = Target("pod", 0xFF, journalled=True, inherited=True)
        v1.writer.apply(into_the_box)
        v1.writer.put_back("pod", frozenset(), ())
        v1.apply("4-5", path="pod/app")
        v1.writer.apply(into_the_box)
        assert v1.text("cpuset.cpus", "pod/app") == "0-7"

    def in_the_box(self, host: Host) -> None:
        """Put a pod into the reclaim cgroups, with a container that has its pod's CPUs."""
        host.cgroup("pod/app", cpuset_cpus="0-7")
        host.writer.apply(Target("pod", 0xC0, journalled=True, inherited=True))
        assert host.text("cpuset.cpus", "pod/app") == "6-7"

    def test_on_v1_the_original_cpus_are_the_pods(self, v1):
        self.in_the_box(v1)
        v1.apply("7", path="pod/app", journalled=True)
        v1.writer.put_back("pod", frozenset(), ())
        v1.writer.put_back("pod/app", frozenset())
        assert v1.text("cpuset.cpus", "pod/app") == "0-7"

    @pytest.mark.parametrize("ordered", [True, False], ids=["ours", "the kubelet's"])
    def test_on_v1_leaving_containers_had_pod_cpus(self, v1, ordered):
        self.in_the_box(v1)
        v1.writer.put_back("pod", frozenset(), [Apart("pod/app", ordered=ordered)])
        assert v1.text("cpuset.cpus", "pod/app") == "6-7"
        assert v1.noted() == ({"cpuset.cpus": ""} if ordered else {})

    def test_on_v1_who_had_other_cpus_than_its_pod_chose_them(self, v1):
        self.in_the_box(v1)
        v1.cgroup("pod/app", cpuset_cpus="7")
        v1.writer.put_back("pod", frozenset(), [Apart("pod/app")])
        assert v1.noted() == {}
        v1.apply("6", path="pod/app", journalled=True)
        assert v1.noted() == {"cpuset.cpus": "7"}

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
            write_back.restore(str(v2.file("cpuset.cpus")), "x", 2)


class TestOriginalSets:
    """Which value of a file is its original, and whether it is there to be restored."""

    @pytest.mark.parametrize(
        ("version", "name", "original"),
        [(1, "cpuset.cpus", ""), (2, "cpuset.cpus", "0-7"), (1, "cpu.shares", "0-7")],
    )
    def test_only_v1_sets_have_an_empty_original(self, tmp_path, version, name, original):
        (tmp_path / "pod").mkdir()
        for folder in (tmp_path, tmp_path / "pod"):
            (folder / name).write_text("0-7\n")
        assert write_back.own(str(tmp_path / "pod" / name), "0-7", version) == original

    def test_on_v1_no_parents_set_restores_nothing(self, v1):
        assert not write_back.restore(str(v1.file("cpuset.cpus")), "", 1)

    @pytest.mark.parametrize("apart", [None, set()], ids=["a container's", "a pod's"])
    def test_restored_cpus_tell_whether_their_cgroup_is_there(self, v1, apart):
        paths = [str(v1.file("cpuset.cpus", path)) for path in ("pod", "gone")]
        assert [write_back.restore(path, "2-3", 1, apart) for path in paths] == [True, False]

    @pytest.mark.parametrize(("apart", "below"), [(None, "0-1"), (set(), "0")], ids=["container", "pod"])
    def test_on_v1_memory_nodes_follow_a_pod_alone(self, v1, apart, below):
        for path in ("pod", "pod/app"):
            v1.cgroup(path, cpuset_mems="0-1")
        assert write_back.restore(str(v1.file("cpuset.mems")), "0", 1, apart)
        assert v1.text("cpuset.mems", "pod/app") == below


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
        assert write_back.restore(str(v2.file(name)), "", 2)
        assert v2.text(name) == "0-5"
        (v2.base / f"{name}.effective").unlink()
        with pytest.raises(KernelInterfaceError, match="No space left"):
            write_back.restore(str(v2.file(name)), "", 2)

    def test_one_that_can_be_is(self, v2):
        assert write_back.restore(str(v2.file("cpuset.cpus")), "", 2)
        assert v2.text("cpuset.cpus") == ""
