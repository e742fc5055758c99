"""placing/supply.py: the containers of a pod together own CPUs only up to the pod's request.

"8cpu": cores 0-1, 2-3, 4-5, 6-7. Shares of containers as the kubelet writes them: the pod's CPU limit where a container
has neither request nor limit, 2 where the pod has no limit.
"""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating
from nri_coloc.placing import change, supply
from tests.unit.placing.kit import DEDICATED, SHARED, Node, asking, container, figures, said
from tests.unit.placing.pods_kit import pod_of, with_containers
from tests.unit.placing.pools_kit import GOLD, IN_GOLD, having


class TestAPodsRequest:
    def test_three_containers_of_two_cpus_own_two(self):
        node = with_containers(2000, 2000, 2000, 2000)
        assert node.owners() == {"a": "0-1"}
        assert [node.cpus(name) for name in "abc"] == ["0-1"] * 3

    def test_four_cpus_without_limits_own_four(self):
        node = with_containers(4000, 0, 0, 0)
        assert node.owners() == {"a": "0-3"}
        assert [node.cpus(name) for name in "abc"] == ["0-3"] * 3

    def test_a_pods_limit_buys_no_more_than_its_request(self):
        node = with_containers(2000, 8000, 8000)
        assert node.owners() == {"a": "0-1"}

    def test_a_fraction_of_the_pods_request_is_rounded_up(self):
        assert with_containers(2500, 0).owners() == {"a": "0-2"}

    @pytest.mark.parametrize("milli", [0, 999])
    def test_less_than_one_cpu_owns_none(self, milli):
        assert with_containers(milli, 4000, 0).owners() == {}

    def test_an_own_request_comes_out_of_the_pods(self):
        node = with_containers(4000, 1000, 4000, 4000)
        assert node.owners() == {"a": "0", "b": "1-3"}
        assert node["c"].follows == "b"

    def test_an_own_request_that_the_pods_owner_has_taken_follows_it(self):
        node = with_containers(4000, 4000, 1000)
        assert (node.owners(), node["b"].follows) == ({"a": "0-3"}, "a")

    def test_requests_of_their_own_are_each_rounded_up(self):
        assert with_containers(3000, 1500, 1500).owners() == {"a": "0-1", "b": "2-3"}

    def test_rounding_leaves_the_pod_what_is_left(self):
        node = with_containers(3000, 1500, 3000)
        assert node.owners() == {"a": "0-1", "b": "2"}

    def test_requests_that_an_annotation_lowers_gain_nothing_by_rounding(self):
        """Three containers of 1001 milli-CPU in a pod of four CPUs, each with the shares of the pod's limit."""
        node = pod_of(4000)
        for name in "abc":
            node.create(name, 4000, replace(DEDICATED, cpu_milli=1001))
        assert node.owners() == {"a": "0-1", "b": "2-3"}

    def test_an_unknown_request_bounds_nothing(self):
        node = Node()
        node.create("a", 2000)
        node.create("b", 2000)
        assert node.owners() == {"a": "0-1", "b": "2-3"}

    def test_a_sidecar_owns_nothing_of_the_pods(self):
        node = with_containers(4100, 100, 4000)
        assert (node.owners(), node["a"].follows) == ({"b": "0-3"}, "b")

    def test_a_named_init_container_owns_nothing_of_the_pods(self):
        node = pod_of(4000)
        node.create("init", wish=replace(DEDICATED, init=True))
        assert (node.owners(), node["init"].pool) == ({}, "share")

    def test_an_ephemeral_container_follows_the_main_one(self):
        node = with_containers(8000, 2000, 0)
        assert (node.owners(), node["b"].follows) == ({"a": "0-1"}, "a")

    def test_cpus_of_a_driver_count(self):
        node = pod_of(4000)
        driven = replace(DEDICATED, preserve=frozenset({"cpu", "dra"}))
        node.create("a", wish=driven, resources=asking(3000, cpus="0-2"), claimed=0b111)
        node.create("b", 4000)
        assert node.owners() == {"a": "0-2", "b": "3"}

    def test_another_pods_owners_do_not_count(self):
        node = with_containers(2000, 2000)
        node.create("x", 4000, on="other")
        assert node.owners() == {"a": "0-1", "x": "4-7"}


