"""The probe finds the files and features of this machine."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core.readings import Signal
from nri_coloc.core.scheduler_hints import SchedulerCapability
from nri_coloc.host import cgroup_layout, scheduler
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.service import probe
from nri_coloc.sim.node import Node
from tests.rig import whole_process


def look(node: Node, version=(0, 12, 1), pid: int = 0):
    return found(str(node.host_root), version, pid)


def found(root: str, version=(0, 12, 1), pid: int = 0):
    return probe.capability(cgroup_layout.detect(root), version, root, pid)


def test_a_v2_machine_has_v2s_files(tmp_path):
    can = look(Node(tmp_path, cgroup=2))
    assert can.cgroup == 2
    assert {"memory.high", "memory.min", "io.weight", "cpu.max.burst"} <= can.files
    assert can.unified("io.weight")


def without_pods(tmp_path: Path) -> Node:
    """Return a v2 machine before the kubelet starts: systemd's slices alone, without an I/O controller."""
    node = Node(tmp_path, cgroup=2)
    root = node.host_root / "sys/fs/cgroup"
    (root / "kubepods").rename(root / "later")
    (root / "system.slice/io.weight").unlink()
    return node


def test_a_machine_without_pods_tells_only_what_others_have(tmp_path):
    can = look(without_pods(tmp_path))
    assert "memory.high" in can.files
    assert "io.weight" not in can.files
    assert not can.seen_below


def test_the_first_pod_shows_which_files_pods_have(tmp_path):
    node = without_pods(tmp_path)
    layout, before = cgroup_layout.detect(str(node.host_root)), look(node)
    assert probe.with_files_of_pods(layout, (), before) is before
    (node.host_root / "sys/fs/cgroup/later").rename(node.host_root / "sys/fs/cgroup/kubepods")
    pods = ("kubepods/burstable",)
    after = probe.with_files_of_pods(layout, pods, before)
    assert after == look(node)
    assert "io.weight" in after.files
    assert probe.with_files_of_pods(layout, pods, after) is after


def test_a_pods_own_cgroup_shows_its_files(tmp_path):
    node = without_pods(tmp_path)
    layout, before = cgroup_layout.detect(str(node.host_root)), look(node)
    after = probe.with_files_of_pods(layout, ("gone", "later/burstable"), before)
    assert "io.weight" in after.files
    assert after.seen_below


def two_kubelets(tmp_path: Path) -> Node:
    """Return a v2 machine with the cgroups of two kubelets; the second one has no I/O controller."""
    node = Node(tmp_path, cgroup=2)
    node.replace_kubelet("kubelet")
    node.tree.make("kubelet/kubepods/pod2")
    for file in (node.host_root / "sys/fs/cgroup/kubelet").rglob("io.weight"):
        file.unlink()
    return node


def test_kubepods_of_two_kubelets_show_no_files(tmp_path):
    assert not look(two_kubelets(tmp_path)).seen_below


def test_first_pod_shows_its_kubelets_files(tmp_path):
    node = two_kubelets(tmp_path)
    layout, before = cgroup_layout.detect(str(node.host_root)), look(node)
    second = probe.with_files_of_pods(layout, ("kubelet/kubepods/pod2",), before)
    assert (set(second.seen_below), "io.weight" in second.files) == ({"kubelet/kubepods"}, False)
    first = probe.with_files_of_pods(layout, ("kubepods/burstable",), before)
    assert (set(first.seen_below), "io.weight" in first.files) == ({"kubepods"}, True)


def test_files_of_two_kubelets_pods_are_common(tmp_path):
    node = two_kubelets(tmp_path)
    layout, pods = cgroup_layout.detect(str(node.host_root)), ("kubepods/burstable", "kubelet/kubepods/pod2")
    both = probe.capability(layout, (0, 12, 1), str(node.host_root), pods=pods)
    assert both.seen_below == {"kubepods", "kubelet/kubepods"}
    assert {"io.weight", "memory.high"} & both.files == {"memory.high"}
    alone = probe.with_files_of_pods(layout, pods[:1], both)
    assert "io.weight" in alone.files


def test_files_stay_known_without_pods(tmp_path):
    node = two_kubelets(tmp_path)
    layout = cgroup_layout.detect(str(node.host_root))
    known = probe.with_files_of_pods(layout, ("kubepods/burstable",), look(node))
    assert probe.with_files_of_pods(layout, (), known) is known


