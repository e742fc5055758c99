"""placing/pools.py: every pool follows from the machine, the reserve and the owned CPUs (DESIGN 4.2)."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import POOLS
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.placing import pools
from nri_coloc.sim import machines
from tests.unit.placing.kit import machine, mask


def shown(name: str, reserved: str = "", dedicated: str = "") -> dict[str, str]:
    derived = pools.derive(machine(name), mask(reserved), mask(dedicated))
    return {pool: cpuset.render(derived.cpus(pool)) for pool in POOLS}


def reserve(name: str = "8cpu", **tuning: Any) -> str:
    return cpuset.render(pools.reserved_cpus(machine(name), Tuning(**tuning)))


def test_without_a_reserve_everyone_has_every_cpu():
    assert shown("8cpu") == {
        "reserved": "",
        "dedicated": "",
        "system": "0-7",
        "share": "0-7",
        "reclaim": "0-7",
    }


def test_reserved_cpus_are_the_systems_only():
    assert shown("8cpu", reserved="0-1", dedicated="2-3") == {
        "reserved": "0-1",
        "dedicated": "2-3",
        "system": "0-1,4-7",
        "share": "4-7",
        "reclaim": "4-7",
    }


@pytest.mark.parametrize(
    ("name", "share"),
    [("isolated", "0-1,4-5,7"), ("offline", "0-2,4-5"), ("sparse", "0-1,64-65,1024-1025,4094-4095")],
    ids=["isolated", "offline", "sparse"],
)
def test_only_cpus_that_the_kernel_schedules_on_are_in_a_pool(name, share):
    assert shown(name)["share"] == shown(name)["system"] == share


class TestReserve:
    def test_none_is_the_default(self):
        assert reserve() == ""

    def test_a_list_is_taken_as_it_is(self):
        assert reserve(reserved=mask("3,5")) == "3,5"

    def test_a_list_wins_over_a_count(self):
        assert reserve(reserved=mask("3"), reserved_count=2) == "3"

    def test_listed_cpus_that_are_not_there_do_not_count(self):
        assert reserve(reserved=mask("7-99")) == "7"

    def test_a_list_of_missing_cpus_leaves_the_count(self):
        assert reserve("offline", reserved=mask("6-7"), reserved_count=1) == "0"

    def test_a_count_takes_the_lowest_cores_whole(self):
        assert reserve(reserved_count=2) == "0-1"
        assert reserve("laptop-no-numa", reserved_count=2) == "0,4"

    def test_an_odd_count_takes_one_thread_of_the_last_core(self):
        assert reserve(reserved_count=3) == "0-2"

    def test_isolated_cpus_are_not_counted(self):
        assert reserve("isolated", reserved_count=4) == "0-1,4-5"

    @pytest.mark.parametrize("count", [0, -3], ids=["none", "absurd"])
    def test_a_count_below_one_is_none(self, count):
        assert reserve(reserved_count=count) == ""

    @pytest.mark.parametrize(
        "tuning", [{"reserved_count": 99}, {"reserved": mask("0-7")}], ids=["count", "list"]
    )
    def test_the_last_cpu_is_left_to_the_pods(self, tuning):
        assert reserve(**tuning) == "0-6"

    def test_a_machine_with_one_cpu_reserves_nothing(self):
        assert reserve("1cpu", reserved_count=1) == ""


def test_a_new_node_holds_nobody():
    state = pools.initial(machine(), Tuning(reserved=mask("0")))
    assert (state.pods, dict(state.containers), state.owners, state.generation) == ({}, {}, {}, 0)
    assert cpuset.render(state.pools.share) == "1-7"


def test_where_only_isolated_cpus_are_left_online_they_are_used():
    all_isolated = machines.topology(replace(machines.MACHINES["2cpu"], isolated=0b11))
    assert pools.initial(all_isolated, Tuning()).pools.share == 0b11


def test_a_machine_whose_cores_are_unknown_counts_cpus():
    virtual = Topology.build([CPU(n) for n in range(4)])
    assert cpuset.render(pools.reserved_cpus(virtual, Tuning(reserved_count=3))) == "0-2"
