"""Simulate machines: a description, its topology, and its /sys and /proc files.

Names and texts of the files are as Linux writes them, so the daemon cannot distinguish the files from a host's.
`topology` builds the same value without files, for benchmarks and for tests of placement. A test compares both for
every machine here and for random machines.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.topology import CPU, Topology

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """The description of one machine.

    cpus: the online CPUs. An empty `core` or `l3` label: the kernel does not report it, as in many virtual machines.
    memory: bytes by NUMA node, whole KiB; nodes without CPUs are allowed.
    isolated: CPUs of the kernel's isolated list.
    offline: CPUs that are offline.
    numa: False for a kernel without NUMA: all CPUs and memory are in node 0.
    legacy: True for a kernel before 5.3, with older names and no list of isolated CPUs.
    psi: False for a kernel booted with psi=0.
    capacities: cpu_capacity of each kind of core, as on ARM; without them a hybrid machine shows its kinds as x86 does.
    """

    cpus: tuple[CPU, ...]
    memory: Mapping[int, int] = field(default_factory=lambda: {0: 16 * GIB})
    isolated: CPUMask = 0
    offline: CPUMask = 0
    numa: bool = True
    legacy: bool = False
    psi: bool = True
    capacities: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """A regular machine: the count of each level within one unit of the level above.

    sockets: in the machine.
    nodes: NUMA nodes in a die.
    l3_groups: in a node.
    cores: in an L3 group.
    threads: in a core.
    adjacent: whether the threads of a core have neighbouring ids. If not, all first threads come first, as most
        firmware numbers them.
    dies: in a socket.
    """

    sockets: int = 1
    nodes: int = 1
    l3_groups: int = 1
    cores: int = 1
    threads: int = 1
    adjacent: bool = False
    dies: int = 1


def regular(shape: Shape, gib_per_node: int = 16) -> MachineSpec:
    """Return the description of a regular machine."""
    nodes = shape.sockets * shape.dies * shape.nodes
    cores = nodes * shape.l3_groups * shape.cores
    cpus = []
    for core in range(cores):
        l3 = core // shape.cores
        node = l3 // shape.l3_groups
        for thread in range(shape.threads):
            number = core * shape.threads + thread if shape.adjacent else thread * cores + core
            die = node // shape.nodes
            cpus.append(
                CPU(
                    id=number,
                    package=die // shape.dies,
                    node=node,
                    l3=f"l3-{l3}",
                    core=f"core-{core}",
                    die=die % shape.dies,
                )
            )
    return MachineSpec(
        tuple(sorted(cpus, key=lambda cpu: cpu.id)), dict.fromkeys(range(nodes), gib_per_node * GIB)
    )


def without(spec: MachineSpec, offline: CPUMask) -> MachineSpec:
    """Return the machine with these CPUs offline."""
    cpus = tuple(cpu for cpu in spec.cpus if not offline >> cpu.id & 1)
    return replace(spec, cpus=cpus, offline=spec.offline | offline)


def _sparse() -> MachineSpec:
    """Return a machine with gaps between CPU ids, up to 4095, as on partitioned firmware."""
    ids = (0, 1, 64, 65, 1024, 1025, 4094, 4095)
    return MachineSpec(
        tuple(
            CPU(number, at // 4, at // 4, f"l3-{at // 4}", f"core-{at // 2}") for at, number in enumerate(ids)
        ),
        {0: 16 * GIB, 1: 16 * GIB},
    )


def _hybrid() -> MachineSpec:
    """Return a machine with eight two-thread fast cores, eight one-thread small cores, one L3 and one node."""
    fast = tuple(CPU(number, 0, 0, "l3-0", f"fast-{number // 2}") for number in range(16))
    small = tuple(CPU(number, 0, 0, "l3-0", f"small-{number}", kind=1) for number in range(16, 24))
    return MachineSpec(fast + small, {0: 32 * GIB})


def _three_kinds() -> MachineSpec:
    """Return a machine with eight ARM cores as in phones and boards: small cores first, the one fast core last."""
    kinds = (2, 2, 2, 2, 1, 1, 1, 0)
    cpus = tuple(CPU(number, 0, 0, "l3-0", f"core-{number}", kind=kind) for number, kind in enumerate(kinds))
    return MachineSpec(cpus, {0: 8 * GIB}, numa=False, capacities=(1024, 830, 325))


def _dies_in_a_node() -> MachineSpec:
    """Return a machine with one socket, one NUMA node and two dies, each with two L3 groups of two cores."""
    return MachineSpec(
        tuple(
            CPU(
                id=number,
                package=0,
                node=0,
                l3=f"l3-{number // 4}",
                core=f"core-{number // 2}",
                die=number // 8,
            )
            for number in range(16)
        ),
        {0: 64 * GIB},
    )


def _clustered() -> MachineSpec:
    """Return a machine with two sockets of two NUMA nodes; both nodes of a socket share its L3."""
    cpus = regular(Shape(sockets=2, nodes=2, cores=2, threads=2)).cpus
    return MachineSpec(
        tuple(replace(cpu, l3=f"l3-{cpu.package}") for cpu in cpus), dict.fromkeys(range(4), 32 * GIB)
    )


def _virtual() -> MachineSpec:
    """Return a virtual machine that shows packages and nodes, but neither caches nor cores."""
    return MachineSpec(
        tuple(CPU(number, number // 2, number // 2) for number in range(4)), {0: 4 * GIB, 1: 4 * GIB}
    )


_EIGHT: Final = regular(Shape(sockets=2, cores=2, threads=2, adjacent=True))

MACHINES: Final[Mapping[str, MachineSpec]] = MappingProxyType(
    {
        "1cpu": regular(Shape(), 1),
        "2cpu": regular(Shape(cores=2)),
        "8cpu": _EIGHT,
        "laptop-no-numa": replace(regular(Shape(cores=4, threads=2)), numa=False),
        "4node": regular(Shape(sockets=2, nodes=2, cores=2, threads=2, adjacent=True), 1),
        "offline": without(_EIGHT, cpuset.parse("3,6-7")),
        "isolated": replace(_EIGHT, isolated=cpuset.parse("2-3,6")),
        "smt-off": without(regular(Shape(sockets=2, cores=8, threads=2), 64), cpuset.parse("16-31")),
        "memory-only-node": replace(_EIGHT, memory={0: 16 * GIB, 1: 16 * GIB, 4: 128 * GIB}),
        "node-without-memory": replace(_EIGHT, memory={0: 32 * GIB, 1: 0}),
        "virtual": _virtual(),
        "legacy": replace(regular(Shape(sockets=2, cores=4, threads=2)), legacy=True),
        "no-psi": replace(_EIGHT, psi=False),
        "hybrid": _hybrid(),
        "three-kinds": _three_kinds(),
        "dies": regular(Shape(sockets=2, dies=2, nodes=2, cores=2, threads=2, adjacent=True)),
        "dies-in-a-node": _dies_in_a_node(),
        "l3-beyond-nodes": _clustered(),
        "l3-in-a-node": regular(Shape(sockets=2, l3_groups=4, cores=2, threads=2)),
        "four-threads": regular(Shape(sockets=2, l3_groups=2, cores=2, threads=4, adjacent=True)),
        "sparse": _sparse(),
        "xeon-64": regular(Shape(sockets=2, cores=16, threads=2), 128),
        # two packages, four nodes each (NPS4), eight cores to an L3
        "epyc-256": regular(Shape(sockets=2, nodes=4, l3_groups=2, cores=8, threads=2), 128),
        # two packages, one node each, sixteen cores to an L3
        "768": regular(Shape(sockets=2, l3_groups=12, cores=16, threads=2), 1152),
    }
)
"""The machines by name. `8cpu` is the design's example: cores 0-1, 2-3, 4-5, 6-7 in two sockets and nodes."""