def test_a_v1_machine_has_v1s_files_alone(tmp_path):
    can = look(Node(tmp_path, cgroup=1))
    assert can.cgroup == 1
    assert {"blkio.bfq.weight", "cpu.cfs_burst_us", "cpuset.cpus"} <= can.files
    assert not can.unified("io.weight")


def test_a_file_that_the_kernel_lacks_is_not_there(tmp_path):
    node = Node(tmp_path, cgroup=2)
    for folder in (node.host_root / "sys/fs/cgroup").rglob("io.weight"):
        folder.unlink()
    assert "io.weight" not in look(node).files


@pytest.mark.parametrize(("version", "takes"), [((0, 6, 1), False), ((0, 8, 0), True), ((0, 12, 1), True)])
def test_an_old_runtime_takes_no_oom_score(version, takes, tmp_path):
    assert look(Node(tmp_path, cgroup=1), version).oom_at_create is takes


@pytest.mark.parametrize(
    ("status", "may"),
    [
        ("Name:\tcontainerd\nCapEff:\t000001ffffffffff\n", True),
        ("CapEff:\t0000000001000000\n", True),
        ("CapEff:\t0000000000ffffff\n", False),
        ("Name:\tcontainerd\n", False),
        ("CapEff:\n", False),
        ("CapEff:\tnonsense\n", False),
        ("", False),
        ("Name:\t\udcff\nCapEff:\t000001ffffffffff\n", True),
    ],
)
def test_the_right_to_lower_scores_is_a_capability(status, may, tmp_path):
    node = Node(tmp_path, cgroup=1)
    proc = node.host_root / "proc/77"
    proc.mkdir(parents=True)
    (proc / "status").write_text(status, errors="surrogateescape")
    assert look(node, pid=77).oom_least == (-1000 if may else 0)


@pytest.mark.parametrize("pid", [0, -1, 99])
def test_a_runtime_that_cannot_be_seen_is_taken_not_to(pid, tmp_path):
    assert look(Node(tmp_path, cgroup=1), pid=pid).oom_least == 0


@pytest.mark.parametrize(
    ("own", "least"), [("-999\n", -999), ("300\n", 300), ("0\n", 0), ("", 0), ("none\n", 0), ("9" * 5000, 0)]
)
def test_without_the_capability_it_may_lower_a_score_to_its_own(own, least, tmp_path):
    node = Node(tmp_path, cgroup=1)
    proc = node.host_root / "proc/77"
    proc.mkdir(parents=True)
    (proc / "oom_score_adj").write_text(own)
    assert look(node, pid=77).oom_least == least


def test_a_name_in_bytes_hides_no_capability(tmp_path):
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/status").write_bytes(b"Name:\t\xff\nCapEff:\t000001ffffffffff\n")
    assert found(str(tmp_path), pid=7).oom_least == -1000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_resctrl_where_we_may_not_look_is_none():
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        (Path(root) / "sys/fs/resctrl").mkdir(parents=True)
        (Path(root) / "sys/fs/resctrl").chmod(0o700)
        with whole_process.as_user(65534):
            assert not found(root).resctrl


def test_resctrl_is_there_when_it_is_mounted(tmp_path: Path):
    node = Node(tmp_path, cgroup=2)
    assert not look(node).resctrl
    (node.host_root / "sys/fs/resctrl").mkdir()
    (node.host_root / "sys/fs/resctrl/schemata").write_text("L3:0=ff\n")
    assert look(node).resctrl


@pytest.mark.parametrize(
    ("release", "is_eevdf"),
    [
        ("6.6.0", True),
        ("6.18.44-cloud", True),
        ("7.0", True),
        ("6.5.13-1", False),
        ("5.15.0", False),
        ("unknown", False),
    ],
)
def test_the_fair_class_is_known_by_the_kernels_release(release, is_eevdf):
    assert probe.eevdf(release) is is_eevdf


