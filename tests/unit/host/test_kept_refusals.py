"""A returned refusal is freed with its last reference; a kept traceback would hold every frame."""

import ctypes
import errno
import gc
import resource
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from nri_coloc.core.scheduler_hints import Hint
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import oom_scores, scheduler
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import FileValue, Target
from tests.rig import whole_process

HIGH: Final = FileValue("memory", "memory.high", "5")


class Kernel:
    """A cgroup and a process whose files can be read but not written, and a scheduler that refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal = Journal(str(root / "journal"), str(root))
        for name in ("cg/pod/cpu.weight", "cg/pod/memory.high", "proc/7/oom_score_adj"):
            self._refuses(name)
        for name in ("cpuset.cpus", "memory.low", "cpu.max"):
            (root / "cg/pod" / name).mkdir()
        layout = CgroupLayout(2, **dict.fromkeys(("cpu", "cpuset", "memory", "blkio"), str(root / "cg")))
        self.writer = CgroupWriter(layout, self.journal, str(root), lambda _: None)

    def _refuses(self, name: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to("/dev/full")

    def syscall(self, *_: object) -> int:
        ctypes.set_errno(errno.EPERM)
        return -1

    def put_back(self) -> tuple[KernelInterfaceError, ...]:
        self.journal.note(str(self.root / "cg/pod/cpu.weight"), "39")
        return self.writer.put_back("pod", frozenset())

    def burst(self) -> tuple[KernelInterfaceError, ...]:
        (self.root / "cg/a").mkdir()
        (self.root / "cg/a/cpu.max").write_text("100000 100000\n")
        (self.root / "cg/a/cpu.max.burst").write_text("0\n")
        with whole_process.limited(resource.RLIMIT_FSIZE, 0):
            return self.writer.bandwidth(PodBandwidth("gone", {"a": Share(burst=5)}), 0.0).failures


REFUSED: Final[dict[str, Callable[[Kernel], tuple[KernelInterfaceError | None, ...]]]] = {
    "a value": lambda kernel: kernel.writer.apply(Target("pod", values=(HIGH,))).failures,
    "CPUs": lambda kernel: kernel.writer.apply(Target("pod", 3)).failures,
    "a bound": lambda kernel: kernel.writer.bound("pod", (HIGH,)).failures,
    "a protection": lambda kernel: kernel.writer.protect("pod", "memory.low", 5).failures,
    "what was there before": Kernel.put_back,
    "a quota that cannot be read": lambda kernel: kernel.writer.bandwidth(PodBandwidth("pod"), 0.0).failures,
    "a burst": Kernel.burst,
    "a score": lambda kernel: (kernel.writer.score("", (7,), -5),),
    "a restored score": lambda kernel: (
        oom_scores.reset(str(kernel.root / "cg/pod"), str(kernel.root / "proc"), "5", 7),
    ),
    "a hint": lambda _: (scheduler.tell(7, Hint()),),
    "a hint taken back": lambda _: (scheduler.reset(7),),
}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path)
    monkeypatch.setattr(scheduler, "_libc", kernel)
    gc.disable()
    yield kernel
    gc.enable()


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_ends_without_the_collector_of_cycles(kernel: Kernel, what: str):
    assert _kept(kernel, what)() is None


def _kept(kernel: Kernel, what: str) -> "weakref.ref[KernelInterfaceError]":
    found = REFUSED[what](kernel)
    assert len(found) == 1
    assert isinstance(found[0], KernelInterfaceError)
    return weakref.ref(found[0])
