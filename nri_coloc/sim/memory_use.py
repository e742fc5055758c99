"""Simulate the memory of a node: the memory that cgroups hold, and the files that show it.

No memory is allocated or reclaimed. A test sets the memory of a cgroup, and the files of the cgroup, its ancestors and
the machine follow at once. Limits are not enforced: the files show memory above a limit too.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from nri_coloc.sim.cgroup_tree import CgroupTree, levels
from nri_coloc.sim.counter_files import CounterFiles

KIB: Final = 1024
_LINE: Final = re.compile(r"^(\S+):( +)\d+ kB$", re.MULTILINE)


class Held(NamedTuple):
    """Bytes that a cgroup itself holds: anonymous memory, and active, inactive and locked page cache."""

    anon: int = 0
    active_file: int = 0
    inactive_file: int = 0
    locked: int = 0

    @property
    def file(self) -> int:
        return self.active_file + self.inactive_file + self.locked

    @property
    def usage(self) -> int:
        return self.anon + self.file


class MemoryUse:
    """The memory of all cgroups of a tree. The caller's lock must guard each call."""

    def __init__(self, tree: CgroupTree, files: CounterFiles, host_root: Path) -> None:
        self._tree = tree
        self._files = files
        self._meminfo = host_root / "proc/meminfo"
        self._held: dict[str, Held] = {}

    def hold(self, path: str, held: Held) -> None:
        """Set the memory that a cgroup holds; 0 bytes removes the cgroup from the account."""
        if not held.usage and path not in self._held:
            return
        self._held[path] = held
        for level in levels(path):
            self._show(level)
        self._show_machine()
        if not held.usage:
            del self._held[path]

    def _show(self, path: str) -> None:
        total = _sum([held for owner, held in self._held.items() if f"{owner}/".startswith(f"{path}/")])
        if self._tree.version == 2:
            stat = (
                f"anon {total.anon}\nfile {total.file}\nkernel 0\ninactive_anon 0\nactive_anon {total.anon}\n"
                f"inactive_file {total.inactive_file}\nactive_file {total.active_file}\nunevictable {total.locked}"
            )
            self._files.put(path, "memory.current", str(total.usage))
        else:
            stat = (
                f"total_cache {total.file}\ntotal_rss {total.anon}\ntotal_inactive_anon 0\n"
                f"total_active_anon {total.anon}\ntotal_inactive_file {total.inactive_file}\n"
                f"total_active_file {total.active_file}\ntotal_unevictable {total.locked}"
            )
            self._files.put(path, "memory.usage_in_bytes", str(total.usage))
        self._files.put(path, "memory.stat", stat)

    def _show_machine(self) -> None:
        """Update the existing lines of /proc/meminfo that depend on held memory."""
        if not self._meminfo.exists():
            return
        text = self._meminfo.read_text()
        kib = {name: int(amount) for name, amount in re.findall(r"^(\S+): +(\d+) kB$", text, re.MULTILINE)}
        total = _sum(list(self._held.values()))
        free = kib.get("MemTotal", 0) - total.usage // KIB
        kib |= {
            "MemFree": max(0, free),
            "MemAvailable": max(0, free + (total.file - total.locked) // KIB),
            "Active(file)": total.active_file // KIB,
            "Inactive(file)": total.inactive_file // KIB,
            "AnonPages": total.anon // KIB,
        }
        spare = self._meminfo.with_name(".meminfo")
        spare.write_text(_LINE.sub(lambda line: f"{line[1] + ':':<16}{kib[line[1]]:>8} kB", text))
        spare.replace(self._meminfo)


def _sum(held: list[Held]) -> Held:
    return Held(*(sum(part) for part in zip(*held, strict=True))) if held else Held()
