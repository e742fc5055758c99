"""host/cpusets.py: a tree of cgroups moves in an order that the kernel accepts at every step."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cpusets, files
from nri_coloc.host.knob_files import FileValue, Target
from nri_coloc.repair.drift import Drifts
from tests.unit.host.watched_tree import WatchedTree

NODE = {"": "0-15", "pod": "0-7", "pod/pause": "0-7", "pod/app": "0-7", "pod/app/inner": "0-7"}


def moved(folder: Path, before: dict[str, str], wanted: str, path: str = "pod") -> WatchedTree:
    tree = WatchedTree(folder, before)
    with tree.watched():
        found = cpusets.move(str(tree.folder(path)), 1, cpuset.parse(wanted))
    assert found == cpuset.parse(wanted)
    return tree


def written_within_the_parent(path: str, text: str, write: Callable[[str, str], bool] = files.write) -> bool:
    """Write a file as the kernel would: a plain one refuses nothing."""
    above = Path(path).parent.with_name("cpuset.cpus").read_text()
    if cpuset.parse(text) & ~cpuset.parse(above):
        raise KernelInterfaceError(path, f"write {text!r} to", "Permission denied")
    return write(path, text)


class TestMemoryNodes:
    """The pod contains a VM."""

    @pytest.mark.parametrize("wanted", ["0", "1-2", "0-3"], ids=["narrower", "shifted", "wider"])
    def test_on_v1_all_below_is_bound_without_refusals(self, tmp_path, wanted):
        before = {"": "0-3", "pod": "0-1", "pod/pause": "0-1", "pod/app": "0", "pod/app/inner": "0"}
        tree = WatchedTree(tmp_path, before, "cpuset.mems")
        with tree.watched():
            assert cpusets.bind(str(tree.folder("pod")), 1, wanted)
        assert tree.cpus() == {"": "0-3", **dict.fromkeys(list(before)[1:], wanted)}

    def test_on_v2_one_write_is_enough(self, tmp_path):
        tree = WatchedTree(tmp_path, {"pod": "0-1", "pod/app": "0-1"}, "cpuset.mems")
        assert cpusets.write(str(tree.folder("pod") / "cpuset.mems"), "0", 2, inherited=True)
        assert tree.cpus() == {"pod": "0", "pod/app": "0-1"}

    def test_a_child_without_file_or_cgroup_is_skipped(self, tmp_path):
        tree = WatchedTree(tmp_path, {"pod": "0-1"}, "cpuset.mems")
        tree.folder("pod/leaf").mkdir()
        assert cpusets.bind(str(tree.folder("pod")), 1, "1")
        assert tree.cpus() == {"pod": "1"}
        assert not cpusets.bind(str(tree.folder("gone")), 1, "1")


NUMA_STAT = "anon N0={0} N1={1}\nfile N0=0 N1={2}\nfile_mapped N0=0 N1={2}\nanon_thp N0=0 N1={1}"
MUCH, LITTLE = cpusets.MOST_MOVED + 4096, cpusets.MOST_MOVED // 4


class TestMemoryThatWouldMove:
    """A write waits on v2 until the memory is moved, and other writes of CPU sets wait too."""

    @pytest.mark.parametrize(
        ("anon", "mapped", "wanted", "written"),
        [
            (LITTLE, LITTLE, "0", "0"),
            (MUCH, 0, "0", "0-1"),
            (0, MUCH, "0", "0-1"),
            (MUCH, MUCH, "1", "1"),
            (MUCH, 0, "0,2", "0-2"),
        ],
        ids=["little", "much anonymous", "much mapped", "on nodes that stay", "beside a new node"],
    )
    def test_a_cgroup_keeps_nodes_with_much_memory(self, v2, anon, mapped, wanted, written):
        stat = NUMA_STAT.format(0, anon, mapped)
        v2.cgroup(cpuset_mems="0-1", memory_numa_stat=stat)
        nodes = FileValue("cpuset", "cpuset.mems", wanted)
        v2.file("cpuset.mems.effective").write_text("0-1\n")
        assert not v2.apply("", nodes).failures
        assert v2.text("cpuset.mems") == written
        assert not v2.apply("", nodes).corrected

    def test_nodes_that_stay_are_no_missing_file(self, v2):
        v2.cgroup(cpuset_mems="0-1", memory_numa_stat=NUMA_STAT.format(0, MUCH, 0))
        v2.file("cpuset.mems.effective").write_text("0-1\n")
        applied = v2.apply("", FileValue("cpuset", "cpuset.mems", "0"))
        assert (applied.absent, applied.partly) == ((), ("cpuset.mems",))

    def test_they_go_when_the_memory_is_free(self, v2):
        stat = NUMA_STAT.format(0, MUCH, 0)
        v2.cgroup(cpuset_mems="0-1", memory_numa_stat=stat)
        v2.file("cpuset.mems.effective").write_text("0-1\n")
        nodes = FileValue("cpuset", "cpuset.mems", "0")
        drifts, target = Drifts(), Target("pod", values=(nodes,))
        assert drifts.judge("pod", target, v2.writer.apply(target)) is None
        v2.cgroup(memory_numa_stat=NUMA_STAT.format(MUCH, 0, 0))
        assert drifts.judge("pod", target, v2.writer.apply(target)) is None
        assert v2.text("cpuset.mems") == "0"


class TestOnV1:
    @pytest.mark.parametrize(
        "wanted",
        ["2-7", "0-15", "8-15", "4-11", "3"],
        ids=["narrower", "wider", "elsewhere", "shifted", "one"],
    )
    def test_the_whole_tree_moves_and_no_write_is_refused(self, tmp_path, wanted):
        tree = moved(tmp_path, NODE, wanted)
        assert tree.cpus() == {"": "0-15", **dict.fromkeys(("pod", *list(NODE)[2:]), wanted)}

    def test_the_innermost_goes_first_when_the_tree_shrinks(self, tmp_path):
        tree = moved(tmp_path, NODE, "2-7")
        assert tree.written == ["pod/app/inner", "pod/app", "pod/pause", "pod"]

    def test_the_outermost_goes_first_when_it_grows(self, tmp_path):
        tree = moved(tmp_path, NODE, "0-8")
        assert tree.written[0] == "pod"
        assert tree.written.index("pod/app") < tree.written.index("pod/app/inner")

    def test_what_holds_already_is_not_written(self, tmp_path):
        assert moved(tmp_path, NODE, "0-7").written == []

    def test_a_child_that_kept_to_a_part_keeps_it(self, tmp_path):
        tree = moved(tmp_path, {**NODE, "pod/app": "4-7", "pod/app/inner": "5"}, "2-15")
        assert tree.cpus()["pod/app"] == "4-7"
        assert tree.cpus()["pod/app/inner"] == "5"

    def test_a_child_that_loses_a_part_keeps_the_rest(self, tmp_path):
        tree = moved(tmp_path, {**NODE, "pod/app": "0-3", "pod/app/inner": "0-3"}, "2-7")
        assert tree.cpus()["pod/app"] == tree.cpus()["pod/app/inner"] == "2-3"

    def test_a_child_that_loses_all_gets_the_new_set(self, tmp_path):
        tree = moved(tmp_path, {**NODE, "pod/app": "0-1", "pod/app/inner": "0"}, "4-7")
        assert tree.cpus()["pod/app"] == tree.cpus()["pod/app/inner"] == "4-7"

    def test_a_child_that_stays_leaves_its_own_children_alone(self, tmp_path):
        tree = moved(tmp_path, {**NODE, "pod/app": "4-7", "pod/app/inner": "4"}, "4-7")
        assert "pod/app/inner" not in tree.written

    def test_a_folder_that_is_no_cpuset_is_passed_over(self, tmp_path):
        (tmp_path / "cpuset/pod/stranger").mkdir(parents=True)
        assert moved(tmp_path, NODE, "2-7").cpus()["pod"] == "2-7"

    def test_a_cgroup_that_is_gone_is_none(self, tmp_path):
        assert cpusets.move(str(tmp_path / "gone"), 1, 0b1) is None

    @pytest.mark.parametrize(
        ("wanted", "has"),
        [("4-15", "4-11"), ("14-15", "0-7"), ("8-15", "8-11")],
        ids=["narrower", "nothing of it", "elsewhere"],
    )
    def test_a_set_partly_absent_above_is_used_in_part(self, tmp_path, monkeypatch, wanted, has):
        monkeypatch.setattr(files, "write", written_within_the_parent)
        tree = WatchedTree(tmp_path, {**NODE, "": "0-11"})
        with tree.watched(), pytest.raises(KernelInterfaceError, match="denied"):
            cpusets.move(str(tree.folder("pod")), 1, cpuset.parse(wanted))
        assert {tree.cpus()[path] for path in NODE if path} == {has}

    def test_a_refusal_names_the_file(self, tmp_path):
        tree = WatchedTree(tmp_path, {"": "0-7", "pod": "0-7"})
        (tree.folder("pod") / "cpuset.cpus").unlink()
        (tree.folder("pod") / "cpuset.cpus").mkdir()
        with pytest.raises(KernelInterfaceError, match=r"cannot read .*/pod/cpuset\.cpus"):
            cpusets.move(str(tree.folder("pod")), 1, 0b1)


HALF = {"": "0-15", "pod": "0-15", "pod/pause": "2-3", "pod/app": "0-15", "pod/app/inner": "2-3"}


class TestOfAPodOnV1:
    """All CPUs of a cgroup's children are known, so children that a killed writer left behind are repaired."""

    def move(self, folder: Path, wanted: str, *, inherited: bool = True) -> dict[str, str]:
        tree = WatchedTree(folder, HALF)
        with tree.watched():
            cpusets.move(str(tree.folder("pod")), 1, cpuset.parse(wanted), inherited=inherited)
        return tree.cpus()

    def test_who_was_left_behind_follows(self, tmp_path):
        assert self.move(tmp_path, "0-15") == {**HALF, "pod/pause": "0-15"}

    def test_whoever_has_another_set_gets_the_new_one(self, tmp_path):
        assert self.move(tmp_path, "2-7")["pod/pause"] == "2-7"

    @pytest.mark.parametrize("before", ["0-7", "4-7", "6-7", "2-3"])
    def test_the_pod_alone_has_cpus_beyond(self, tmp_path, before):
        tree = WatchedTree(tmp_path, {"": "0-15", **dict.fromkeys(["pod", "pod/pause", "pod/app"], before)})
        wanted, beyond = cpuset.parse("4-7"), cpuset.parse("0-3")
        with tree.watched():
            found = cpusets.move(str(tree.folder("pod")), 1, wanted, inherited=True, beyond=beyond)
        assert found == wanted
        assert tree.cpus() == {"": "0-15", "pod": "0-7", "pod/pause": "4-7", "pod/app": "4-7"}

    def test_cpus_beyond_are_granted_by_the_parent(self, tmp_path):
        tree = WatchedTree(tmp_path, {"": "0-3", "pod": "2-3"})
        assert cpusets.granted(str(tree.folder("pod")), cpuset.parse("0-7")) == cpuset.parse("0-3")

    def test_of_other_cgroups_nobody_knows(self, tmp_path):
        assert self.move(tmp_path, "0-15", inherited=False) == HALF

    def test_a_child_that_is_gone_or_no_cpuset_is_not_behind(self, tmp_path):
        tree = WatchedTree(tmp_path, {"": "0-7", "pod": "0-7"})
        tree.folder("pod/stranger").mkdir()
        assert cpusets.is_followed(str(tree.folder("pod")), 1, cpuset.parse("0-7"))

    def test_on_v2_nobody_is_left_behind(self, tmp_path):
        assert cpusets.is_followed(str(tmp_path / "gone"), 2, 0b1)