class TestPlaceForCpus:
    @pytest.mark.parametrize("version", [1, 2])
    def test_a_pods_cgroup_with_cpuset_is_one(self, version, tmp_path):
        assert no_place(Node(tmp_path, cgroup=version)) == ""

    def test_a_machine_without_cpuset_has_none(self):
        assert "mount cgroup v2" in probe.no_place_for_cpus(CgroupLayout(1), ())

    def test_a_kernel_without_the_controller_has_none(self, tmp_path):
        node = Node(tmp_path, cgroup=2)
        (node.host_root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu io memory pids\n")
        assert "cgroup_disable=cpuset" in no_place(node)

    def test_pods_whose_parent_hands_down_no_cpuset_have_none(self, tmp_path):
        node = Node(tmp_path, cgroup=2)
        for name in ("cpuset.cpus", "cpuset.mems"):
            for file in (node.host_root / "sys/fs/cgroup/kubepods").rglob(name):
                file.unlink()
        assert no_place(node) == (
            "/kubepods/burstable has no cpuset.cpus; write +cpuset to cgroup.subtree_control of /kubepods"
        )

    def test_before_the_first_pod_nothing_is_wrong(self, tmp_path):
        assert no_place(without_pods(tmp_path)) == ""


def no_place(node: Node) -> str:
    layout = cgroup_layout.detect(str(node.host_root))
    return probe.no_place_for_cpus(layout, ("kubepods/gone", "kubepods/burstable"))


class TestStallSignal:
    @staticmethod
    def of(node: Node) -> Signal | None:
        root = str(node.host_root)
        return probe.stall_signal(cgroup_layout.detect(root), root)

    @staticmethod
    def count(node: Node, text: str) -> None:
        (node.host_root / "proc/1").mkdir()
        (node.host_root / "proc/1/schedstat").write_text(text)

    @pytest.mark.parametrize("version", [1, 2])
    def test_it_is_pressure_where_the_kernel_tells_that_of_cgroups(self, version, tmp_path):
        node = Node(tmp_path, cgroup=version)
        self.count(node, "5 6 7\n")
        assert self.of(node) is Signal.PSI
        root = str(node.host_root)
        assert "PSI" not in probe.remarks(cgroup_layout.detect(root), root)

    @pytest.mark.parametrize("version", [1, 2])
    def test_it_is_run_queue_delay_where_there_is_no_pressure(self, version, tmp_path):
        node = Node(tmp_path, "no-psi", cgroup=version)
        self.count(node, "5 6 7\n")
        assert self.of(node) is Signal.RUN_DELAY
        root = str(node.host_root)
        assert (
            "no PSI: CPU stalls of online pods are measured by the run-queue delay of their"
            in probe.remarks(cgroup_layout.detect(root), root)
        )

    def test_without_its_hierarchy_machine_pressure_is_of_no_use(self, tmp_path):
        node = Node(tmp_path, cgroup=1)
        self.count(node, "5 6 7\n")
        layout = replace(cgroup_layout.detect(str(node.host_root)), unified=None)
        assert probe.stall_signal(layout, str(node.host_root)) is Signal.RUN_DELAY

    @pytest.mark.parametrize("text", [None, "0 0 0\n"])
    def test_a_kernel_that_counts_neither_tells_nothing(self, text, tmp_path):
        node = Node(tmp_path, "no-psi")
        if text is not None:
            self.count(node, text)
        assert self.of(node) is None
        root = str(node.host_root)
        assert "no PSI: CPU stalls of online pods are not measured" in probe.remarks(
            cgroup_layout.detect(root), root
        )


class TestScheduling:
    def found(self, monkeypatch, root: Path, tried: SchedulerCapability | None, *, capable: bool):
        """Return the scheduling capability after a trial on a thread of its own, and the sentences about it."""
        status = root / f"proc/{os.getpid()}/status"
        status.parent.mkdir(parents=True)
        status.write_text(f"Name:\tx\nCapEff:\t{capable << probe.CAP_SYS_NICE:016x}\n")
        monkeypatch.setattr(scheduler, "probe", lambda _: tried)
        said: list[str] = []
        return probe.scheduling(str(root), said.append), said

    def test_with_the_capability_any_task_comes_back(self, monkeypatch, tmp_path):
        tried = SchedulerCapability(slices=True, returns=True)
        assert self.found(monkeypatch, tmp_path, tried, capable=True) == (tried, [])

    @pytest.mark.parametrize(
        ("returns", "capable"), [(True, False), (False, True)], ids=["our-limit", "failed"]
    )
    def test_without_it_others_do_not_and_that_is_said(self, monkeypatch, tmp_path, returns, capable):
        tried = SchedulerCapability(slices=True, returns=returns)
        found, said = self.found(monkeypatch, tmp_path, tried, capable=capable)
        assert found == SchedulerCapability(slices=True)
        assert ["SCHED_IDLE" in sentence for sentence in said] == [True]

    def test_where_nothing_may_be_told_nothing_is_said(self, monkeypatch, tmp_path):
        assert self.found(monkeypatch, tmp_path, None, capable=False) == (None, [])
