"""Quotas, bursts and hints on this machine's own kernel, with a writer that is killed between journal and value."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.core.scheduler_hints import Hint, Policy
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, scheduler
from nri_coloc.host.bandwidth_files import BURSTS, QUOTAS, SHOWN_S, Bandwidths, PodBandwidth, Share
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.scheduler import IDLE
from tests.rig import kubepods, resizing
from tests.rig.journals import load, restored
from tests.rig.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")

QUOTA = 100_000
WRITES = 7
"""That raising two containers' quotas and bursts takes, with their pod's."""

KILLED_BEFORE = """
import os, signal, sys
from nri_coloc.host import files
from nri_coloc.host.bandwidth_files import SHOWN_S, PodBandwidth, Share
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host import cgroup_layout

path, journal, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
write = files.write

def killed(file, text):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return write(file, text)

files.write = killed
writer = CgroupWriter(cgroup_layout.detect("/"), Journal(journal), "/", lambda _: None)
shares = {f"{path}/a": Share(100000, 150000, 50000), f"{path}/b": Share(100000, 300000, 100000)}
for now in (0.0, SHOWN_S):  # on cgroup v1 the pod's quota rises first
    writer.bandwidth(PodBandwidth(path, shares), now)
"""


class Pod:
    """Make a pod's cgroup with two containers', in every hierarchy; quotas are set as the kubelet and runc do."""

    def __init__(self, state: Path) -> None:
        self.path = f"nri-coloc-test-bandwidths-{os.getpid()}/pod"
        self.layout = cgroup_layout.detect("/")
        self.journal = state / "restore.jsonl"
        for name in ("a", "b"):
            kubepods.create(f"/{self.path}/{name}")
        for path, quota in ((self.path, 2 * QUOTA), (f"{self.path}/a", QUOTA), (f"{self.path}/b", QUOTA)):
            file = self.file(path, QUOTAS)
            file.write_text(str(quota) if self.layout.version == 1 else f"{quota} 100000")

    def file(self, path: str, names: tuple[str, ...]) -> Path:
        return Path(self.layout.folder("cpu", path) or "", names[self.layout.version - 1])

    def files(self) -> dict[str, str]:
        paths = (self.path, f"{self.path}/a", f"{self.path}/b")
        every = [self.file(path, names) for path in paths for names in (QUOTAS, BURSTS)]
        return {str(file): file.read_text() for file in every if file.exists()}

    def writer(self) -> CgroupWriter:
        return CgroupWriter(self.layout, Journal(str(self.journal)), "/", lambda _: None)


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    made = Pod(tmp_path)
    yield made
    assert kubepods.remove(f"/{made.path.partition('/')[0]}")


def written(writer: CgroupWriter, wanted: PodBandwidth) -> tuple[KernelInterfaceError, ...]:
    """Write a pod's values until nothing waits and return the refusals."""
    clock = itertools.count(0.0, SHOWN_S)
    return next(done for now in clock if not (done := writer.bandwidth(wanted, now)).is_waiting).failures


@pytest.mark.parametrize("survived", range(WRITES + 1))
def test_a_writer_killed_anywhere_leaves_a_complete_journal(pod, survived):
    before = pod.files()
    command = [sys.executable, "-c", KILLED_BEFORE, pod.path, str(pod.journal), str(survived)]
    subprocess.run(command, timeout=PATIENCE_SECONDS, check=False)
    done = restored(pod.journal, "/", pod.layout.version)
    assert done.refused == ()
    assert pod.files() == before
    assert load(str(pod.journal)) == {}


def test_the_next_life_goes_on_where_a_killed_one_stood(pod):
    before = pod.files()
    command = [sys.executable, "-c", KILLED_BEFORE, pod.path, str(pod.journal), "2"]
    subprocess.run(command, timeout=PATIENCE_SECONDS, check=False)
    writer = pod.writer()
    for quotas in ((150_000, 300_000), (QUOTA, QUOTA)):
        shares = {f"{pod.path}/{k}": Share(QUOTA, q, 0) for k, q in zip("ab", quotas, strict=True)}
        assert written(writer, PodBandwidth(pod.path, shares)) == ()
    assert pod.files() == before


def test_the_kernel_takes_a_burst_up_and_down_with_its_quota(pod):
    writer = pod.writer()
    if not pod.file(pod.path, BURSTS).exists():
        return  # a kernel without bursts
    for quota, burst in ((QUOTA, QUOTA), (3 * QUOTA, 3 * QUOTA), (QUOTA, QUOTA // 2)):
        share = {f"{pod.path}/a": Share(QUOTA, quota, burst), f"{pod.path}/b": Share(QUOTA)}
        assert written(writer, PodBandwidth(pod.path, share)) == ()
        assert pod.file(f"{pod.path}/a", BURSTS).read_text() == f"{burst}\n"
        assert pod.file(pod.path, BURSTS).read_text() == f"{burst}\n"


class KernelsQuotas:
    """The pod's files as the kubelet and the runtime write them; the kernel may refuse."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def get(self, path: str) -> int:
        text = self._pod.file(path, QUOTAS).read_text().split()[0]
        return -1 if text == "max" else int(text)

    def set(self, path: str, quota: int) -> None:
        text = str(quota) if self._pod.layout.version == 1 else f"{quota} 100000"
        self._pod.file(path, QUOTAS).write_text(text)


@pytest.mark.parametrize("seed", range(8))
def test_kernel_refuses_no_resize_beside_raises(pod, seed):
    journal = Journal(str(pod.journal))
    ours = Bandwidths(lambda path: pod.layout.folder("cpu", path), pod.layout.version, journal)
    owns = {f"{pod.path}/a": QUOTA, f"{pod.path}/b": QUOTA}
    resizing.play(resizing.Pod(pod.path, KernelsQuotas(pod), ours, owns), seed)


def test_hints_reach_all_tasks_and_restore_finds_later_ones(pod):
    script = "read go; sleep 600 & sleep 600 & echo born; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert shell.stdin is not None
    assert shell.stdout is not None
    before = scheduler.read(shell.pid)
    procs = Path(pod.layout.folder("cpu", f"{pod.path}/a") or "", "cgroup.procs")
    try:
        procs.write_text(str(shell.pid))
        assert pod.writer().hint(f"{pod.path}/a", Hint(Policy.IDLE)) is None
        shell.stdin.write("go\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "born\n"
        members = [int(pid) for pid in procs.read_text().split()]
        assert len(members) == 3
        assert {getattr(scheduler.read(pid), "policy", None) for pid in members} == {IDLE}
        done = restored(pod.journal, "/", pod.layout.version)
        assert (done.refused, len(done.done)) == ((), 1)
        assert {scheduler.read(pid) for pid in members} == {before}
    finally:
        for pid in procs.read_text().split():
            os.kill(int(pid), 9)
        shell.communicate(timeout=PATIENCE_SECONDS)