class TestFigures:
    def test_a_cap_has_both_requests(self):
        found = figures(pod_of(2000).create("a", 8000))
        assert (found["request_milli"], found["pod_request_milli"], found["n"]) == (8000, 2000, 2)

    def test_a_second_owner_has_its_pods_owned_cpus(self):
        found = figures(with_containers(4000, 1000).create("b", 2000))
        assert (found["pod_request_milli"], found["pod_owned_cpus"], found["n"]) == (4000, 1, 2)

    def test_without_a_request_the_pods_counts(self):
        found = figures(pod_of(4000).create("a"))
        assert (found["request_milli"], found["pod_request_milli"], found["n"]) == (0, 4000, 4)


class TestAResizeOfThePod:
    def test_its_owner_grows_and_its_followers_go_along(self):
        node = with_containers(2000, 0, 0)
        node.create("online", wish=SHARED, on="shop")
        outcome = node.resize_pod("web", 4000)
        assert (node.owners(), node.cpus("b")) == ({"a": "0-3"}, "0-3")
        assert said(outcome) == [("container.update", "grown"), ("pool.resize", "cpus_taken")]
        assert (figures(outcome)["owned"], figures(outcome)["n"]) == ("0-1", 4)
        assert outcome.moves.containers[0] == "online"

    def test_its_owner_shrinks(self):
        node = with_containers(4000, 8000, 8000)
        outcome = node.resize_pod("web", 2000)
        assert (node.owners(), said(outcome)[-1]) == ({"a": "0-1"}, ("pool.resize", "cpus_returned"))

    def test_a_request_that_covers_its_containers_changes_nothing(self):
        node = with_containers(3000, 2000, 1000)
        outcome = node.resize_pod("web", 8000)
        assert (node.owners(), said(outcome)) == ({"a": "0-1", "b": "2"}, [])

    def test_a_smaller_request_that_a_creation_brings_counts(self):
        node = with_containers(4000, 0)
        node.requests["web"] = 2000
        outcome = node.create("b")
        assert (node.owners(), node["b"].follows) == ({"a": "0-1"}, "a")
        assert ("container.update", "shrunk") in said(outcome)

    def test_an_update_with_a_newer_request_counts_at_once(self):
        node = with_containers(2000, 2000)
        node.requests["web"] = 4000
        node.update("a", asking(4000))
        assert node.owners() == {"a": "0-3"}

    def test_an_unknown_pod_changes_nothing(self):
        node = Node()
        before = node.state
        assert node.resize_pod("gone", 2000).state is before

    def test_another_class_is_not_concerned(self):
        node = pod_of(2000)
        node.create("a", 4000, SHARED)
        assert said(node.resize_pod("web", 4000)) == []


class TestARestart:
    @pytest.mark.parametrize("own", [(2000, 2000, 2000), (0, 0, 0), (1000, 2000, 2000)])
    def test_owners_and_followers_stay(self, own):
        node = with_containers(2000, *own)
        node.push()
        again = node.anew()
        assert again.owners() == node.owners()
        assert [again.cpus(name) for name in "abc"] == [node.cpus(name) for name in "abc"]

    def test_a_smaller_request_meanwhile_counts(self):
        node = with_containers(4000, 0, 0)
        node.push()
        node.requests["web"] = 2000
        listing = node.listing()
        pods = tuple((node.pod(pod.id), wish) for pod, wish in listing.pods)
        again = Node()
        again.happen(replace(listing, pods=pods))
        assert (again.owners(), again.cpus("b")) == ({"a": "0-1"}, "0-1")