class TestReleasing:
    """The pod is left alone from now on: each cgroup in it, at any depth, gets all of its CPUs again."""

    def release(self, folder: Path, before: dict[str, str], wanted: str, *apart: str) -> dict[str, str]:
        tree = WatchedTree(folder, before)
        with tree.watched():
            found = cpusets.release(
                str(tree.folder("pod")), 1, cpuset.parse(wanted), [str(tree.folder(path)) for path in apart]
            )
        assert found == cpuset.parse(wanted)
        return tree.cpus()

    @pytest.mark.parametrize("pod", ["0-15", "0-7", "2-3"], ids=["narrowed half way", "widened", "at rest"])
    def test_all_below_follows(self, tmp_path, pod):
        before = {path: cpus if cpus == "2-3" else pod for path, cpus in HALF.items()} | {"": "0-15"}
        assert self.release(tmp_path, before, "0-15") == dict.fromkeys(HALF, "0-15")

    def test_a_cgroup_with_its_own_set_keeps_it(self, tmp_path):
        before = {**NODE, "pod/pause": "2-3", "pod/app": "4-5", "pod/app/inner": "4"}
        after = self.release(tmp_path, before, "0-15", "pod/app")
        assert after == {**before, "": "0-15", "pod": "0-15", "pod/pause": "0-15"}

    def test_so_does_one_whose_own_set_is_the_pods_for_now(self, tmp_path):
        before = {"": "0-15", **dict.fromkeys(("pod", "pod/pause", "pod/app", "pod/app/inner"), "2-3")}
        after = self.release(tmp_path, before, "0-15", "pod/app")
        assert after == {**before, "pod": "0-15", "pod/pause": "0-15"}

    def test_a_folder_that_is_no_cpuset_is_passed_over(self, tmp_path):
        (tmp_path / "cpuset/pod/stranger").mkdir(parents=True)
        assert self.release(tmp_path, NODE, "0-15") == dict.fromkeys(NODE, "0-15")

    def test_what_holds_already_is_not_written(self, tmp_path):
        tree = WatchedTree(tmp_path, NODE)
        with tree.watched():
            cpusets.release(str(tree.folder("pod")), 1, cpuset.parse("0-7"))
        assert tree.written == []

    def test_a_cgroup_that_is_gone_is_none(self, tmp_path):
        assert cpusets.release(str(tmp_path / "gone"), 1, 0b1) is None

    def test_on_v2_the_kernel_does_it(self, tmp_path):
        (tmp_path / "app").mkdir()
        for path in ("cpuset.cpus", "cpuset.cpus.effective", "app/cpuset.cpus"):
            (tmp_path / path).write_text("2-3\n")
        cpusets.release(str(tmp_path), 2, cpuset.parse("0-7"))
        assert (tmp_path / "cpuset.cpus").read_text().strip() == "0-7"
        assert (tmp_path / "app/cpuset.cpus").read_text() == "2-3\n"


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, str], int]:
    """Draw a legal tree of up to ten cgroups below "pod", and a set that the root can give it."""
    masks = {"": 0xFFFF, "pod": draw(st.integers(1, 0xFFFF))}
    for number in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from([path for path in masks if path]))
        part = masks[parent] & draw(st.integers(0, 0xFFFF))
        masks[f"{parent}/{number}"] = draw(st.sampled_from((masks[parent], part or masks[parent])))
    return {path: cpuset.render(mask) for path, mask in masks.items()}, draw(st.integers(1, 0xFFFF))


