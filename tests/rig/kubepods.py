"""The kubelet's part: makes a pod's cgroup in every hierarchy before its sandbox, and removes it afterwards.

The paths are the kubelet's own (`/kubepods/burstable/pod<uid>`), because the product reads them. A ledger in the rig's
folder names every pod cgroup made there. So a clean-up, even by another process, removes these and no others. A parent
such as `/kubepods` is removed only if the rig made it.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from nri_coloc.core import knobs
from tests.rig import RigError, cgroups
from tests.rig.waiting import comes

ROOT: Final = "/kubepods"
GUARANTEED: Final = "/kubepods/pod{uid}"
BURSTABLE: Final = "/kubepods/burstable/pod{uid}"
BESTEFFORT: Final = "/kubepods/besteffort/pod{uid}"

_V2_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")


def hierarchies() -> list[Path]:
    """Return the mount points of all cgroup hierarchies: each v1 controller, the named ones, the unified one."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    split = (line.partition(" - ") for line in mounts)
    found = [Path(head.split()[4]) for head, _, tail in split if tail.split()[0] in ("cgroup", "cgroup2")]
    # a cgroup that is bound over itself is a mount too, and no hierarchy
    return [path for path in found if not any(above in path.parents for above in found)]


def folders(cgroup: str) -> list[Path]:
    """Return the folders of this cgroup: one in each hierarchy that has it."""
    return [path for root in hierarchies() if (path := root / cgroup.lstrip("/")).is_dir()]


def parents(cgroup: str) -> list[str]:
    """Return the cgroups above it, nearest first, without the root."""
    return [str(above) for above in Path(cgroup).parents if above != Path("/")]


def create(cgroup: str) -> None:
    """Make a cgroup and its missing parents, in every hierarchy."""
    for root in hierarchies():
        for step in [*reversed(parents(cgroup)), cgroup]:
            path = root / step.lstrip("/")
            _hand_down(path.parent)
            path.mkdir(exist_ok=True)
            _inherit_cpuset(path)


def pinned_cpus(state_file: Path) -> frozenset[int]:
    """Return the CPUs that the kubelet's static CPU manager gave containers, by its state file."""
    state = json.loads(state_file.read_text())
    state = json.loads(state["data"]) if state.get("data") else state  # from Kubernetes 1.36 on
    pods = state.get("entries") or {}
    return frozenset(cpu for pod in pods.values() for text in pod.values() for cpu in cgroups.members(text))


def weigh(cgroup: str, shares: int) -> None:
    """Write a pod's CPU request into its cgroup; RigError if there is no such cgroup."""
    if not (found := folders(cgroup)):
        raise RigError(f"no cgroup {cgroup} to weigh")
    for folder in found:
        for name, text in (("cpu.shares", str(shares)), ("cpu.weight", str(knobs.cpu_weight(shares)))):
            if (folder / name).exists():
                (folder / name).write_text(text)


def _hand_down(parent: Path) -> None:
    """Enable the parent's controllers for its children (v2): else a child lacks their files."""
    file = parent / "cgroup.subtree_control"
    for controller in _V2_CONTROLLERS if file.exists() else ():
        with suppress(OSError):  # this hierarchy does not have the controller
            file.write_text(f"+{controller}")


def _inherit_cpuset(path: Path) -> None:
    """Fill a new cpuset (v1): a new one is empty, and an empty one takes no process and no child."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = path / name
        if (path / "cpuset.cpu_exclusive").exists() and not file.read_text().strip():
            file.write_text((path.parent / name).read_text())


def processes(cgroup: str) -> set[int]:
    """Return the processes in a cgroup and below it, in any hierarchy."""
    found: set[int] = set()
    for folder in folders(cgroup):
        for path, _, _ in os.walk(folder):
            with suppress(OSError):
                found.update(int(word) for word in Path(path, "cgroup.procs").read_text().split())
    return found


def kill(cgroup: str) -> None:
    """End every process in a cgroup."""
    for pid in processes(cgroup):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove(cgroup: str) -> bool:
    """Remove a cgroup with all below it; return False if the kernel refuses for minutes."""
    return comes(lambda: _removed(cgroup))


def take_away_leftover() -> None:
    """Remove a `/kubepods` without pods and processes, as an interrupted rig leaves it.

    A rig keeps parents that it finds, with their weights; those of a kubelet tell the product that there is one.
    """
    has_pods = any(path.is_dir() for folder in folders(ROOT) for path in folder.rglob("pod*"))
    if not (has_pods or processes(ROOT)):
        remove(ROOT)


def _removed(cgroup: str) -> bool:
    for folder in folders(cgroup):
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):  # busy until its last process is reaped
                Path(path).rmdir()
    return not folders(cgroup)


class Ledger:
    """Record the pod cgroups that were made for one rig folder and still exist, and their parents that the rig made.

    The file only grows, so a clean-up after a killed rig reads the same. A removed cgroup is struck out: so a clean-up
    takes time for the pods that exist, not for those of hundreds of tests before.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cgroups"
        self._lock = Lock()

    def add(self, cgroup: str) -> None:
        """Record a pod's cgroup before it is made, and each new parent: "ours" if it has to be made, else "keep"."""
        with self._lock:
            known = {path for kind, path in self._notes() if kind in ("keep", "ours")}
            new = [above for above in parents(cgroup) if above not in known]
            self._write(
                [*(f"{'keep' if folders(above) else 'ours'} {above}" for above in new), f"pod {cgroup}"]
            )

    def strike(self, cgroup: str) -> None:
        """Record that a pod's cgroup is gone."""
        with self._lock:
            self._write([f"gone {cgroup}"])

    def cgroups(self) -> list[str]:
        """Return the recorded pod cgroups that are not gone."""
        found: dict[str, None] = {}
        for kind, cgroup in self._notes():
            if kind == "pod":
                found[cgroup] = None
            elif kind == "gone":
                found.pop(cgroup, None)
        return list(found)

    def removable(self) -> list[str]:
        """Return the cgroups that may be removed: the pod cgroups, then the parents that are ours, children first."""
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
