"""sim/machines.py: the planted files and the direct topology are the same machine."""

from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import sysfs
from nri_coloc.sim import machines
from nri_coloc.sim.machines import GIB, MACHINES, Shape


@pytest.mark.parametrize("name", MACHINES)
def test_a_planted_machine_is_read_back_as_described(name, tmp_path):
    machines.plant(MACHINES[name], tmp_path)
    assert sysfs.read(str(tmp_path)) == machines.topology(MACHINES[name])


@pytest.mark.parametrize("name", MACHINES)
def test_every_cpu_lies_once_in_every_level(name):
    machine = machines.topology(MACHINES[name])
    nodes = [node.cpus for node in machine.nodes]
    for level in (machine.packages, nodes, machine.l3_groups, machine.cores):
        assert sum(level) == machine.online
        assert sum(mask.bit_count() for mask in level) == machine.online.bit_count()


def test_the_machine_of_the_designs_example_is_as_the_design_says():
    machine = machines.topology(MACHINES["8cpu"])
    assert [cpuset.render(core) for core in machine.cores] == ["0-1", "2-3", "4-5", "6-7"]
    assert [cpuset.render(node.cpus) for node in machine.nodes] == ["0-3", "4-7"]


@pytest.mark.parametrize(
    ("name", "cpus", "cores", "l3_groups", "nodes"),
    [("2cpu", 2, 2, 1, 1), ("4node", 16, 8, 4, 4), ("epyc-256", 256, 128, 16, 8), ("768", 768, 384, 24, 2)],
    ids=["2cpu", "4node", "epyc-256", "768"],
)
def test_the_machines_have_the_sizes_their_names_promise(name, cpus, cores, l3_groups, nodes):
    machine = machines.topology(MACHINES[name])
    found = (machine.online.bit_count(), len(machine.cores), len(machine.l3_groups), len(machine.nodes))
    assert found == (cpus, cores, l3_groups, nodes)


def test_threads_are_numbered_as_the_shape_says():
    apart = machines.topology(machines.regular(Shape(cores=2, threads=2)))
    beside = machines.topology(machines.regular(Shape(cores=2, threads=2, adjacent=True)))
    assert [cpuset.render(core) for core in apart.cores] == ["0,2", "1,3"]
    assert [cpuset.render(core) for core in beside.cores] == ["0-1", "2-3"]


def test_a_cpu_switched_off_leaves_its_folder_without_topology(tmp_path):
    machines.plant(machines.without(MACHINES["2cpu"], 0b10), tmp_path)
    folder = tmp_path / "sys/devices/system/cpu"
    assert (folder / "cpu1/online").read_text() == "0\n"
    assert not (folder / "cpu1/topology").exists()
    assert (folder / "present").read_text() == "0-1\n"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("8cpu", {}),
        ("hybrid", {"sys/devices/cpu_core/cpus": "0-15\n", "sys/devices/cpu_atom/cpus": "16-23\n"}),
        ("three-kinds", {f"sys/devices/system/cpu/cpu{n}/cpu_capacity": None for n in range(8)}),
    ],
    ids=["one-kind", "x86", "arm"],
)
def test_a_hybrid_machine_tells_its_kinds_as_its_architecture_does(name, told):
    found = {
        path: text for path, text in machines.files(MACHINES[name]) if "cpu_" in Path(path).parts[-1] + path
    }
    found = {
        path: text for path, text in found.items() if "core_cpus" not in path and "shared_cpu" not in path
    }
    assert found.keys() == told.keys()
    assert all(text is None or found[path] == text for path, text in told.items())


def test_an_old_kernel_has_the_old_names_only(tmp_path):
    machines.plant(MACHINES["legacy"], tmp_path)
    assert not list(tmp_path.rglob("core_cpus_list"))
    assert not (tmp_path / "sys/devices/system/cpu/isolated").exists()


def test_a_kernel_that_was_booted_without_psi_has_no_pressure_files(tmp_path):
    machines.plant(MACHINES["no-psi"], tmp_path)
    assert not (tmp_path / "proc/pressure").exists()


def test_what_the_whole_machine_shows_in_proc_is_planted(tmp_path: Path):
    machines.plant(MACHINES["offline"], tmp_path)
    stat = (tmp_path / "proc/stat").read_text().splitlines()
    assert [line.split()[0] for line in stat] == ["cpu", "cpu0", "cpu1", "cpu2", "cpu4", "cpu5"]
    assert sysfs.memory_total(str(tmp_path)) == 32 * GIB
    assert {path.name for path in (tmp_path / "proc/pressure").iterdir()} == {"cpu", "io", "memory"}
