"""The kubelet's part: makes a pod's cgroup in every hierarchy before its sandbox, and removes it afterwards.

The paths are the kubelet's own (`/kubepods/burstable/pod<uid>`), since that is what the product reads.
A ledger in the rig's folder names every pod cgroup made there, so that whoever cleans up, even another
process, removes these and no others; a parent such as `/kubepods` goes only if it was not there before.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from nri_coloc.core import weights
from tests.rig.waiting import comes

GUARANTEED: Final = "/kubepods/pod{uid}"
BURSTABLE: Final = "/kubepods/burstable/pod{uid}"
BESTEFFORT: Final = "/kubepods/besteffort/pod{uid}"

_V2_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")


def hierarchies() -> list[Path]:
    """The mount points of all cgroup hierarchies: each v1 controller, the named ones, the unified one."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    split = (line.partition(" - ") for line in mounts)
    found = [Path(head.split()[4]) for head, _, tail in split if tail.split()[0] in ("cgroup", "cgroup2")]
    # a cgroup that is bound over itself is a mount too, and no hierarchy
    return [path for path in found if not any(above in path.parents for above in found)]


def folders(cgroup: str) -> list[Path]:
    """Where this cgroup exists: one folder in each hierarchy that has it."""
    return [path for root in hierarchies() if (path := root / cgroup.lstrip("/")).is_dir()]


def parents(cgroup: str) -> list[str]:
    """The cgroups above it, nearest first, without the root."""
    return [str(above) for above in Path(cgroup).parents if above != Path("/")]


def create(cgroup: str) -> None:
    """Make it, and what is missing above it, in every hierarchy."""
    for root in hierarchies():
        for step in [*reversed(parents(cgroup)), cgroup]:
            path = root / step.lstrip("/")
            _hand_down(path.parent)
            path.mkdir(exist_ok=True)
            _inherit_cpuset(path)


def weigh(cgroup: str, shares: int) -> None:
    """Write a pod's CPU request into its cgroup."""
    for folder in folders(cgroup):
        for name, text in (("cpu.shares", str(shares)), ("cpu.weight", str(weights.cpu_weight(shares)))):
            if (folder / name).exists():
                (folder / name).write_text(text)


def _hand_down(parent: Path) -> None:
    """v2: a child has a controller's files only when its parent hands the controller down."""
    file = parent / "cgroup.subtree_control"
    for controller in _V2_CONTROLLERS if file.exists() else ():
        with suppress(OSError):  # this hierarchy does not have the controller
            file.write_text(f"+{controller}")


def _inherit_cpuset(path: Path) -> None:
    """v1: a new cpuset is empty, and an empty one takes no process and no child."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = path / name
        if (path / "cpuset.cpu_exclusive").exists() and not file.read_text().strip():
            file.write_text((path.parent / name).read_text())


def processes(cgroup: str) -> set[int]:
    """The processes in it and below it, in any hierarchy."""
    found: set[int] = set()
    for folder in folders(cgroup):
        for path, _, _ in os.walk(folder):
            with suppress(OSError):
                found.update(int(word) for word in Path(path, "cgroup.procs").read_text().split())
    return found


def kill(cgroup: str) -> None:
    """End every process in it."""
    for pid in processes(cgroup):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove(cgroup: str) -> bool:
    """Remove it with all below it; False when the kernel would not let go of it in minutes."""
    return comes(lambda: _removed(cgroup))


def _removed(cgroup: str) -> bool:
    for folder in folders(cgroup):
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):  # busy until its last process is reaped
                Path(path).rmdir()
    return not folders(cgroup)


class Ledger:
    """Which pod cgroups were made for one rig folder and not removed yet, and which of their parents with them.

    A file that only ever grows, so that whoever cleans up after a rig that was killed reads the same. What is gone is
    struck out: a clean-up costs by the pods that are there, not by those of hundreds of tests before.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cgroups"
        self._lock = Lock()

    def add(self, cgroup: str) -> None:
        """Note a pod's cgroup before it is made, and of what is above it what has to be made as well."""
        with self._lock:
            known = {path for kind, path in self._notes() if kind in ("keep", "ours")}
            new = [above for above in parents(cgroup) if above not in known]
            self._write(
                [*(f"{'keep' if folders(above) else 'ours'} {above}" for above in new), f"pod {cgroup}"]
            )

    def strike(self, cgroup: str) -> None:
        """Note that a pod's cgroup is gone."""
        with self._lock:
            self._write([f"gone {cgroup}"])

    def cgroups(self) -> list[str]:
        """The pod cgroups that were noted and are not gone."""
        found: dict[str, None] = {}
        for kind, cgroup in self._notes():
            if kind == "pod":
                found[cgroup] = None
            elif kind == "gone":
                found.pop(cgroup, None)
        return list(found)

    def removable(self) -> list[str]:
        """What may be removed, children before parents: the pod cgroups, then the parents that are ours."""
        ours = [cgroup for kind, cgroup in self._notes() if kind == "ours"]
        return [*self.cgroups(), *sorted(ours, key=len, reverse=True)]

    def _write(self, notes: list[str]) -> None:
        with self._file.open("a") as file:
            file.write("".join(f"{note}\n" for note in notes))

    def _notes(self) -> Iterator[tuple[str, str]]:
        text = self._file.read_text() if self._file.exists() else ""
        for line in text.splitlines():
            kind, _, cgroup = line.partition(" ")
            yield kind, cgroup