@given(trees())
def test_any_tree_can_be_moved_anywhere(drawn):
    before, wanted = drawn
    with tempfile.TemporaryDirectory() as folder:
        after = moved(Path(folder), before, cpuset.render(wanted)).cpus()
    for path in before:
        if path:
            parent = path.rpartition("/")[0]
            whole = before[path] == before[parent]
            assert not whole or path == "pod" or after[path] == after[parent]


@given(trees())
def test_any_tree_can_be_released(drawn):
    before, wanted = drawn
    with tempfile.TemporaryDirectory() as folder:
        tree = WatchedTree(Path(folder), before)
        with tree.watched():
            cpusets.release(str(tree.folder("pod")), 1, wanted)
        after = tree.cpus()
    assert after == {**dict.fromkeys(before, cpuset.render(wanted)), "": before[""]}


class TestOnV2:
    def cgroup(self, folder: Path, own: str | None, effective: str | None) -> str:
        if own is not None:
            (folder / "cpuset.cpus").write_text(f"{own}\n")
        if effective is not None:
            (folder / "cpuset.cpus.effective").write_text(f"{effective}\n")
        return str(folder)

    def test_one_write_is_enough(self, tmp_path):
        folder = self.cgroup(tmp_path, "0-7", "0-7")
        assert cpusets.move(folder, 2, cpuset.parse("2-3")) == cpuset.parse("2-3")
        assert (tmp_path / "cpuset.cpus").read_text().strip() == "2-3"

    def test_what_holds_already_is_not_written(self, tmp_path):
        folder = self.cgroup(tmp_path, "2-3", "2-3")
        written = (tmp_path / "cpuset.cpus").stat().st_mtime_ns
        cpusets.move(folder, 2, cpuset.parse("2-3"))
        assert (tmp_path / "cpuset.cpus").stat().st_mtime_ns == written

    @pytest.mark.parametrize(
        ("own", "effective", "cpus"),
        [
            ("0-3", "0-3", "0-3"),
            ("0-3", "0-1", "0-1"),
            ("", "0-7", "0-7"),
            ("8-9", "0-7", "0-7"),
            ("0-3", None, "0-3"),
        ],
        ids=["own", "cut", "inherited", "nothing-left", "no-effective-file"],
    )
    def test_tasks_may_use_what_is_effective(self, tmp_path, own, effective, cpus):
        assert cpusets.actual(self.cgroup(tmp_path, own, effective), 2) == cpuset.parse(cpus)

    @pytest.mark.parametrize("own", [None, ""], ids=["gone", "no-controller"])
    def test_without_a_set_there_is_none(self, tmp_path, own):
        assert cpusets.actual(self.cgroup(tmp_path, own, None), 2) is None

    def test_a_cgroup_that_is_gone_is_none(self, tmp_path):
        assert cpusets.move(str(tmp_path / "gone"), 2, 0b1) is None


def test_the_watch_notices_a_wrong_order(tmp_path):
    tree = WatchedTree(tmp_path, NODE)
    with pytest.raises(AssertionError, match="pod/app has '0-7'"), tree.watched():
        (tree.folder("pod") / "cpuset.cpus").write_text("2-7")
