"""OOM scores that the daemon set are restored; a score that a process set itself stays."""

from pathlib import Path

import pytest

from nri_coloc.host import oom_scores, restoration
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from tests.rig.journals import restored


class Host:
    """A container's cgroup with a child's below it, and processes with scores."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal = str(root / "restore.jsonl")
        (root / "cg/pod/below").mkdir(parents=True)
        (root / "cg/pod/tasks").write_text("")
        self.members("7", "8\n9\n0")
        layout = CgroupLayout(1, **dict.fromkeys(("cpu", "cpuset", "memory", "blkio"), str(root / "cg")))
        self.writer = CgroupWriter(layout, Journal(self.journal, str(root)), str(root), lambda _: None)

    def members(self, own: str, below: str) -> None:
        (self.root / "cg/pod/cgroup.procs").write_text(own)
        (self.root / "cg/pod/below/cgroup.procs").write_text(below)

    def scored(self, **scores: int) -> None:
        for pid, score in scores.items():
            folder = self.root / "proc" / pid.removeprefix("p")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "oom_score_adj").write_text(f"{score}\n")

    def score(self, pid: int) -> str:
        return (self.root / f"proc/{pid}/oom_score_adj").read_text().strip()

    def restore(self) -> restoration.Restored:
        return restored(self.journal, str(self.root), 1)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_score_of_ours_is_journalled_and_put_back(host):
    host.scored(p7=900, p8=900, p9=900)
    assert host.writer.score("pod", [7, 8], 1000) is None
    host.scored(p9=1000)  # born after the scores were set
    assert host.restore().done == ("/cg/pod/tasks",)
    assert [host.score(pid) for pid in (7, 8, 9)] == ["900"] * 3


def test_a_threaded_cgroup_below_keeps_no_score(host):
    (host.root / "cg/pod/below/cgroup.procs").unlink()
    (host.root / "cg/pod/below/cgroup.procs").mkdir()  # a read fails, as that of a threaded cgroup does
    host.scored(p7=900)
    host.writer.score("pod", [7], 1000)
    host.restore()
    assert host.score(7) == "900"


def test_the_first_score_before_us_counts(host):
    host.scored(p7=900)
    host.writer.score("pod", [7], 1000)
    host.writer.score("pod", [7], 800)
    host.restore()
    assert host.score(7) == "900"


def test_a_score_that_a_process_gave_itself_stays(host):
    host.scored(p7=900, p8=-5)
    host.writer.score("pod", [7], 1000)
    host.restore()
    assert [host.score(pid) for pid in (7, 8)] == ["900", "-5"]


def test_processes_keep_their_scores_if_the_first_has_it(host):
    host.scored(p7=1000, p8=500)
    host.writer.score("pod", [7, 8], 1000)
    assert host.score(8) == "500"


def test_what_holds_already_is_neither_written_nor_journalled(host):
    host.scored(p7=1000)
    host.writer.score("pod", [7], 1000)
    assert host.restore().done == ()


def test_a_container_without_a_cgroup_path_is_told_all_the_same(host):
    host.scored(p7=900)
    assert host.writer.score("", [7], 1000) is None
    assert host.score(7) == "1000"


def test_a_refusal_is_told_and_kept_for_another_try(host):
    host.scored(p7=900)
    host.writer.score("pod", [7], 1000)
    (host.root / "proc/7/oom_score_adj").chmod(0o400)
    file = host.root / "proc/7/oom_score_adj"
    file.unlink()
    file.symlink_to("/dev/full")
    assert oom_scores.reset(str(host.root / "cg/pod"), str(host.root / "proc"), "900") is not None
    assert [str(error.path) for error in host.restore().refused] == [str(file)]


def test_a_cgroup_whose_processes_are_gone_needs_nothing(host):
    assert oom_scores.reset(str(host.root / "cg/pod"), str(host.root / "proc"), "900") is None


def test_the_first_process_is_told_where_the_cgroup_shows_none(host):
    host.members("0", "0")
    host.scored(p7=1000)
    assert oom_scores.reset(str(host.root / "cg/pod"), str(host.root / "proc"), "900", 7) is None
    assert host.score(7) == "900"
