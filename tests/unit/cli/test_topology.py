"""cli/topology.py: the drawing is readable at 2 and at 256 CPUs, and names the owner of each CPU."""

import json
import re

import pytest

from nri_coloc.cli import topology
from nri_coloc.core import cpuset
from nri_coloc.core.topology import Topology
from nri_coloc.errors import SettingsError
from nri_coloc.sim import machines
from nri_coloc.sim.machines import MACHINES


def machine(name: str) -> Topology:
    return machines.topology(MACHINES[name])


def test_two_cpus_take_five_lines():
    assert topology.draw(machine("2cpu"), None) == (
        "2 CPUs (0-1): 1 socket, 1 node, 1 L3 group, 2 cores, 1 thread a core\n"
        "\n"
        "socket 0  0-1\n"
        "  node 0  0-1  16.0 GiB\n"
        "    L3 0-1  [0] [1]\n"
    )


def test_owners_reserved_and_isolated_cpus_are_marked():
    owners = {
        "share": cpuset.parse("1,4-7"),
        "shop/web/app": cpuset.parse("4-5"),
        "reserved": 1,
        "dedicated": 0,
    }
    assert topology.draw(machine("isolated"), owners) == (
        "8 CPUs (0-7): 2 sockets, 2 nodes, 2 L3 groups, 4 cores, 2 threads a core\n"
        "\n"
        "socket 0  0-3\n"
        "  node 0  0-3  16.0 GiB\n"
        "    L3 0-3  [ 0#  1a] [ 2*  3*]\n"
        "socket 1  4-7\n"
        "  node 1  4-7  16.0 GiB\n"
        "    L3 4-7  [ 4b  5b] [6a*  7a]\n"
        "\n"
        "* isolated from the scheduler  2-3,6\n"
        "a share  1,4-7\n"
        "b shop/web/app  4-5\n"
        "# reserved  0\n"
        "c dedicated  none\n"
    )


def test_nodes_without_cpus_or_memory_are_shown():
    assert "  node 4  no CPUs  128.0 GiB" in topology.draw(machine("memory-only-node"), None)
    assert "  node 1  4-7  no memory" in topology.draw(machine("node-without-memory"), None)


def test_cores_of_different_widths_are_said():
    assert "16 cores, 1 or 2 threads a core" in topology.draw(machine("hybrid"), None)


def test_the_brackets_tell_the_kinds_of_cores():
    assert topology.draw(machine("three-kinds")) == (
        "8 CPUs (0-7): 1 socket, 1 node, 1 L3 group, 8 cores, 1 thread a core, 3 kinds of core\n"
        "\n"
        "socket 0  0-7\n"
        "  node 0  0-7  8.0 GiB\n"
        "    L3 0-7\n"
        "      <0> <1> <2> <3> (4) (5) (6) [7]\n"
        "\n"
        "[] fastest cores  7\n"
        "() cores of kind 1  4-6\n"
        "<> cores of kind 2  0-3\n"
    )


def test_dies_are_drawn_at_nodes_or_groups():
    assert "2 sockets, 4 dies, 8 nodes" in topology.draw(machine("dies"))
    assert "  node 2  8-11  16.0 GiB  die 1\n    L3 8-11  [" in topology.draw(machine("dies"))
    assert "  node 0  0-15  64.0 GiB\n    die 0  L3 0-3  [" in topology.draw(machine("dies-in-a-node"))
    assert "    die 1  L3 12-15  [" in topology.draw(machine("dies-in-a-node"))


@pytest.mark.parametrize("name", MACHINES)
def test_every_cpu_is_drawn_once(name):
    drawing = topology.draw(machine(name)).partition("socket 0")[2].partition("\n\n")[0]
    boxes = re.findall(r"[\[(<]([^])>]*)[])>]", drawing)
    drawn = [int(mark.rstrip("*")) for box in boxes for mark in box.split()]
    assert sorted(drawn) == list(cpuset.members(machine(name).online))


def test_256_cpus_fit_one_screen():
    lines = topology.draw(machine("epyc-256"), {"share": (1 << 256) - 1}).splitlines()
    assert max(map(len, lines)) <= topology.WIDTH
    assert len(lines) <= 50


def test_a_core_too_wide_for_a_line_is_drawn():
    wide = machines.topology(machines.regular(machines.Shape(threads=64)))
    assert f"[{' '.join(f'{cpu:>2}' for cpu in range(64))}]" in topology.draw(wide)


def test_owners_beyond_the_letters_share_a_mark():
    owners = {f"pod-{number}": 1 << number for number in range(60)}
    text = topology.draw(machine("xeon-64"), owners)
    assert "51Z" in text
    assert "59+" in text
    assert "+ pod-59  59" in text


def test_names_cannot_command_the_terminal():
    assert "a x?[2Jy  0" in topology.draw(machine("2cpu"), {"x\x1b[2Jy": 1})


@pytest.mark.parametrize(("root", "files"), [("/", "/sys and /proc"), ("/host/", "/host/sys and /host/proc")])
def test_the_drawing_says_where_it_was_read(root, files):
    assert topology.read_from(root).partition(";")[0] == f"read from {files}"


def test_a_daemon_of_another_machine_is_named():
    with pytest.raises(SettingsError, match=r"CPUs 0-7, and this one has 0-1; run this on its node"):
        topology.check_machine({"node": {"cpus": "0-7"}}, 0b11)
    topology.check_machine({"node": {"cpus": "0"}}, 0b11)


def test_json_names_the_nodes_as_the_http_interface_does():
    data = topology.as_json(machine("isolated"))
    assert json.loads(json.dumps(data)) == {
        "cpus": "0-7",
        "isolated": "2-3,6",
        "packages": ["0-3", "4-7"],
        "numa": [
            {"id": 0, "cpus": "0-3", "memory_bytes": 16 << 30},
            {"id": 1, "cpus": "4-7", "memory_bytes": 16 << 30},
        ],
        "dies": ["0-3", "4-7"],
        "kinds": ["0-7"],
        "l3_groups": ["0-3", "4-7"],
        "cores": ["0-1", "2-3", "4-5", "6-7"],
    }
