"""placing/pools.py: the CPUs of the reclaim pool follow from their number."""

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.placing import pools
from tests.unit.placing.kit import machine, mask


def box(count: int, share: str = "0-7", former: str = "", dedicated: str = "", name: str = "8cpu") -> str:
    """Return the CPUs of the reclaim pool; "8cpu" has cores 0-1, 2-3, 4-5, 6-7 on two nodes."""
    chosen = pools.choose(machine(name), mask(share), mask(dedicated), count, mask(former))
    return cpuset.render(chosen)


class TestSize:
    @pytest.mark.parametrize("count", [-4, 0, 1, 2, 3], ids=str)
    def test_a_box_never_has_less_than_one_core(self, count):
        assert box(count) == "6-7"

    @pytest.mark.parametrize(("count", "cpus"), [(4, "2-3,6-7"), (5, "2-3,6-7"), (6, "2-7")], ids=str)
    def test_it_has_whole_cores(self, count, cpus):
        assert box(count) == cpus

    @pytest.mark.parametrize("count", [8, 9, 10_000], ids=str)
    def test_it_has_no_more_than_share(self, count):
        assert box(count) == "0-7"
        assert box(count, share="1-7") == "1-7"

    def test_a_share_of_less_than_a_core_is_lent_whole(self):
        assert box(0, share="5") == "5"

    def test_without_smt_every_cpu_is_a_core(self):
        one_thread_each = Topology.build([CPU(n, core=str(n)) for n in range(4)])
        assert pools.choose(one_thread_each, 0b1111, 0, 3) == 0b1110


class TestChoice:
    def test_nodes_give_the_same_part_of_what_they_have(self):
        assert box(4) == "2-3,6-7"

    def test_a_small_node_is_not_emptied_for_a_large_one(self):
        large_and_small = Topology.build([CPU(n, node=n // 6, core=str(n // 2)) for n in range(8)])
        assert cpuset.render(pools.choose(large_and_small, mask("0-7"), 0, 4)) == "2-5"

    def test_the_highest_cpus_are_lent_first(self):
        assert box(2, share="0-3") == "2-3"

    def test_the_sibling_of_a_dedicated_cpu_is_lent_last(self):
        assert box(4, share="0-3,5-7", dedicated="4") == "2-3,6-7"
        assert box(6, share="0-3,5-7", dedicated="4") == "0-3,6-7"

    def test_a_core_that_others_broke_is_lent_after_the_whole_ones(self):
        assert box(2, share="4-6") == "4-5"

    def test_an_l3_group_without_dedicated_cpus_goes_first(self):
        cpus = [CPU(n, l3="a" if n < 4 else "b", core=str(n // 2)) for n in range(8)]
        near_the_top = pools.choose(Topology.build(cpus), mask("0-5"), mask("6-7"), 2)
        assert cpuset.render(near_the_top) == "2-3"


class TestStability:
    def test_a_growing_box_keeps_what_it_had(self):
        assert box(4, former="0-1") == "0-1,6-7"

    def test_a_shrinking_box_gets_no_new_cpus(self):
        assert box(2, former="0-3") == "2-3"
        assert box(4, former="0-1,4-7") == "0-1,6-7"

    def test_the_same_count_changes_nothing(self):
        assert box(4, former="0-1,4-5") == "0-1,4-5"
        assert box(5, former="0-1,4-5") == "0-1,4-5"

    def test_halves_of_cores_are_kept_although_whole_cores_are_free(self):
        assert box(2, share="0-3,5,7") == "2-3"
        assert box(2, share="0-3,5,7", former="5,7") == "5,7"

    def test_a_lost_core_is_replaced_and_the_other_stays(self):
        assert box(4, share="0-5", former="4-7", dedicated="6-7") == "2-5"

    def test_it_leaves_the_side_of_a_dedicated_cpu_where_it_can(self):
        assert box(4, share="0-5,7", former="0-1,6-7", dedicated="6") == "0-1,4-5"

    def test_a_divided_core_is_made_whole(self):
        assert box(2, former="3,5") == "4-5"

    def test_beside_dedicated_cpus_is_better_than_nowhere(self):
        assert box(2, share="0,2,5", dedicated="1,3,4") == "2"
        assert box(2, share="0,2,5", dedicated="1,3,4", former="5") == "2"