class TestWhatMembersAskFor:
    def counted(self, pod: int | None, *own: int) -> list[int]:
        members = [Node().create(f"c{n}", milli).state.containers[f"c{n}"] for n, milli in enumerate(own)]
        return [milli for _, milli in supply.counted(pod, members)]

    @pytest.mark.parametrize(
        ("pod", "own", "counts"),
        [
            (None, (2000, 2000), [2000, 2000]),
            (4000, (2000, 2000), [2000, 2000]),
            (2000, (2000, 2000), [1000, 1000]),
            (1000, (8000, 8000, 8000), [333, 333, 333]),
            (3000, (1000, 5000), [500, 2500]),
            (4000, (0, 0), [2000, 2000]),
            (4000, (), []),
            (0, (4000,), [0]),
        ],
    )
    def test_it_is_never_more_than_the_pods_request(self, pod, own, counts):
        assert self.counted(pod, *own) == counts

    def test_a_pool_is_sized_by_the_pods_request(self):
        node = having(GOLD)
        node.requests["web"] = 3000
        for name in "abc":
            node.create(name, 4000, IN_GOLD)
        assert node.pool("gold") == "0-2"
        node.reconfigure()
        assert node.pool("gold") == "0-2"
        node.resize_pod("web", 4000)
        assert node.pool("gold") == "0-3"
        node.remove_pod()
        assert node.pool("gold") == "0-1"


class TestBesideContainersInPools:
    """A request that a container of the pod uses in a pool is no part of what the pod's owners may own."""

    def test_a_shared_containers_request_is_its_own(self):
        node = pod_of(2000)
        node.create("web", 2000, SHARED)
        node.create("idle", 0)
        assert node.owners() == {}

    def test_an_owner_gets_what_it_leaves(self):
        node = pod_of(4000)
        node.create("web", 1500, SHARED)
        node.create("idle", 0)
        assert node.owners() == {"idle": "0-2"}

    def test_a_later_one_gets_its_part_of_the_request(self):
        node = pod_of(4000)
        node.create("idle", 0)
        outcome = node.create("web", 2000, SHARED)
        assert (node.owners(), node.cpus("web")) == ({"idle": "0-1"}, "2-7")
        assert said(outcome)[0] == ("container.update", "shrunk")
        assert node.pool("share") == "2-7"

    def test_its_second_attempt_counts_once(self):
        node = pod_of(4000)
        node.create("idle", 0)
        node.create("first", 2000, SHARED)
        node.happen(
            ContainerCreating(node.pod("web"), replace(container("second", milli=2000), name="first"), SHARED)
        )
        assert node.owners() == {"idle": "0-1"}

    def test_a_resize_takes_its_part(self):
        node = pod_of(4000)
        node.create("web", 1000, SHARED)
        node.create("idle", 0)
        node.update("web", asking(3000), SHARED)
        assert node.owners() == {"idle": "2"}

    def test_an_own_request_is_covered_beside_it(self):
        node = pod_of(3000)
        node.create("app", 2000)
        node.create("web", 1000, SHARED)
        assert node.owners() == {"app": "0-1"}

    def test_a_figure_that_may_be_the_pods_limit_takes_nothing(self):
        node = pod_of(3000)
        node.create("app", 2000)
        node.create("web", 3000, SHARED)
        assert node.owners() == {"app": "0-1"}

    def test_a_smaller_figure_than_the_pods_limit_counts(self):
        node = pod_of(4000)
        node.create("web", 3000, SHARED)
        node.create("idle", 8000)
        assert node.owners() == {"idle": "0"}

    def test_a_restart_finds_the_same(self):
        node = pod_of(4000)
        node.create("idle", 0)
        node.create("web", 2000, SHARED)
        assert node.anew().owners() == {"idle": "0-1"}

    def test_a_container_that_lost_its_class_keeps_its_request(self):
        node = pod_of(2000)
        node.create("app", 2000)
        node.create("idle", 0)
        node.reconfigure(wishes={"app": SHARED})
        assert node.owners() == {}


def test_a_lowered_container_takes_the_pods_cpus_along():
    node = pod_of(1000)
    node.create("app", 999)
    node.create("idle", 0)
    assert node.owners() == {"idle": "0"}
    had, has = (container("app", milli=milli) for milli in (999, 0))
    node.update("app", asking(0), lowered=change.lowered(node.state, node.pod("web"), had, has))
    assert node.owners() == {}


def test_nothing_is_due_beyond_the_pods_rounded_request():
    node = pod_of(4004)
    for name in "abc":
        node.create(name, 1001)
    due = supply.of(node.state, container("d", milli=4000), DEDICATED)
    assert (due.cpus, due.capped) == (0, True)
