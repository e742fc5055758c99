"""Every setting of a cgroup and of its processes, as text: two equal readings show that nothing changed.

A file that its owner may write is a setting; a read-only file is the kernel's own account. Lists of members, triggers,
and counters that the kernel lets one set back to zero are left out.
"""

import stat
from pathlib import Path
from typing import Final

from nri_coloc.host import scheduler
from tests.rig import cgroups, kubepods

MEMBERS: Final = ("tasks", "cgroup.procs", "cgroup.threads")
TRIGGERS: Final = (
    "cgroup.event_control",
    "cgroup.kill",
    "memory.force_empty",
    "memory.reclaim",
    "blkio.reset_stats",
)
COUNTERS: Final = ("failcnt", "max_usage_in_bytes", "cpuacct.usage", ".peak", ".pressure")


def of(cgroup: str) -> dict[str, str]:
    """Return the settings of one cgroup, in every hierarchy that has it: by controller's mount and file name."""
    return {
        f"{folder.parts[4] if not cgroups.is_v2() else ''}/{file.name}": file.read_text().strip()
        for folder in kubepods.folders(cgroup)
        for file in sorted(folder.iterdir())
        if _is_setting(file)
    }


def below(cgroup: str) -> dict[str, dict[str, str]]:
    """Return the settings of a cgroup and all below it, by path."""
    found = {cgroup: of(cgroup)}
    for folder in kubepods.folders(cgroup):
        for child in sorted(path for path in folder.iterdir() if path.is_dir()):
            if f"{cgroup}/{child.name}" not in found:
                found |= below(f"{cgroup}/{child.name}")
    return found


def of_processes(cgroup: str) -> dict[int, tuple[int | None, scheduler.Attributes | None]]:
    """Return oom_score_adj and the scheduler's attributes of every process in a cgroup and below it."""
    return {pid: (cgroups.oom_score_adj(pid), scheduler.read(pid)) for pid in kubepods.processes(cgroup)}


def differing(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """Return the differences between two readings, in words; empty if they are equal."""
    names = {(path, name) for look in (before, after) for path, files in look.items() for name in files}
    return [
        f"{path} {name}: {was!r} -> {now!r}"
        for path, name in sorted(names)
        if (was := before.get(path, {}).get(name)) != (now := after.get(path, {}).get(name))
    ]


def _is_setting(file: Path) -> bool:
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) or mode & (stat.S_IRUSR | stat.S_IWUSR) != stat.S_IRUSR | stat.S_IWUSR:
        return False
    return file.name not in (*MEMBERS, *TRIGGERS) and not file.name.endswith(COUNTERS)
