"""A test bed of the memory worker: two reclaimed pods on a tree of plain files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nri_coloc.core.lending import Part
from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.memory.worker import Bounds, MemoryWorker
from nri_coloc.sim.cgroup_tree import CgroupTree
from tests.rig.waiting import wait_until
from tests.unit.parts import Heard, a_node, a_report, start_pod

GIB = 1 << 30
BATCH, SECOND = "kubepods/podbatch", "kubepods/podsecond"
NO_LIMIT = {1: str((1 << 63) - 4096), 2: "max"}
FILES = {1: ("memory.limit_in_bytes",), 2: ("memory.high", "memory.max")}


class Rig:
    def __init__(self, tmp_path: Path, version: int) -> None:
        self.version = version
        self.root, self.journal = tmp_path / "host", str(tmp_path / "journal")
        self.tree = CgroupTree(self.root, version, 0xFF, 1)
        self.tree.plant()
        self.node = a_node()
        for name in ("batch", "second"):
            start_pod(self.node, name)
            self.tree.make(f"kubepods/pod{name}")
        self.heard: Heard
        self.writer: Any
        self.worker = self.again()

    def again(self) -> MemoryWorker:
        """Return the worker of a new process on the same files."""
        report, self.heard = a_report(self.node)
        layout = cgroup_layout.detect(str(self.root))
        journal = Journal(self.journal, str(self.root))
        self.writer = CgroupWriter(layout, journal, str(self.root), lambda _: None)
        return MemoryWorker(self.node, self.writer, report)

    def of(self, path: str) -> list[int | None]:
        """Return the limits of a cgroup, bytes; None is no limit."""
        texts = [self.tree.read(path, name) or "" for name in FILES[self.version]]
        return [int(text) if text.isdigit() and int(text) < 1 << 62 else None for text in texts]

    def expected(self, high: int, limit: int) -> list[int | None]:
        return [limit] if self.version == 1 else [high, limit]

    @property
    def nothing(self) -> list[int | None]:
        return [None] * len(FILES[self.version])


def bounds(high: int = GIB, limit: int = 2 * GIB, pod: str = "batch") -> dict[str, Bounds]:
    return {f"kubepods/pod{pod}": Bounds(Part(high, limit), pod)}


def becomes(look: Callable[[], bool], what: str) -> None:
    wait_until(look, 20, what)