def topology(spec: MachineSpec) -> Topology:
    """Return the topology that the daemon reads from the machine's files, computed without files."""
    cpus = tuple(
        replace(
            cpu,
            node=cpu.node if spec.numa else 0,
            l3=cpu.l3 or f"unknown {cpu.package} {cpu.node if spec.numa else 0}",
        )
        for cpu in spec.cpus
    )
    memory = spec.memory if spec.numa else {0: sum(spec.memory.values())}
    return Topology.build(cpus, memory, 0 if spec.legacy else spec.isolated)


def plant(spec: MachineSpec, root: Path, below: str = "") -> None:
    """Write the machine's files below a folder, the host root; with `below` only files whose path begins with it."""
    folders: set[Path] = set()
    for name, text in files(spec):
        if not name.startswith(below):
            continue
        path = root / name
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.add(path.parent)
        path.write_text(text)


def files(spec: MachineSpec) -> Iterator[tuple[str, str]]:
    """Yield each file as (path below the host root, text)."""
    system = "sys/devices/system"
    yield from ((f"{system}/cpu/{name}", text) for name, text in _cpu_lists(spec))
    siblings = _groups((cpu.core, cpu.id) for cpu in spec.cpus)
    sharers = _groups((cpu.l3, cpu.id) for cpu in spec.cpus)
    for cpu in spec.cpus:
        folder = f"{system}/cpu/cpu{cpu.id}"
        yield from _topology_files(f"{folder}/topology", cpu, siblings.get(cpu.core, 0), spec)
        if cpu.l3:
            core = siblings.get(cpu.core, 1 << cpu.id)
            yield from _cache_files(f"{folder}/cache", core, sharers[cpu.l3])
    for number in cpuset.members(spec.offline):
        yield f"{system}/cpu/cpu{number}/online", "0\n"
    if spec.numa:
        yield from _node_files(f"{system}/node", spec)
    yield from _kind_files(spec)
    yield from _proc_files(spec)


def _groups(labelled: Iterator[tuple[str, int]]) -> dict[str, CPUMask]:
    """Return the CPU mask of each label; empty labels are skipped."""
    groups: dict[str, CPUMask] = {}
    for label, number in labelled:
        if label:
            groups[label] = groups.get(label, 0) | 1 << number
    return groups


