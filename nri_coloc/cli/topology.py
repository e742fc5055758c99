"""Draw the machine as text or JSON for `nri-coloc topology`, with the owners of CPUs from the daemon's `/v1/state`.

This module turns a topology and owners into text or a dict; the command reads and prints. A line shows the cores of one
L3 group, with the threads of a core in brackets. So two CPUs take four lines, and 256 take thirty. A CPU has one mark.
If sets overlap, the smallest owner is drawn, because a container says more than its pool. The legend names all owners.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from string import ascii_letters
from typing import Any, Final

from nri_coloc.cli.asking import DaemonSilent
from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.texts import counted, plain
from nri_coloc.core.topology import NumaNode, Topology
from nri_coloc.errors import SettingsError

WIDTH: Final = 110
"""Columns of a row of cores at most."""

_INDENT: Final = " " * 6

FEW: Final = 4
"""Cores of an L3 group that fit on the line of its title; with more cores, all rows are below the title."""

BRACKETS: Final = ("[]", "()", "<>")
"""Brackets around the threads of a core, by its kind, the fastest first."""

ISOLATED: Final = "*"
RESERVED: Final = "#"
MANY: Final = "+"
"""The mark of owners beyond the 52 letters."""


def draw(topology: Topology, owners: Mapping[str, CPUMask] | None = None) -> str:
    """Return the drawing of the machine with the owner of each CPU; the owner "reserved" has its own mark."""
    owners = owners or {}
    signs = _signs(owners)
    marks = _marks(topology, owners, signs)
    lines = [_summary(topology), ""]
    for number, package in enumerate(topology.packages):
        lines.append(f"socket {number}  {cpuset.render(package)}")
        for node in topology.nodes:
            if node.cpus & package:
                lines += _node_lines(topology, node, package, marks)
    lines += [_node_title(node, 0) for node in topology.nodes if not node.cpus]
    legend = list(_legend(topology, owners, signs))
    return "\n".join([*lines, "", *legend] if legend else lines) + "\n"


def read_from(host_root: str) -> str:
    """Return the first line of the drawing: the files that it was read from."""
    root = host_root.rstrip("/")
    other = "" if root else "; --host-root names another machine's"
    return f"read from {plain(root)}/sys and {plain(root)}/proc{other}"


def as_json(topology: Topology) -> dict[str, Any]:
    """Return the machine as JSON data; nodes have the keys of `/v1/state`."""
    return {
        "cpus": cpuset.render(topology.online),
        "isolated": cpuset.render(topology.isolated),
        "packages": [cpuset.render(mask) for mask in topology.packages],
        "numa": [
            {"id": node.id, "cpus": cpuset.render(node.cpus), "memory_bytes": node.memory_bytes}
            for node in topology.nodes
        ],
        "dies": [cpuset.render(mask) for mask in topology.dies],
        "kinds": [cpuset.render(mask) for mask in topology.kinds],
        "l3_groups": [cpuset.render(mask) for mask in topology.l3_groups],
        "cores": [cpuset.render(mask) for mask in topology.cores],
    }


def _summary(topology: Topology) -> str:
    parts = (
        counted(len(topology.packages), "socket"),
        *([counted(len(topology.dies), "die")] if topology.dies != topology.packages else []),
        counted(len(topology.nodes), "node"),
        counted(len(topology.l3_groups), "L3 group"),
        counted(len(topology.cores), "core"),
        _threads(topology),
    )
    cpus = counted(topology.online.bit_count(), "CPU")
    return f"{cpus} ({cpuset.render(topology.online)}): {', '.join(parts)}"


def _threads(topology: Topology) -> str:
    widths = sorted({core.bit_count() for core in topology.cores})
    said = f"{' or '.join(map(str, widths))} {'thread' if widths == [1] else 'threads'} a core"
    return said if len(topology.kinds) < 2 else f"{said}, {len(topology.kinds)} kinds of core"


def _node_lines(
    topology: Topology, node: NumaNode, package: CPUMask, marks: Mapping[int, str]
) -> Iterator[str]:
    here = node.cpus & package
    dies = _dies(topology, here)
    yield _node_title(node, here) + (f"  die {dies[0]}" if len(dies) == 1 else "")
    for group in topology.l3_groups:
        if group & here:
            cores = [threads for core in topology.cores if (threads := core & group & here)]
            die = f"die {', '.join(_dies(topology, group & here))}  " if len(dies) > 1 else ""
            boxes = _boxes(topology, cores, marks)
            yield from _rows(f"    {die}L3 {cpuset.render(group & here)}", boxes)


def _dies(topology: Topology, cpus: CPUMask) -> list[str]:
    """Return the numbers of the dies with CPUs of a set; empty if each socket is one die."""
    if topology.dies == topology.packages:
        return []
    return [str(number) for number, die in enumerate(topology.dies) if die & cpus]


def _node_title(node: NumaNode, here: CPUMask) -> str:
    memory = f"{node.memory_bytes / (1 << 30):.1f} GiB" if node.memory_bytes else "no memory"
    return f"  node {node.id}  {cpuset.render(here) or 'no CPUs'}  {memory}"


def _boxes(topology: Topology, cores: list[CPUMask], marks: Mapping[int, str]) -> list[str]:
    """Return each core as its threads in brackets; the shape of the brackets is the core's kind."""
    width = max(len(mark) for mark in marks.values())
    boxes = []
    for core in cores:
        brackets = next(b for kind, b in _of_kinds(topology) if kind & core)
        threads = " ".join(marks[cpu].rjust(width) for cpu in cpuset.members(core))
        boxes.append(f"{brackets[0]}{threads}{brackets[1]}")
    return boxes


