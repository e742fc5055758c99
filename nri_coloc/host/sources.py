"""Which file of which hierarchy holds a cgroup's counter; pure.

v1 counts CPU time in `cpuacct` (ns, and cheaper to read than anything else), throttling in `cpu`, and has pressure in
the v2 hierarchy beside it, where runc makes the same cgroups. On v2 one folder has it all.
"""

from collections.abc import Callable
from typing import NamedTuple

from nri_coloc.host import counters
from nri_coloc.host.cgroup_layout import CgroupLayout, Controller

Parse = Callable[[bytes | None], int | None]


class Source(NamedTuple):
    """A file, and how to get the counter out of its bytes."""

    folder: str
    name: str
    parse: Parse


def usage(layout: CgroupLayout, path: str) -> Source | None:
    """CPU time, µs, with everything below."""
    if counts_tasks(layout):
        return _source(layout, "cpuacct", path, "cpuacct.usage", counters.cpuacct_usage_us)
    hierarchy: Controller = "cpu" if layout.version == 2 else "unified"
    return _source(layout, hierarchy, path, "cpu.stat", counters.cpu_stat_usage_us)


def counts_tasks(layout: CgroupLayout) -> bool:
    """Whether CPU time is that of tasks, also at the root, as in v1's cpuacct (kernel/sched/cpuacct.c).

    The root's cpu.stat is made of the CPUs' own times, with interrupts and stolen time (kernel/cgroup/rstat.c,
    root_cgroup_cputime).
    """
    return layout.version == 1 and layout.cpuacct is not None


def stalled(layout: CgroupLayout, path: str) -> Source | None:
    """PSI's `some total=` for the CPU, µs."""
    return _source(layout, "unified", path, "cpu.pressure", counters.some_us)


def throttled(layout: CgroupLayout, path: str) -> Source | None:
    """Time held back by the cgroup's own quota, µs, summed over CPUs, without what lies below."""
    return _source(layout, "cpu", path, "cpu.stat", counters.throttled_us)


def identity(layout: CgroupLayout, path: str) -> str | None:
    """Return the folder whose inode is the cgroup's identity.

    Each hierarchy numbers its folders on its own, so the same one must be asked for all.
    """
    source = usage(layout, path)
    return None if source is None else source.folder


def _source(
    layout: CgroupLayout, controller: Controller, path: str, name: str, parse: Parse
) -> Source | None:
    folder = layout.folder(controller, path)
    return None if folder is None else Source(folder, name, parse)
