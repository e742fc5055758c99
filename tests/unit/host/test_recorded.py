"""Recorded sysfs files of real machines are read, and CPUs can be chosen on them.

Simulated machines show what firmware is expected to do; recorded machines show what it did.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import Numa, Placement, QoSClass, Wish
from nri_coloc.host import sysfs
from nri_coloc.placing import allocator

RECORDED = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in RECORDED.glob("*.txt"))
DEDICATED = Wish(QoSClass.DEDICATED)


def plant(name: str, root: Path) -> None:
    """Write a recorded machine's files; "[LIST]" in a path stands for one file for each id."""
    for line in (RECORDED / f"{name}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            path, _, text = line.partition(" = ")
            head, ids, tail = re.fullmatch(r"([^[]*)(?:\[([0-9,-]+)\])?(.*)", path).groups()  # type: ignore[union-attr] # everything matches
            for at in cpuset.members(cpuset.parse(ids)) if ids else ("",):
                file = root / "sys/devices/system" / f"{head}{at}{tail}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{text}\n")


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Topology:
    plant(request.param, tmp_path)
    return sysfs.read(str(tmp_path))


def sizes(level: tuple[int, ...]) -> list[int]:
    return [group.bit_count() for group in level]


@pytest.mark.parametrize("machine", ["epyc-7451"], indirect=True)
def test_an_l3_of_three_cores_in_a_node_of_six(machine):
    assert sizes(machine.node_level) == [12] * 8
    assert sizes(machine.l3_groups) == [6] * 16
    assert (machine.near, machine.far[-1]) == ((machine.node_level, machine.l3_groups), machine.packages)
    chosen = allocator.allocate(machine, machine.usable, 6, DEDICATED)
    assert chosen is not None
    assert cpuset.render(chosen.cpus) == "0-2,48-50"


@pytest.mark.parametrize("machine", ["arm-3-kinds"], indirect=True)
def test_three_kinds_of_cores_are_told_apart_and_not_mixed(machine):
    assert [cpuset.render(kind) for kind in machine.kinds] == ["7", "3-6", "0-2"]
    found = [allocator.allocate(machine, machine.usable, n, DEDICATED) for n in (1, 2, 5)]
    assert [cpuset.render(grant.cpus) for grant in found if grant] == ["7", "3-4", "3-7"]


@pytest.mark.parametrize("machine", ["power7-smt4"], indirect=True)
def test_four_threads_make_a_core(machine):
    assert sizes(machine.cores) == [4] * 4
    one = allocator.allocate(machine, machine.usable & ~0b1_0111_0011, 1, DEDICATED)
    assert one is not None
    assert one.cpus == 1 << 7  # of the core with one thread left, not of cores with two or three


@pytest.mark.parametrize("machine", ["xeon-4-sockets"], indirect=True)
def test_a_node_may_be_wider_than_a_socket(machine):
    assert sizes(machine.packages) == [16] * 4
    assert sizes(machine.node_level) == [32, 16, 16]
    assert machine.near == (machine.node_level, machine.l3_groups)


@pytest.mark.parametrize("machine", ["riscv-64"], indirect=True)
def test_a_node_may_be_two_runs_of_ids(machine):
    assert cpuset.render(machine.node_level[1]) == "8-15,24-31"
    chosen = allocator.allocate(machine, machine.usable & ~0xFF, 16, DEDICATED)
    assert chosen is not None
    assert machine.nodes_of(chosen.cpus) == 0b10


@pytest.mark.parametrize("machine", NAMES, indirect=True)
@pytest.mark.parametrize("placement", Placement)
def test_on_every_machine_cpus_are_found_and_left_over(machine, placement):
    free = machine.usable
    unit = machine.threads_per_core if placement is Placement.FULL_CORES else 1
    for number in (unit, 2 * unit):
        wish = Wish(QoSClass.DEDICATED, numa=Numa.SINGLE, placement=placement)
        grant = allocator.allocate(machine, free, number, wish)
        assert grant is not None
        assert grant.cpus.bit_count() == number
        assert grant.cpus & ~free == 0
        free &= ~grant.cpus


@pytest.mark.parametrize("machine", NAMES, indirect=True)
def test_every_level_holds_each_cpu_once(machine):
    for level in (machine.packages, machine.dies, machine.l3_groups, machine.cores, machine.kinds):
        assert sum(sizes(level)) == machine.online.bit_count()
    for wide, narrow in pairwise((*machine.far, *machine.near)):
        assert len(wide) <= len(narrow) or wide in machine.far
