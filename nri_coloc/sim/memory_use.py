"""Memory of a simulated node: what cgroups hold, and what the files of cgroups and machine say of it.

Nothing allocates and nothing is reclaimed: a test says what a cgroup holds, and the files of it, of all above it
and of the machine follow at once. A limit is not enforced; what is held beyond it is simply shown.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from nri_coloc.sim.cgroup_tree import CgroupTree, levels
from nri_coloc.sim.counter_files import CounterFiles

KIB: Final = 1024
_LINE: Final = re.compile(r"^(\S+):( +)\d+ kB$", re.MULTILINE)


class Held(NamedTuple):
    """Bytes of a cgroup itself: anonymous memory, page cache in use, page cache that nobody uses."""

    anon: int = 0
    active_file: int = 0
    inactive_file: int = 0

    @property
    def file(self) -> int:
        return self.active_file + self.inactive_file

    @property
    def usage(self) -> int:
        return self.anon + self.file


class MemoryUse:
    """Safe from several threads only together with its caller's lock."""

    def __init__(self, tree: CgroupTree, files: CounterFiles, host_root: Path) -> None:
        self._tree = tree
        self._files = files
        self._meminfo = host_root / "proc/meminfo"
        self._held: dict[str, Held] = {}

    def hold(self, path: str, held: Held) -> None:
        """Let a cgroup hold this much from now on; nothing at all is its end."""
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
                f"inactive_file {total.inactive_file}\nactive_file {total.active_file}\nunevictable 0"
            )
            self._files.put(path, "memory.current", str(total.usage))
        else:
            stat = (
                f"total_cache {total.file}\ntotal_rss {total.anon}\ntotal_inactive_anon 0\n"
                f"total_active_anon {total.anon}\ntotal_inactive_file {total.inactive_file}\n"
                f"total_active_file {total.active_file}\ntotal_unevictable 0"
            )
            self._files.put(path, "memory.usage_in_bytes", str(total.usage))
        self._files.put(path, "memory.stat", stat)

    def _show_machine(self) -> None:
        """Only lines that /proc/meminfo has are changed, and those that depend on what is held."""
        if not self._meminfo.exists():
            return
        text = self._meminfo.read_text()
        kib = {name: int(amount) for name, amount in re.findall(r"^(\S+): +(\d+) kB$", text, re.MULTILINE)}
        total = _sum(list(self._held.values()))
        free = kib.get("MemTotal", 0) - total.usage // KIB
        kib |= {
            "MemFree": max(0, free),
            "MemAvailable": max(0, free + total.file // KIB),
            "Active(file)": total.active_file // KIB,
            "Inactive(file)": total.inactive_file // KIB,
            "AnonPages": total.anon // KIB,
        }
        spare = self._meminfo.with_name(".meminfo")
        spare.write_text(_LINE.sub(lambda line: f"{line[1] + ':':<16}{kib[line[1]]:>8} kB", text))
        spare.replace(self._meminfo)


def _sum(held: list[Held]) -> Held:
    return Held(*(sum(part) for part in zip(*held, strict=True))) if held else Held()
