"""placing/lifecycle.py: when an owner ends, its CPUs stay with its pod or return.

"8cpu": cores 0-1, 2-3, 4-5, 6-7.
"""

from dataclasses import replace

import pytest

from nri_coloc.core.workload import Numa
from tests.unit.placing.kit import DEDICATED, asking, said
from tests.unit.placing.pods_kit import pod_of, with_containers


class TestAnOwnersEnd:
    @pytest.mark.parametrize("milli", [0, 2000])
    def test_the_pods_cpus_stay_with_it(self, milli):
        node = with_containers(2000, milli, milli, milli)
        outcome = node.stop("a")
        assert (node.owners(), node["c"].follows) == ({"b": "0-1"}, "b")
        assert said(outcome) == [
            ("container.release", "stopped"),
            ("container.update", "inherited"),
            ("container.update", "inherited"),
        ]
        assert not outcome.moves
        assert [d.after.cpus for d in outcome.decisions[1:]] == ["0-1", "0-1"]

    def test_a_container_that_comes_again_follows(self):
        node = with_containers(2000, 2000, 2000)
        node.stop("a")
        node.create("a", 2000)
        assert (node.owners(), node["a"].follows) == ({"b": "0-1"}, "b")

    def test_sidecars_inherit_nothing(self):
        node = with_containers(4100, 4000, 100, 0)
        node.stop("a")
        assert (node.owners(), node["b"].pool, node["c"].pool) == ({}, "share", "share")

    def test_a_late_end_of_an_init_container_leaves_its_cpus(self):
        node = with_containers(4000, 4000, 2000)  # the end of `a` is reported after the creation of `b`
        assert node["b"].follows == "a"
        outcome = node.stop("a")
        assert node.owners() == {"b": "0-1"}
        assert said(outcome)[-1] == ("pool.resize", "cpus_returned")

    def test_an_heir_is_bound_to_its_nodes(self):
        node = pod_of(4000)
        bound = replace(DEDICATED, numa=Numa.SINGLE)
        for name in "ab":
            node.create(name, 4000, bound)
        node.stop("a")
        assert (node["b"].mems, node.owners()) == (1, {"b": "0-3"})

    def test_the_whole_pods_end_returns_all(self):
        node = with_containers(2000, 2000, 2000)
        node.remove_pod()
        assert (node.owners(), node.pool("share")) == ({}, "0-7")

    def test_an_owner_that_gives_up_follows_its_heir(self):
        node = with_containers(2000, 2000, 2000)
        node.update("a", asking(500))
        assert (node.owners(), node["a"].follows) == ({"b": "0-1"}, "b")


class TestARestart:
    def test_a_follower_whose_owner_has_gone_meanwhile_owns(self):
        node = with_containers(2000, 0, 0)
        node.push()
        del node.listed["a"]
        assert node.anew().owners() == {"b": "0-1"}

    @pytest.mark.parametrize("own", [0, 4000])
    def test_inherited_cpus_stay_with_the_pod(self, own):
        node = pod_of(2000)
        node.create("early", 1000, on="early")
        for name in "abc":
            node.create(name, own)
        node.stop("a")
        node.stop("early")
        node.push()
        assert node.owners() == {"b": "2-3"}
        again = node.anew()
        assert list(again.owners().values()) == ["2-3"]
        assert [again.cpus(name) for name in "bc"] == ["2-3"] * 2