def _of_kinds(topology: Topology) -> Iterator[tuple[CPUMask, str]]:
    """Yield the CPUs and brackets of each kind of core; kinds after the third share their brackets."""
    return zip(topology.kinds, chain(BRACKETS, repeat(BRACKETS[-1])), strict=False)


def _rows(title: str, boxes: list[str]) -> Iterator[str]:
    """Yield rows of cores. Few cores are on the title's line, more cores on rows below it.

    A full row has 1, 2, 4, 8… cores, so that the rows of all groups line up with the CPU ids.
    """
    if len(boxes) <= FEW:
        yield f"{title}  {' '.join(boxes)}"
        return
    yield title
    room = max((WIDTH - len(_INDENT)) // (max(map(len, boxes)) + 1), 1)
    a_row = 1 << (room.bit_length() - 1)
    yield from (_INDENT + " ".join(boxes[at : at + a_row]) for at in range(0, len(boxes), a_row))


def _signs(owners: Mapping[str, CPUMask]) -> dict[str, str]:
    """Return the sign of each owner: a letter, and a sign of their own for reserved CPUs."""
    letters = iter(ascii_letters)
    return {owner: RESERVED if owner == "reserved" else next(letters, MANY) for owner in owners}


def _marks(topology: Topology, owners: Mapping[str, CPUMask], signs: Mapping[str, str]) -> dict[int, str]:
    """Return each CPU's text: its id, the sign of its smallest owner, a star if it is isolated."""
    sign_of: dict[int, str] = {}
    for owner in sorted(owners, key=lambda name: -owners[name].bit_count()):
        sign_of.update(dict.fromkeys(cpuset.members(owners[owner]), signs[owner]))
    return {
        cpu: f"{cpu}{sign_of.get(cpu, '')}{ISOLATED if topology.isolated >> cpu & 1 else ''}"
        for cpu in cpuset.members(topology.online)
    }


def _legend(topology: Topology, owners: Mapping[str, CPUMask], signs: Mapping[str, str]) -> Iterator[str]:
    if len(topology.kinds) > 1:
        for rank, (kind, brackets) in enumerate(_of_kinds(topology)):
            yield f"{brackets} {'fastest cores' if rank == 0 else f'cores of kind {rank}'}  {cpuset.render(kind)}"
    if topology.isolated:
        yield f"{ISOLATED} isolated from the scheduler  {cpuset.render(topology.isolated)}"
    for owner, cpus in owners.items():
        # names come from pods: a terminal must not obey them
        yield f"{signs[owner]} {plain(owner)}  {cpuset.render(cpus) or 'none'}"


State = Mapping[str, Any]


def check_machine(state: State, online: CPUMask) -> None:
    """Raise SettingsError if a daemon's state is of a machine with other CPUs, DaemonSilent if it is not valid."""
    try:
        theirs = cpuset.parse(state["node"]["cpus"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DaemonSilent(f"the daemon's state cannot be read: {error}") from error
    if theirs & ~online:
        raise SettingsError(
            f"the daemon runs on another machine: it has CPUs {cpuset.render(theirs)}, and this one has "
            f"{cpuset.render(online)}; run this on its node, with --host-root if that is mounted elsewhere"
        )


def owners(state: State) -> dict[str, CPUMask]:
    """Return CPUs by owner's name, pools first; raise DaemonSilent if the state is not valid."""
    try:
        return {name: cpuset.parse(cpus) for name, cpus in _named(state).items() if cpus}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DaemonSilent(f"the daemon's state cannot be read: {error}") from error


def _named(state: State) -> dict[str, str]:
    """Return CPU lists by name. Pools with equal CPUs share a line, and so do a main container and its sidecars."""
    pools = {
        name: pool["cpus"] for name, pool in state["pools"].items() if name not in ("reserved", "dedicated")
    }
    named = {" = ".join(names): cpus for cpus, names in _by_cpus(pools).items()}
    if state["pools"]["reserved"]["cpus"]:
        named = {"reserved": state["pools"]["reserved"]["cpus"], **named}
    if state["node"].get("kept_by_kubelet"):
        named["the kubelet's own"] = state["node"]["kept_by_kubelet"]
    placed = {
        f"{c['namespace']}/{c['pod']}/{c['container']}": c["cpus"]
        for c in state["containers"]
        if c["pool"] == "dedicated"
    }
    return named | {", ".join(names): cpus for cpus, names in _by_cpus(placed).items()}


def _by_cpus(named: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, cpus in named.items():
        found.setdefault(cpus, []).append(name)
    return found
