"""placing/admission.py: some of a container's values are ours, and the others are left alone."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import Numa, Resources
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, Node, figures, first


class TestOrders:
    def test_everyones_cpus_are_ours(self):
        node = Node()
        node.create("c", wish=SHARED)
        assert node["c"].knobs == Knobs(cpus="0-7")

    def test_a_member_of_the_box_inherits_its_cpus(self):
        node = Node()
        node.create("c", wish=RECLAIMED)
        assert node["c"].knobs == Knobs(oom_score_adj=1000)

    def test_a_reclaimed_container_beside_an_online_one_does_not(self):
        node = Node()
        node.create("online", wish=SHARED)
        node.create("c", wish=RECLAIMED)
        assert node["c"].knobs.cpus == "0-7"

    def test_only_a_bound_containers_mems_are_ours(self):
        node = Node()
        node.create("c", 2000, replace(DEDICATED, numa=Numa.SINGLE))
        assert node["c"].knobs == Knobs(cpus="0-1", mems="0")

    @pytest.mark.parametrize(
        ("quota", "percent", "burst"),
        [(100_000, 25, 25_000), (100_000, 0, 0), (-1, 25, None), (None, 25, None), (100_000, None, None)],
        ids=["quarter", "zero", "unlimited", "no-quota", "not-asked"],
    )
    def test_a_burst_is_a_part_of_the_quota(self, quota, percent, burst):
        node = Node()
        wish = replace(SHARED, cpu_burst_percent=percent)
        node.create("c", wish=wish, resources=Resources(quota=quota))
        assert node["c"].knobs.burst == burst

    def test_a_burst_has_its_figures(self):
        wish = replace(SHARED, cpu_burst_percent=25, burst_because="classes.shared.cpuBurst")
        outcome = Node().create("c", wish=wish, resources=Resources(quota=100_000))
        assert {"quota": 100_000, "burst_percent": 25}.items() <= figures(outcome).items()
        assert first(outcome).after.burst == 25_000

    def test_without_a_quota_there_is_no_burst(self):
        wish = replace(SHARED, cpu_burst_percent=25, burst_because="classes.shared.cpuBurst")
        outcome = Node().create("c", wish=wish)
        assert (first(outcome).after.burst, "burst_percent" in figures(outcome)) == (None, False)

    def test_a_member_of_the_box_may_burst_too(self):
        node = Node()
        wish = replace(RECLAIMED, cpu_burst_percent=50)
        node.create("c", wish=wish, resources=Resources(quota=100, shares=2), oom_score_adj=1000)
        assert node["c"].knobs == Knobs(burst=50)

    def test_what_the_spec_says_already_is_not_ours(self):
        node = Node()
        wish = replace(SHARED, knobs=Knobs(shares=512, memory_limit=7))
        node.create("c", wish=wish, resources=Resources(shares=512, memory_limit=9, cpus="0-7"))
        assert node["c"].knobs == Knobs(memory_limit=7)
        assert node["c"].original == Knobs(memory_limit=9)

    def test_ours_is_told_from_the_kubelets_by_the_record(self):
        node = Node()
        wish = replace(SHARED, knobs=Knobs(memory_limit=7))
        node.create("c", wish=wish, resources=Resources(memory_limit=9))
        again = node.anew()
        assert again["c"].knobs == node["c"].knobs
        assert again["c"].original == Knobs(memory_limit=9)
        assert again["c"].container.resources == Resources(memory_limit=9)


class TestPreserving:
    WISHED = Knobs(shares=2, quota=9, memory_limit=1, memory_high=1, memory_low=1, memory_min=1, io_weight=50)

    def ours(self, **values: Any) -> Knobs:
        node = Node()
        wish = replace(SHARED, knobs=self.WISHED, cpu_burst_percent=10, **values)
        node.create("c", wish=wish, resources=Resources(quota=100))
        return node["c"].knobs

    def test_preserved_cpu_takes_every_value_of_the_cpu(self):
        ours = self.ours(preserve=frozenset({"cpu"}))
        assert ours == Knobs(memory_limit=1, memory_high=1, memory_low=1, memory_min=1, io_weight=50)

    def test_preserved_memory_takes_every_value_of_memory(self):
        ours = self.ours(preserve=frozenset({"memory"}))
        assert ours == Knobs(cpus="0-7", shares=2, quota=9, burst=10, io_weight=50)

    def test_both_may_be_preserved(self):
        assert self.ours(preserve=frozenset({"cpu", "memory"})) == Knobs(io_weight=50)

    def test_an_ignored_handlers_pod_gets_nothing(self):
        assert self.ours(handler="ignore") == NO_KNOBS

    def test_of_a_vm_the_pods_cgroup_is_the_unit(self):
        assert self.ours(handler="pod") == NO_KNOBS
