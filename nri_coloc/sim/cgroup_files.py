"""Tables of the files of a cgroup and their first content, as Linux 6.x shows them.

Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2. Kernels before 5.3 lack the newer files, and have the old
`blkio.weight` instead of bfq's. Without PSI there are no pressure files. The root of v2 has no limits, so it has few
files.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NO_LIMIT: Final = "9223372036854771712"
"""The largest page-aligned int64: "no limit" on cgroup v1."""

_PRESSURE: Final = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
)
_PRESSURES: Final = {
    "cpu.pressure": _PRESSURE,
    "io.pressure": _PRESSURE,
    "memory.pressure": _PRESSURE,
}
COUNTERS: Final = frozenset({"cpuacct.usage", "cpu.stat", *_PRESSURES})
"""Files that are read repeatedly through one descriptor."""

_USAGE: Final = "usage_usec 0\nuser_usec 0\nsystem_usec 0"

V1: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "cpu,cpuacct": {
            "cgroup.procs": "",
            "tasks": "",
            "cpu.shares": "1024",
            "cpu.cfs_quota_us": "-1",
            "cpu.cfs_period_us": "100000",
            "cpu.cfs_burst_us": "0",
            "cpu.idle": "0",
            "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\nburst_time 0",
            "cpuacct.usage": "0",
        },
        "cpuset": {
            "cgroup.procs": "",
            "cpuset.cpus": "",
            "cpuset.mems": "",
            "cpuset.cpu_exclusive": "0",
            "cpuset.memory_migrate": "0",
        },
        "memory": {
            "cgroup.procs": "",
            "memory.limit_in_bytes": NO_LIMIT,
            "memory.soft_limit_in_bytes": NO_LIMIT,
            "memory.usage_in_bytes": "0",
            "memory.failcnt": "0",
            "memory.stat": "total_cache 0\ntotal_rss 0\ntotal_inactive_file 0\ntotal_active_file 0",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0",
        },
        "blkio": {
            "cgroup.procs": "",
            "blkio.bfq.weight": "100",
            "blkio.throttle.io_service_bytes_recursive": "Total 0",
            "blkio.throttle.io_serviced_recursive": "Total 0",
            "blkio.throttle.read_bps_device": "",
            "blkio.throttle.write_bps_device": "",
        },
        "unified": {
            "cgroup.procs": "",
            "cgroup.controllers": "",
            "cgroup.subtree_control": "",
            "cpu.stat": _USAGE,
            **_PRESSURES,
        },
    }
)
"""Files by the mount folder of their controller; `unified` is the v2 hierarchy beside the v1 hierarchies."""

V1_LINKS: Final[Mapping[str, str]] = MappingProxyType({"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct"})

_CONTROLLERS: Final = "cpuset cpu io memory pids"

V2: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cgroup.procs": "",
        "cgroup.threads": "",
        "cgroup.controllers": _CONTROLLERS,
        "cgroup.subtree_control": "",
        "cgroup.events": "populated 0\nfrozen 0",
        "cpuset.cpus": "",
        "cpuset.mems": "",
        "cpu.weight": "100",
        "cpu.weight.nice": "0",
        "cpu.idle": "0",
        "cpu.max": "max 100000",
        "cpu.max.burst": "0",
        "cpu.stat": f"{_USAGE}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0",
        "memory.current": "0",
        "memory.min": "0",
        "memory.low": "0",
        "memory.high": "max",
        "memory.max": "max",
        "memory.reclaim": "",
        "memory.swap.max": "max",
        "memory.stat": "anon 0\nfile 0\nkernel 0\ninactive_file 0\nactive_file 0",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0",
        "io.weight": "default 100",
        "io.bfq.weight": "default 100",
        "io.max": "",
        "io.stat": "",
        "pids.max": "max",
        **_PRESSURES,
    }
)

V2_ROOT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cgroup.procs": "",
        "cgroup.controllers": _CONTROLLERS,
        "cgroup.subtree_control": _CONTROLLERS,
        "cpu.stat": _USAGE,
        **_PRESSURES,
    }
)

EFFECTIVE: Final[Mapping[int, Mapping[str, str]]] = MappingProxyType(
    {
        1: {"cpuset.cpus": "cpuset.effective_cpus", "cpuset.mems": "cpuset.effective_mems"},
        2: {"cpuset.cpus": "cpuset.cpus.effective", "cpuset.mems": "cpuset.mems.effective"},
    }
)
"""By cgroup version: the written file, and the file that shows the effective value."""

TASKS: Final[Mapping[int, str]] = MappingProxyType({1: "tasks", 2: "cgroup.threads"})
"""By cgroup version: the file that lists threads."""

SINCE_LEGACY: Final = frozenset({"cpu.cfs_burst_us", "cpu.idle", "blkio.bfq.weight", *_PRESSURES})


def without_pressure(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a kernel that was booted without PSI."""
    return {name: text for name, text in files.items() if name not in _PRESSURES}


def of_v1(mount: str, *, legacy: bool) -> dict[str, str]:
    """Return the files of a new v1 cgroup in one controller's hierarchy, with their content."""
    files = V1[mount]
    if not legacy:
        return dict(files)
    old = {name: text for name, text in files.items() if name not in SINCE_LEGACY}
    return old | {"blkio.weight": "500"} if mount == "blkio" else old


def mount_of(name: str) -> str:
    """Return the v1 mount of a file, by its name."""
    if name.endswith(".pressure") or name.startswith("cgroup."):
        return "unified"
    if name == TASKS[1]:
        return "cpu,cpuacct"
    controller = name.partition(".")[0]
    return V1_LINKS.get(controller, controller)
