"""A cgroup v1 cpuset tree in a folder, whose rule is checked at every moment.

The kernel refuses a write after which a child would have a CPU that its parent lacks, or no CPU. A plain folder
refuses nothing. So the interpreter's own audit events (PEP 578) are used: when a file of the tree is opened, earlier
writes are complete, and the whole tree must obey the rule. The tested code is not changed by this.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nri_coloc.core import cpuset

WATCHED: "list[WatchedTree]" = []


def _listen(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and WATCHED and isinstance(args[0], str):
        for tree in tuple(WATCHED):
            tree.opened(args[0], args[2])


sys.addaudithook(_listen)  # cannot be removed again: it ignores all files unless a tree is watched


class WatchedTree:
    """Cgroups by path, each with its CPUs or memory nodes as text; the root ("") is a cgroup too."""

    def __init__(self, root: Path, cpus: Mapping[str, str], name: str = "cpuset.cpus") -> None:
        self.root = root / "cpuset"
        self.name = name
        self.written: list[str] = []
        self.broken: list[str] = []
        for path, text in cpus.items():
            self.folder(path).mkdir(parents=True, exist_ok=True)
            (self.folder(path) / self.name).write_text(f"{text}\n")

    def folder(self, path: str) -> Path:
        return self.root / path

    def cpus(self) -> dict[str, str]:
        """Return every cgroup's CPUs, as text, by path."""
        return {
            str(file.parent.relative_to(self.root)).removeprefix("."): file.read_text().strip()
            for file in sorted(self.root.rglob(self.name))
        }

    @contextmanager
    def watched(self) -> Iterator["WatchedTree"]:
        """Check the rule while the body runs, and once more at its end."""
        WATCHED.append(self)
        try:
            yield self
        finally:
            WATCHED.remove(self)
        self._check("the end")
        assert not self.broken, self.broken

    def opened(self, path: str, flags: int) -> None:
        if not path.startswith(str(self.root)):
            return
        WATCHED.remove(self)  # this reading of the tree must not be checked
        try:
            self._check(path)
        finally:
            WATCHED.append(self)
        if flags & os.O_WRONLY:
            self.written.append(str(Path(path).parent.relative_to(self.root)).removeprefix("."))

    def _check(self, moment: str) -> None:
        cpus = self.cpus()
        for path, text in cpus.items():
            own = cpuset.parse(text)
            above = cpuset.parse(cpus[path.rpartition("/")[0]]) if path else own
            if not own or own & ~above:
                self.broken.append(f"before {moment}: {path or 'the root'} has {text!r}")
