"""The machine as `/sys/devices/system` and `/proc/meminfo` tell it (Documentation/admin-guide/cputopology).

Knows the kernel's file names and how old, small and virtual kernels leave some of them out; knows nothing of
placement. Only the list of online CPUs is indispensable. Any other missing file has a modest meaning: a CPU
without siblings is its own core, one without a package lies in package 0, one without a node in the lowest.

Siblings vouch for each other: a core's files are read at its lowest CPU, a cache's at the lowest CPU that
shares it. That keeps 768 CPUs within 150 ms (tests/unit/host/test_topology.py shows that the
other siblings' files are not needed).
"""

import re
from dataclasses import replace
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files

_NODE: Final = re.compile(r"node(\d{1,4})", re.ASCII)
_INDEX: Final = re.compile(r"index\d+", re.ASCII)
_KINDS: Final = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""Names of the core PMUs of a hybrid x86 machine, fastest first (arch/x86/events/intel/core.c)."""

_MEM_TOTAL: Final = re.compile(r"MemTotal:\s+(\d{1,18}) kB", re.ASCII)


class _Core(NamedTuple):
    """One core: its CPUs, and the package and die that all of them lie in."""

    cpus: CPUMask
    package: int
    die: int = 0


class Glimpse(NamedTuple):
    """The facts that change whenever CPUs or memory come or go; CPUs and bytes by node."""

    online: CPUMask
    isolated: CPUMask
    nodes: dict[int, CPUMask]
    memory: dict[int, int]


def glimpse(host_root: str) -> Glimpse:
    """Return what tells at a glance whether `read`, with its files for each core, would find the same machine.

    Raises KernelInterfaceError as `read` does.
    """
    system = f"{host_root.rstrip('/')}/sys/devices/system"
    online = _online(f"{system}/cpu/online")
    isolated = files.cpu_list(f"{system}/cpu/isolated") or 0
    nodes = _nodes(f"{system}/node")
    return Glimpse(online, isolated, nodes, _memory(host_root, list(nodes)))


def read(host_root: str) -> Topology:
    """Return the machine below `host_root` ("/" for this one).

    Raises KernelInterfaceError, with the path, if a file cannot be read or makes no sense.
    """
    system = f"{host_root.rstrip('/')}/sys/devices/system"
    online, isolated, nodes, memory = glimpse(host_root)
    core_of = _cores(f"{system}/cpu", online)
    cache_of = _caches(f"{system}/cpu", online, core_of)
    node_of = {cpu: node for node in sorted(nodes, reverse=True) for cpu in cpuset.members(nodes[node])}
    lowest = min(nodes, default=0)
    kinds = _kinds(f"{host_root.rstrip('/')}/sys/devices", online, core_of)
    cpus = [
        replace(
            _cpu(cpu, core_of[cpu], node_of.get(cpu, lowest), cache_of[cpu]),
            kind=next(rank for rank, kind in enumerate(kinds) if kind >> cpu & 1),
        )
        for cpu in cpuset.members(online)
    ]
    return Topology.build(cpus, memory, isolated)


def memory_total(host_root: str) -> int:
    """Return the machine's memory in bytes, as far as the kernel uses it.

    Raises KernelInterfaceError if /proc/meminfo is missing or does not say.
    """
    path = f"{host_root.rstrip('/')}/proc/meminfo"
    total = _mem_total(path)
    if total is None:
        raise KernelInterfaceError(path, "read", "no such file")
    return total


def _cpu(cpu: int, core: _Core, node: int, cache: CPUMask) -> CPU:
    """Label one CPU. Without a cache that the kernel shows, the CPUs of a package and node stay together."""
    l3 = f"cache{cache:x}" if cache else f"package{core.package}.node{node}"
    return CPU(id=cpu, package=core.package, node=node, l3=l3, core=f"core{core.cpus:x}", die=core.die)


def _online(path: str) -> CPUMask:
    online = files.cpu_list(path)
    if not online:
        reason = "no such file" if online is None else "it names no CPU"
        raise KernelInterfaceError(path, "read", reason)
    return online


def _cores(folder: str, online: CPUMask) -> dict[int, _Core]:
    found: dict[int, _Core] = {}
    rest = online
    while rest:
        first = rest & -rest
        facts = f"{folder}/cpu{first.bit_length() - 1}/topology"
        # an unknown package is absent, or -1 on firmware without a topology table
        package = max(files.number(f"{facts}/physical_package_id") or 0, 0)
        die = max(files.number(f"{facts}/die_id") or 0, 0)
        core = _Core(_siblings(facts) & rest | first, package, die)
        found.update(dict.fromkeys(cpuset.members(core.cpus), core))
        rest &= ~core.cpus
    return found


def _kinds(devices: str, online: CPUMask, core_of: dict[int, _Core]) -> list[CPUMask]:
    """Return the CPUs of each kind of core, the fastest first; every CPU is in one."""
    named = [(files.cpu_list(f"{devices}/{name}/cpus") or 0) & online for name in _KINDS]
    kinds = [kind for kind in named if kind]
    if len(kinds) < 2:
        kinds = _kinds_by_capacity(f"{devices}/system/cpu", online, core_of)
    rest = online
    for at, kind in enumerate(kinds):
        kinds[at] = kind & rest
        rest &= ~kind
    return [*kinds[:-1], kinds[-1] | rest]


def _kinds_by_capacity(folder: str, online: CPUMask, core_of: dict[int, _Core]) -> list[CPUMask]:
    """Return groups of CPUs by their capacity for the scheduler, fastest first
    (Documentation/scheduler/sched-capacity).

    Cores of one kind may differ a little, by the turbo of the favoured ones: a kind ends where the next core is below
    by more than 5 %, which the scheduler itself counts as a difference (kernel/sched/fair.c, capacity_greater).
    """
    lowest = (online & -online).bit_length() - 1
    if files.number(f"{folder}/cpu{lowest}/cpu_capacity") is None:
        return [online]
    by_capacity: dict[int, CPUMask] = {}
    for core in dict.fromkeys(core_of.values()):
        first = (core.cpus & -core.cpus).bit_length() - 1
        capacity = files.number(f"{folder}/cpu{first}/cpu_capacity") or 0
        by_capacity[capacity] = by_capacity.get(capacity, 0) | core.cpus
    kinds: list[CPUMask] = []
    top = 0
    for capacity in sorted(by_capacity, reverse=True):
        if not kinds or top * 1024 > capacity * 1078:
            kinds.append(0)
            top = capacity
        kinds[-1] |= by_capacity[capacity]
    return kinds


def _siblings(facts: str) -> CPUMask:
    """Read the threads of a core; the file had another name before Linux 5.3."""
    named = files.cpu_list(f"{facts}/core_cpus_list")
    return named if named is not None else files.cpu_list(f"{facts}/thread_siblings_list") or 0


def _caches(folder: str, online: CPUMask, core_of: dict[int, _Core]) -> dict[int, CPUMask]:
    """Return the CPUs that share a cache with each CPU; 0 where the kernel shows none worth grouping by."""
    found: dict[int, CPUMask] = {}
    rest = online
    while rest:
        first = rest & -rest
        cpu = first.bit_length() - 1
        core = core_of[cpu].cpus & rest
        shared = _shared_cache(f"{folder}/cpu{cpu}/cache", core) & rest
        group = shared | core
        found.update(dict.fromkeys(cpuset.members(group), group if shared else 0))
        rest &= ~group
    return found


def _shared_cache(folder: str, core: CPUMask) -> CPUMask:
    """Return the CPUs that share the level-3 cache or, without one, the highest cache that reaches beyond the core.

    Levels under the third count only then: a private L2 would make each core its own group, while the small cores of
    some hybrid and ARM machines share an L2 and nothing above it.
    """
    best, best_level = 0, 0
    # "index3" before "index0": the last level has the highest index
    for name in sorted(filter(_INDEX.fullmatch, files.entries(folder)), reverse=True):
        level = files.number(f"{folder}/{name}/level") or 0
        if level != 3 and level <= best_level:
            continue
        if files.text(f"{folder}/{name}/type") not in (None, "Unified\n"):
            continue
        shared = files.cpu_list(f"{folder}/{name}/shared_cpu_list") or 0
        if level == 3 and shared:
            return shared
        if shared & ~core:
            best, best_level = shared, level
    return best


def _nodes(folder: str) -> dict[int, CPUMask]:
    """Return the CPUs of each memory node; empty on a kernel without NUMA."""
    nodes = {}
    for name in files.entries(folder):
        match = _NODE.fullmatch(name)
        if match and int(match[1]) <= cpuset.MAX_CPU_ID:
            nodes[int(match[1])] = files.cpu_list(f"{folder}/{name}/cpulist") or 0
    return nodes


def _memory(host_root: str, nodes: list[int]) -> dict[int, int]:
    """Return bytes by node; all of the memory lies in node 0 on a kernel without NUMA.

    A single node has all of the memory too: the node's own file was seen to leave out most of the memory that a
    virtual machine had plugged in while it ran.
    """
    root = host_root.rstrip("/")
    total = _mem_total(f"{root}/proc/meminfo") if len(nodes) <= 1 else None
    if total is not None or not nodes:
        return {nodes[0] if nodes else 0: total or 0}
    return {node: _mem_total(f"{root}/sys/devices/system/node/node{node}/meminfo") or 0 for node in nodes}


def _mem_total(path: str) -> int | None:
    content = files.text(path)
    if content is None:
        return None
    match = _MEM_TOTAL.search(content)
    if match is None:
        raise KernelInterfaceError(path, "read", "it has no line 'MemTotal: N kB'")
    return int(match[1]) * 1024
