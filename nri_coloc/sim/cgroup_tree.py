"""Simulate a cgroup hierarchy in a folder, as the kernel, runc and the kubelet create, write and remove it.

It knows paths, files and effective sets. Unlike a kernel it cannot refuse another program's write (EBUSY, EINVAL). So
the simulated runtime calls `fits` before a write that a kernel could refuse.

Files do not change by themselves. If a written set is effective, the effective file is a hard link to the written
file. If a set is inherited, it is a hard link to the parent's effective file. So a write shows in the effective file
at once. `settle` sets these links again when the relation changes: a moment after another program's write.
`effective` is computed from the written files and is never late.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import RLock

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import bent_cpu_weight
from nri_coloc.sim import cgroup_files as files
from nri_coloc.sim import shared_files

Watcher = Callable[[str, Path], None]
"""Called for each new cgroup with its path and the folder of its cpuset files."""


class CgroupTree:
    """Paths have no leading slash; "" is the root. Safe to use from several threads.

    Size: one tree of files under one lock.
    """

    def __init__(
        self,
        host_root: Path,
        version: int,
        cpus: CPUMask,
        mems: CPUMask,
        *,
        legacy: bool = False,
        psi: bool = True,
    ) -> None:
        self.version = version
        self._psi = psi
        self._base = host_root / "sys/fs/cgroup"
        self._spare = host_root / ".name"
        self._cpus = cpus
        self._mems = mems
        self._legacy = legacy
        self._lock = RLock()
        self.watcher: Watcher | None = None

    # ---- cgroups ----

    def plant(self, kubepods: str = "kubepods") -> None:
        """Create the hierarchies, and at `kubepods` the kubelet's cgroups of the QoS classes."""
        root_of = {"cpuset.cpus": self._cpus, "cpuset.mems": self._mems}
        for folder, content in self._new_files(root=True):
            _write_all(folder, content)
            for name, mask in root_of.items():
                if self.version == 2:
                    shared_files.put(folder / files.EFFECTIVE[2][name], cpuset.render(mask))
                elif name in content:
                    shared_files.put(folder / name, cpuset.render(mask))
        for link, mount in files.V1_LINKS.items() if self.version == 1 else ():
            (self._base / link).symlink_to(mount)
        self.settle()
        for path in (*levels(kubepods), f"{kubepods}/burstable", f"{kubepods}/besteffort", "system.slice"):
            self.make(path)
        self.write(f"{kubepods}/besteffort", *self.weight(2))

    def make(self, path: str) -> None:
        """Create one cgroup whose parent exists. If the cgroup exists, do nothing."""
        with self._lock:
            if self.exists(path):
                return
            for folder, content in self._new_files(path):
                _write_all(folder, content)
            parent = path.rpartition("/")[0]
            if self.version == 1:
                for name in files.EFFECTIVE[1]:
                    self.write(path, name, self.read(parent, name) or "")
            elif parent:
                self.write(parent, "cgroup.subtree_control", files.V2_ROOT["cgroup.subtree_control"])
            self.settle(path)
            if self.watcher is not None:
                self.watcher(path, self.folder("cpuset.cpus", path))

    def remove(self, path: str) -> None:
        """Remove a cgroup and all cgroups below it."""
        with self._lock:
            for folder, _ in self._new_files(path):
                _empty_counters(folder)
                shutil.rmtree(folder, ignore_errors=True)

    def exists(self, path: str) -> bool:
        return self.folder("cpuset.cpus", path).is_dir()

    def children(self, path: str) -> list[str]:
        """Return the paths directly below a cgroup."""
        try:
            with os.scandir(self.folder("cpuset.cpus", path)) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []
        return [f"{path}/{name}".lstrip("/") for name in names]

    # ---- files ----

    def folder(self, name: str, path: str) -> Path:
        """Return the folder in which a cgroup keeps a file of this name."""
        mount = self._base if self.version == 2 else self._base / files.mount_of(name)
        return mount / path

    def read(self, path: str, name: str) -> str | None:
        """Return a file's text, None if there is no such file or cgroup."""
        return shared_files.read(self._file(path, name))

    def write(self, path: str, name: str, text: str) -> None:
        """Write an existing file in place. A missing file is not created, because the simulated kernel has none."""
        with suppress(FileNotFoundError, NotADirectoryError):
            shared_files.put(self._file(path, name), text, 0)

    def _file(self, path: str, name: str) -> str:
        mount = "" if self.version == 2 else f"/{files.mount_of(name)}"
        return f"{self._base}{mount}/{path}/{name}"

    def mask(self, path: str, name: str) -> CPUMask:
        """Return the set in a CPU list file, empty if there is no file."""
        return cpuset.parse(self.read(path, name) or "")

    def effective(self, path: str) -> CPUMask:
        """Return the CPUs that a cgroup's tasks may use now, by the written files; none if the cgroup is gone."""
        if self.version == 1:
            return self.mask(path, "cpuset.cpus")
        granted = self._cpus
        for level in levels(path) if path else ():
            own = self.read(level, "cpuset.cpus")
            if own is None:
                return 0
            # if no CPU of a cgroup's own set is available, the kernel uses its parent's set
            granted = cpuset.parse(own) & granted or granted
        return granted

    def fits(self, path: str, cpus: str) -> bool:
        """Return whether the kernel would accept this set: on v1 only within the parent's set, on v2 always."""
        parent = path.rpartition("/")[0]
        return self.version == 2 or not cpuset.parse(cpus) & ~self.mask(parent, "cpuset.cpus")

    def takes_quota(self, path: str, quota: int) -> bool:
        """Return whether the kernel would accept this CFS quota in µs (-1 for none).

        It refuses a quota below the cgroup's burst (kernel/sched/core.c, tg_set_cfs_bandwidth) and on v1 a cgroup's
        quota above its parent's (tg_cfs_schedulable_down).
        """
        burst = "cpu.cfs_burst_us" if self.version == 1 else "cpu.max.burst"
        if quota < 0:
            return True
        if quota < int(self.read(path, burst) or 0):
            return False
        above = self._quota(path.rpartition("/")[0])
        below = max(map(self._quota, self.children(path)), default=-1)
        return self.version == 2 or (quota >= below and (above < 0 or quota <= above))

    def _quota(self, path: str) -> int:
        """Return a cgroup's quota on v1, -1 for none."""
        return int(self.read(path, "cpu.cfs_quota_us") or -1)

    def enter(self, path: str, task: int) -> None:
        """Write a task into a cgroup's list of threads, as its only entry."""
        self.write(path, files.TASKS[self.version], str(task))

    def task(self, path: str) -> int | None:
        """Return the first task in a cgroup's list of threads, None if it is empty."""
        listed = (self.read(path, files.TASKS[self.version]) or "").split()
        return int(listed[0]) if listed else None

    def weight(self, shares: int) -> tuple[str, str]:
        """Return the file and its text for CPU shares; on v2 converted with the linear curve of runc 1.1."""
        if self.version == 1:
            return "cpu.shares", str(shares)
        return "cpu.weight", str(1 + (min(max(shares, 2), 262144) - 2) * 9999 // 262142)

    def allow(self, path: str, cpus: CPUMask) -> None:
        """Give a cgroup these CPUs, as systemd's AllowedCPUs= does.

        On v1 all cgroups below it first lose other CPUs. None of them gains a CPU: the kernel never widens a child.
        """
        with self._lock:
            for child in self.children(path) if self.version == 1 else ():
                self.allow(child, self.mask(child, "cpuset.cpus") & cpus)
            self.write(path, "cpuset.cpus", cpuset.render(cpus))
            self.settle(path)

    def plug(self, cpus: CPUMask) -> None:
        """Set the CPUs that are online.

        On v2 written sets stay, and effective sets follow. On v1 each cgroup permanently loses the CPUs that went
        offline (kernel/cgroup/cpuset-v1.c, hotplug_update_tasks_legacy). Only the root gets them again.
        """
        with self._lock:
            self._cpus = cpus
            if self.version == 1:
                for path in self.children(""):
                    self._lose_offline(path)
                self.write("", "cpuset.cpus", cpuset.render(cpus))
            else:
                root = self.folder("cpuset.cpus", "") / files.EFFECTIVE[2]["cpuset.cpus"]
                shared_files.put(self._alone(root), cpuset.render(cpus))
            self.settle()

    def _lose_offline(self, path: str) -> None:
        self.write(path, "cpuset.cpus", cpuset.render(self.mask(path, "cpuset.cpus") & self._cpus))
        for child in self.children(path):
            self._lose_offline(child)

    # ---- effective sets ----

    def settle(self, path: str = "") -> None:
        """Make the effective files of a cgroup, and of all cgroups below it, agree with the written files."""
        with self._lock:
            for own, shown in files.EFFECTIVE[self.version].items():
                self._settle(path, own, shown)
            for child in self.children(path) if self.version == 2 else ():
                self.settle(child)

    def _settle(self, path: str, own: str, shown: str) -> None:
        folder = self.folder(own, path)
        if self.version == 1:
            self._same(folder / shown, folder / own)
            return
        if not path or not (folder / own).exists():
            return
        above = folder.parent / shown
        wanted, granted = self.mask(path, own), self.mask(path.rpartition("/")[0], shown)
        if not wanted & granted:
            self._same(folder / shown, above)
        elif not wanted & ~granted:
            self._same(folder / shown, folder / own)
        else:
            shared_files.put(self._alone(folder / shown), cpuset.render(wanted & granted))

    def _same(self, name: Path, source: Path) -> None:
        """Make `name` a hard link to `source`, in one step, so that readers always find the file."""
        if not source.exists() or (name.exists() and name.samefile(source)):
            return
        self._spare.hardlink_to(source)
        self._spare.replace(name)

    def _alone(self, name: Path) -> Path:
        """Make sure that a file shares its inode with no other file, and return its path."""
        if name.exists() and name.stat().st_nlink > 1:
            shared_files.put(self._spare, shared_files.read(name) or "")
            self._spare.replace(name)
        return name

    def _new_files(self, path: str = "", *, root: bool = False) -> list[tuple[Path, dict[str, str]]]:
        if self.version == 2:
            found = [(self._base / path, dict(files.V2_ROOT if root else files.V2))]
        else:
            found = [
                (self._base / mount / path, files.of_v1(mount, legacy=self._legacy)) for mount in files.V1
            ]
        return (
            found if self._psi else [(folder, files.without_pressure(content)) for folder, content in found]
        )


class BentCgroupTree(CgroupTree):
    """A hierarchy with the weights of runc 1.3.2 or newer."""

    def weight(self, shares: int) -> tuple[str, str]:
        """Return the file and its text for CPU shares; on v2 converted with the bent curve."""
        name, text = super().weight(shares)
        return name, text if self.version == 1 else str(bent_cpu_weight(shares))


def levels(path: str) -> list[str]:
    """Return the paths of a cgroup and its ancestors, from the top, without the root."""
    parts = path.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _write_all(folder: Path, content: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        shared_files.put(f"{folder}/{name}", text)


def _empty_counters(folder: Path) -> None:
    """Empty the counters below a folder, so that open descriptors read nothing (a kernel returns ENODEV)."""
    for within, _, names in os.walk(folder):
        for name in files.COUNTERS.intersection(names):
            with suppress(OSError):
                os.truncate(f"{within}/{name}", 0)
