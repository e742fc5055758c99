"""host/sysfs.py: machines of every shape are read, and a missing file has a safe meaning."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import sysfs
from nri_coloc.sim import machines
from nri_coloc.sim.machines import GIB, MACHINES

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


@pytest.fixture
def eight(tmp_path: Path) -> Path:
    """Return the root of a machine with cores 0-1, 2-3 on socket 0 and 4-5, 6-7 on socket 1."""
    machines.plant(MACHINES["8cpu"], tmp_path)
    return tmp_path


def masks(*lists: str) -> tuple[int, ...]:
    return tuple(cpuset.parse(text) for text in lists)


def cache(root: Path, cpu: int, index: int, facts: tuple[str, str, str]) -> None:
    """Give a CPU one more cache: (level, type, shared_cpu_list)."""
    folder = root / CPU / f"cpu{cpu}/cache/index{index}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("level", "type", "shared_cpu_list"), facts, strict=True):
        (folder / name).write_text(f"{text}\n")


def test_every_level_of_the_eight_cpu_machine_is_found(eight):
    machine = sysfs.read(str(eight))
    assert machine.online == cpuset.parse("0-7")
    assert machine.packages == masks("0-3", "4-7")
    assert machine.l3_groups == masks("0-3", "4-7")
    assert machine.cores == masks("0-1", "2-3", "4-5", "6-7")
    assert [(n.id, n.cpus, n.memory_bytes) for n in machine.nodes] == [
        (0, cpuset.parse("0-3"), 16 * GIB),
        (1, cpuset.parse("4-7"), 16 * GIB),
    ]


def test_the_root_may_end_with_a_slash(eight):
    assert sysfs.read(f"{eight}/") == sysfs.read(str(eight))


def test_this_machine_can_be_read():
    machine = sysfs.read("/")
    assert machine.online
    assert machine.all_mems
    assert sysfs.memory_total("/") >= max(n.memory_bytes for n in machine.nodes)


def test_the_files_of_a_cores_other_threads_are_not_needed(eight):
    expected = sysfs.read(str(eight))
    for cpu in (1, 3, 5, 7):
        shutil.rmtree(eight / CPU / f"cpu{cpu}")
    assert sysfs.read(str(eight)) == expected


class TestCPUs:
    def test_no_list_of_online_cpus_is_an_error_with_its_path(self, tmp_path):
        with pytest.raises(KernelInterfaceError, match="no such file") as raised:
            sysfs.read(str(tmp_path))
        assert raised.value.path == f"{tmp_path}/{CPU}/online"

    def test_an_empty_list_of_online_cpus_is_an_error(self, eight):
        (eight / CPU / "online").write_text("\n")
        with pytest.raises(KernelInterfaceError, match="it names no CPU"):
            sysfs.read(str(eight))

    def test_offline_cpus_belong_to_no_level(self, tmp_path):
        machines.plant(MACHINES["offline"], tmp_path)
        machine = sysfs.read(str(tmp_path))
        assert machine.online == cpuset.parse("0-2,4-5")
        assert machine.cores == masks("0-1", "2", "4-5")

    def test_a_sibling_that_went_offline_meanwhile_is_not_counted(self, eight):
        (eight / CPU / "online").write_text("0-6\n")
        machine = sysfs.read(str(eight))
        assert machine.cores == masks("0-1", "2-3", "4-5", "6")
        assert machine.nodes[1].cpus == cpuset.parse("4-6")

    @pytest.mark.parametrize("text", ["\n", "", "(null)\n"], ids=["newline", "empty", "null"])
    def test_an_empty_list_of_isolated_cpus_is_none(self, eight, text):
        (eight / CPU / "isolated").write_text(text)
        assert sysfs.read(str(eight)).isolated == 0

    def test_without_a_list_of_isolated_cpus_there_are_none(self, eight):
        (eight / CPU / "isolated").unlink()
        assert sysfs.read(str(eight)).isolated == 0

    def test_isolated_cpus_are_online_but_not_usable(self, eight):
        (eight / CPU / "isolated").write_text("2-3\n")
        machine = sysfs.read(str(eight))
        assert machine.online & ~machine.usable == cpuset.parse("2-3")


class TestCores:
    def test_the_siblings_older_name_is_read_too(self, eight):
        for file in eight.glob(f"{CPU}/cpu*/topology/core_cpus_list"):
            file.unlink()
        assert sysfs.read(str(eight)).cores == masks("0-1", "2-3", "4-5", "6-7")

    def test_a_cpu_without_topology_is_its_own_core_in_package_zero(self, eight):
        for cpu in (4, 5):
            shutil.rmtree(eight / CPU / f"cpu{cpu}/topology")
        machine = sysfs.read(str(eight))
        assert machine.cores == masks("0-1", "2-3", "4", "5", "6-7")
        assert machine.packages == masks("0-5", "6-7")

    def test_an_unknown_package_is_package_zero(self, eight):
        (eight / CPU / "cpu4/topology/physical_package_id").write_text("-1\n")
        assert sysfs.read(str(eight)).packages == masks("0-5", "6-7")

    def test_an_unreadable_package_is_an_error_with_its_path(self, eight):
        file = eight / CPU / "cpu4/topology/physical_package_id"
        file.write_text("x\n")
        with pytest.raises(KernelInterfaceError) as raised:
            sysfs.read(str(eight))
        assert raised.value.path == str(file)


class TestDies:
    def test_a_die_is_a_level_of_its_own(self, tmp_path):
        machines.plant(MACHINES["dies-in-a-node"], tmp_path)
        assert sysfs.read(str(tmp_path)).dies == masks("0-7", "8-15")

    def test_dies_of_two_packages_have_the_same_ids(self, tmp_path):
        machines.plant(MACHINES["dies"], tmp_path)
        assert sysfs.read(str(tmp_path)).dies == masks("0-7", "8-15", "16-23", "24-31")

    @pytest.mark.parametrize("text", [None, "-1\n"], ids=["absent", "unknown"])
    def test_without_an_id_a_package_is_a_die(self, eight, text):
        for file in eight.glob(f"{CPU}/cpu*/topology/die_id"):
            file.unlink()
            if text:
                file.write_text(text)
        assert sysfs.read(str(eight)).dies == masks("0-3", "4-7")


class TestKinds:
    def test_all_cores_are_of_one_kind_where_the_kernel_says_nothing(self, eight):
        assert sysfs.read(str(eight)).kinds == masks("0-7")

    def test_the_core_pmus_of_a_hybrid_machine_tell_its_kinds(self, tmp_path):
        machines.plant(MACHINES["hybrid"], tmp_path)
        assert sysfs.read(str(tmp_path)).kinds == masks("0-15", "16-23")

    def test_one_pmu_alone_tells_nothing(self, tmp_path):
        machines.plant(MACHINES["hybrid"], tmp_path)
        (tmp_path / "sys/devices/cpu_atom/cpus").unlink()
        assert sysfs.read(str(tmp_path)).kinds == masks("0-23")

    def test_a_cpu_without_pmu_is_of_slowest_kind(self, tmp_path):
        machines.plant(MACHINES["hybrid"], tmp_path)
        (tmp_path / "sys/devices/cpu_atom/cpus").write_text("14-22\n")
        assert sysfs.read(str(tmp_path)).kinds == masks("0-15", "16-23")

    def test_capacities_tell_kinds(self, tmp_path):
        machines.plant(MACHINES["three-kinds"], tmp_path)
        assert sysfs.read(str(tmp_path)).kinds == masks("7", "4-6", "0-3")

    def test_favoured_cores_are_no_kind_of_their_own(self, eight):
        for cpu in range(8):
            (eight / CPU / f"cpu{cpu}/cpu_capacity").write_text(f"{(1024, 1001, 980, 400)[cpu // 2]}\n")
        assert sysfs.read(str(eight)).kinds == masks("0-5", "6-7")

    def test_a_core_without_a_capacity_is_of_the_slowest_kind(self, tmp_path):
        machines.plant(MACHINES["three-kinds"], tmp_path)
        (tmp_path / CPU / "cpu7/cpu_capacity").unlink()
        assert sysfs.read(str(tmp_path)).kinds == masks("4-6", "0-3", "7")


class TestCaches:
    def test_without_caches_a_package_and_node_is_a_group(self, eight):
        for folder in eight.glob(f"{CPU}/cpu*/cache"):
            shutil.rmtree(folder)
        assert sysfs.read(str(eight)).l3_groups == masks("0-3", "4-7")

    def test_without_level_three_an_l2_beyond_the_core_counts(self, eight):
        for cpu in range(8):
            shutil.rmtree(eight / CPU / f"cpu{cpu}/cache")
            cache(eight, cpu, 2, ("2", "Unified", "0-3" if cpu < 4 else "4-5" if cpu < 6 else "6-7"))
        assert sysfs.read(str(eight)).l3_groups == masks("0-3", "4-7")

    def test_a_private_l2_makes_no_groups(self, tmp_path):
        spec = MACHINES["xeon-64"]
        machines.plant(spec, tmp_path)
        for folder in tmp_path.glob(f"{CPU}/cpu*/cache/index3"):
            shutil.rmtree(folder)
        assert sysfs.read(str(tmp_path)).l3_groups == sysfs.read(str(tmp_path)).packages

    def test_small_cores_that_share_only_l2_are_a_group(self, tmp_path):
        machines.plant(MACHINES["hybrid"], tmp_path)
        for cpu in range(24):
            shared = "0-21" if cpu < 22 else "22-23"
            shutil.rmtree(tmp_path / CPU / f"cpu{cpu}/cache")
            cache(tmp_path, cpu, 3, ("3" if cpu < 22 else "2", "Unified", shared))
        assert sysfs.read(str(tmp_path)).l3_groups == masks("0-21", "22-23")

    def test_a_fourth_level_does_not_hide_the_third(self, eight):
        for cpu in range(8):
            cache(eight, cpu, 4, ("4", "Unified", "0-7"))
        assert sysfs.read(str(eight)).l3_groups == masks("0-3", "4-7")

    def test_a_lower_shared_cache_does_not_beat_a_higher_one(self, eight):
        for cpu in range(8):
            cache(eight, cpu, 3, ("2", "Unified", "0-3" if cpu < 4 else "4-7"))
            cache(eight, cpu, 4, ("4", "Unified", "0-7"))
        assert sysfs.read(str(eight)).l3_groups == masks("0-7")

    def test_a_cache_without_level_or_sharers_does_not_count(self, eight):
        for cpu in range(8):
            (eight / CPU / f"cpu{cpu}/cache/index2/level").unlink()
            (eight / CPU / f"cpu{cpu}/cache/index3/shared_cpu_list").unlink()
        assert sysfs.read(str(eight)).l3_groups == masks("0-3", "4-7")

    def test_a_cache_without_a_type_counts(self, eight):
        for file in eight.glob(f"{CPU}/cpu*/cache/index3/type"):
            file.unlink()
        shutil.rmtree(eight / NODE)
        for file in eight.glob(f"{CPU}/cpu*/topology/physical_package_id"):
            file.unlink()
        assert sysfs.read(str(eight)).l3_groups == masks("0-3", "4-7")


class TestNodes:
    def test_a_kernel_without_numa_is_one_node_with_all_memory(self, tmp_path):
        machines.plant(MACHINES["laptop-no-numa"], tmp_path)
        (node,) = sysfs.read(str(tmp_path)).nodes
        assert (node.id, node.cpus, node.memory_bytes) == (0, cpuset.parse("0-7"), 16 * GIB)

    def test_without_numa_and_meminfo_there_is_still_node_zero(self, tmp_path):
        machines.plant(MACHINES["laptop-no-numa"], tmp_path)
        (tmp_path / "proc/meminfo").unlink()
        machine = sysfs.read(str(tmp_path))
        assert machine.nodes[0].memory_bytes == 0
        assert machine.all_mems == 1

    def test_a_single_node_has_all_the_memory(self, tmp_path):
        machines.plant(MACHINES["2cpu"], tmp_path)
        (tmp_path / NODE / "node0/meminfo").write_text("Node 0 MemTotal: 1024 kB\n")
        assert sysfs.read(str(tmp_path)).nodes[0].memory_bytes == 16 * GIB

    def test_a_single_node_is_asked_where_the_machine_does_not_say(self, tmp_path):
        machines.plant(MACHINES["2cpu"], tmp_path)
        (tmp_path / "proc/meminfo").unlink()
        assert sysfs.read(str(tmp_path)).nodes[0].memory_bytes == 16 * GIB

    def test_a_node_without_cpus_has_memory_only(self, tmp_path):
        machines.plant(MACHINES["memory-only-node"], tmp_path)
        node = sysfs.read(str(tmp_path)).nodes[2]
        assert (node.id, node.cpus, node.memory_bytes) == (4, 0, 128 * GIB)

    def test_a_node_without_memory_is_no_memory_node(self, tmp_path):
        machines.plant(MACHINES["node-without-memory"], tmp_path)
        machine = sysfs.read(str(tmp_path))
        assert machine.nodes[1].memory_bytes == 0
        assert machine.all_mems == 0b01

    def test_a_node_without_files_has_neither(self, eight):
        shutil.rmtree(eight / NODE / "node1")
        (eight / NODE / "node1").mkdir()
        machine = sysfs.read(str(eight))
        assert machine.nodes[1].cpus == 0
        assert machine.nodes[1].memory_bytes == 0

    def test_a_cpu_in_no_node_lies_in_the_lowest(self, eight):
        (eight / NODE / "node0/cpulist").write_text("0-2\n")
        (eight / NODE / "node0").rename(eight / NODE / "node2")
        machine = sysfs.read(str(eight))
        assert [(n.id, n.cpus) for n in machine.nodes] == [
            (1, cpuset.parse("3-7")),
            (2, cpuset.parse("0-2")),
        ]

    def test_a_cpu_in_two_nodes_lies_in_the_lower(self, eight):
        (eight / NODE / "node1/cpulist").write_text("3-7\n")
        assert sysfs.read(str(eight)).nodes[0].cpus == cpuset.parse("0-3")

    def test_other_names_beside_the_nodes_are_passed_over(self, eight):
        for name in ("node9999", "nodes", "power"):
            (eight / NODE / name).mkdir()
        assert [n.id for n in sysfs.read(str(eight)).nodes] == [0, 1]

    def test_a_nodes_meminfo_without_a_total_is_an_error(self, eight):
        (eight / NODE / "node1/meminfo").write_text("Node 1 MemFree: 1 kB\n")
        with pytest.raises(KernelInterfaceError, match="MemTotal"):
            sysfs.read(str(eight))


class TestMemoryTotal:
    def test_it_is_in_bytes(self, eight):
        assert sysfs.memory_total(str(eight)) == 32 * GIB

    def test_a_missing_file_is_an_error_with_its_path(self, tmp_path):
        with pytest.raises(KernelInterfaceError, match="no such file") as raised:
            sysfs.memory_total(str(tmp_path))
        assert raised.value.path == f"{tmp_path}/proc/meminfo"


def test_ids_up_to_4095_are_read(tmp_path):
    machines.plant(replace(MACHINES["sparse"], isolated=1 << 4095), tmp_path)
    machine = sysfs.read(str(tmp_path))
    assert machine.cores == masks("0-1", "64-65", "1024-1025", "4094-4095")
    assert machine.isolated == 1 << 4095


class TestGlimpse:
    def test_it_stays_the_same_while_the_machine_does(self, eight):
        assert sysfs.glimpse(str(eight)) == sysfs.glimpse(str(eight))

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            (f"{CPU}/online", "0-6\n"),
            (f"{CPU}/isolated", "7\n"),
            (f"{NODE}/node1/cpulist", "4-6\n"),
            (f"{NODE}/node1/meminfo", "Node 1 MemTotal: 4 kB\n"),
        ],
        ids=["online", "isolated", "node", "memory"],
    )
    def test_it_changes_with_whatever_comes_or_goes(self, eight, file, text):
        before = sysfs.glimpse(str(eight))
        (eight / file).write_text(text)
        assert sysfs.glimpse(str(eight)) != before

    def test_no_list_of_online_cpus_is_an_error_with_its_path(self, tmp_path):
        with pytest.raises(KernelInterfaceError, match="cpu/online"):
            sysfs.glimpse(str(tmp_path))