def _line(mask: CPUMask) -> str:
    return f"{cpuset.render(mask)}\n"


def _cpu_lists(spec: MachineSpec) -> Iterator[tuple[str, str]]:
    online = cpuset.of(cpu.id for cpu in spec.cpus)
    yield "online", _line(online)
    yield "offline", _line(spec.offline)
    yield "present", _line(online | spec.offline)
    yield "possible", _line(online | spec.offline)
    if not spec.legacy:
        yield "isolated", _line(spec.isolated)


def _topology_files(folder: str, cpu: CPU, core: CPUMask, spec: MachineSpec) -> Iterator[tuple[str, str]]:
    yield f"{folder}/physical_package_id", f"{cpu.package}\n"
    if core:
        yield f"{folder}/thread_siblings_list", _line(core)
        if not spec.legacy:
            yield f"{folder}/core_cpus_list", _line(core)
            yield f"{folder}/die_id", f"{cpu.die}\n"


def _cache_files(folder: str, core: CPUMask, sharers: CPUMask) -> Iterator[tuple[str, str]]:
    caches = ((1, "Data", core), (1, "Instruction", core), (2, "Unified", core), (3, "Unified", sharers))
    for index, (level, kind, shared) in zip(count(), caches, strict=False):
        yield f"{folder}/index{index}/level", f"{level}\n"
        yield f"{folder}/index{index}/type", f"{kind}\n"
        yield f"{folder}/index{index}/shared_cpu_list", _line(shared)


def _kind_files(spec: MachineSpec) -> Iterator[tuple[str, str]]:
    """Yield the files that show kinds of cores: each CPU's capacity on ARM, the CPUs of each PMU on x86."""
    kinds = {cpu.id: cpu.kind for cpu in spec.cpus}
    if not any(kinds.values()):
        return
    if spec.capacities:
        for number, kind in kinds.items():
            yield f"sys/devices/system/cpu/cpu{number}/cpu_capacity", f"{spec.capacities[kind]}\n"
        return
    for kind, name in enumerate(("cpu_core", "cpu_atom", "cpu_lowpower")):
        cpus = cpuset.of(number for number in kinds if kinds[number] == kind)
        if cpus:
            yield f"sys/devices/{name}/cpus", _line(cpus)


def _node_files(folder: str, spec: MachineSpec) -> Iterator[tuple[str, str]]:
    nodes = sorted(spec.memory.keys() | {cpu.node for cpu in spec.cpus})
    yield f"{folder}/online", _line(cpuset.of(nodes))
    for node in nodes:
        kib = spec.memory.get(node, 0) // 1024
        yield f"{folder}/node{node}/cpulist", _line(cpuset.of(c.id for c in spec.cpus if c.node == node))
        yield (
            f"{folder}/node{node}/meminfo",
            "".join(f"Node {node} {name}:{kib:>15} kB\n" for name in ("MemTotal", "MemFree")),
        )


_UNUSED: Final = ("Active(file)", "Inactive(file)", "AnonPages", "SReclaimable")


def _zone(node: int, memory: int, cpus: Iterable[int]) -> str:
    """Return the text of a node's only zone. The low watermark is 5/4 of min, as in Linux; here 1/512 of the memory.

    Each zone has lines for every CPU of the machine, which are most of the file (mm/vmstat.c, zoneinfo_show_print).
    """
    low = memory // 4096 // 512
    return (
        f"Node {node}, zone   Normal\n  pages free     {memory // 4096}\n        min      {low * 4 // 5}\n"
        f"        low      {low}\n        high     {low * 6 // 5}\n  pagesets\n"
        + "".join(
            f"    cpu: {cpu}\n              count:    0\n              high:     0\n              batch:    63\n"
            "              high_min: 2081\n              high_max: 83240\n  vm stats threshold: 125\n"
            for cpu in cpus
        )
    )


def _proc_files(spec: MachineSpec) -> Iterator[tuple[str, str]]:
    kib = sum(spec.memory.values()) // 1024
    amounts = dict.fromkeys(("MemTotal", "MemFree", "MemAvailable"), kib) | dict.fromkeys(_UNUSED, 0)
    yield "proc/meminfo", "".join(f"{name + ':':<16}{amount:>8} kB\n" for name, amount in amounts.items())
    every = sorted(cpu.id for cpu in spec.cpus)
    yield "proc/zoneinfo", "".join(_zone(node, spec.memory[node], every) for node in sorted(spec.memory))
    idle = " ".join("0" * 10)
    yield "proc/stat", f"cpu  {idle}\n" + "".join(f"cpu{cpu.id} {idle}\n" for cpu in spec.cpus)
    zero = "avg10=0.00 avg60=0.00 avg300=0.00 total=0"
    for resource in ("cpu", "io", "memory") if spec.psi else ():
        yield f"proc/pressure/{resource}", f"some {zero}\nfull {zero}\n"
