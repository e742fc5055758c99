"""Any machine that can be described reads back from its files as described, and can be drawn."""

import re
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.cli import topology as drawing
from nri_coloc.core import cpuset
from nri_coloc.core.topology import CPU
from nri_coloc.host import sysfs
from nri_coloc.sim import machines
from nri_coloc.sim.machines import MachineSpec


@st.composite
def machine_specs(draw: st.DrawFn) -> MachineSpec:
    """Draw cores of one to four threads with any ids; each lies in one package, node and L3 group or none."""
    numbers = draw(st.lists(st.integers(0, 4095), min_size=1, max_size=24, unique=True))
    cpus: list[CPU] = []
    while len(cpus) < len(numbers):
        width = draw(st.integers(1, 4))
        package, node = draw(st.integers(0, 2)), draw(st.sampled_from((0, 1, 2, 7)))
        l3 = draw(st.sampled_from(("", "x", "y", "z")))
        core = draw(st.sampled_from(("", f"core-{len(cpus)}")))
        cpus += [CPU(n, package, node, l3, core) for n in numbers[len(cpus) : len(cpus) + width]]
    online = cpuset.of(numbers)
    return MachineSpec(
        tuple(cpus),
        memory=draw(st.dictionaries(st.integers(0, 9), st.integers(0, 1 << 40).map(lambda kib: kib * 1024))),
        isolated=draw(st.integers(0, online)) & online,
        offline=draw(st.integers(0, 1 << 64)) & ~online,
        numa=draw(st.booleans()),
        legacy=draw(st.booleans()),
    )


@given(machine_specs())
def test_a_planted_machine_is_read_back(spec):
    with tempfile.TemporaryDirectory() as root:
        machines.plant(spec, Path(root))
        assert sysfs.read(root) == machines.topology(spec)


@given(machine_specs(), st.dictionaries(st.text(max_size=5), st.integers(0, 1 << 4096), max_size=4))
def test_every_cpu_of_any_machine_is_drawn_once(spec, owners):
    machine = machines.topology(spec)
    picture = drawing.draw(machine, owners).partition("\n\n")[2].partition("\n\n")[0]
    drawn = [mark for box in re.findall(r"\[([^]]*)\]", picture) for mark in box.split()]
    assert sorted(int(re.split(r"\D", mark)[0]) for mark in drawn) == list(cpuset.members(machine.online))
