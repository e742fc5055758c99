"""CPUs that the DRA CPU driver gave a container: it is left alone, and they are in no pool while it lives.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7. (policy/admission.py, lifecycle.py, resync.py)
"""

from dataclasses import replace

import pytest

from nri_coloc.model.decisions import Outcome
from nri_coloc.model.events import Synchronized
from nri_coloc.model.knobs import NO_KNOBS
from nri_coloc.model.state import POOLS
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import KEPT_BY_DRA, Resources
from tests.unit.policy.kit import DEDICATED, RECLAIMED, SHARED, Node, first, machine, mask, said

DRIVEN = replace(
    DEDICATED,
    because="the DRA CPU driver has pinned it to CPUs …",
    preserve=frozenset({"cpu", KEPT_BY_DRA}),
)


def claim(node: Node, cpus: str, name: str = "claimed", on: str = "claims") -> Outcome:
    return node.create(name, wish=DRIVEN, on=on, resources=Resources(shares=2, cpus=cpus), claimed=mask(cpus))


def pools(node: Node) -> list[str]:
    return [node.pool(name) for name in POOLS]


class TestItsCPUs:
    def test_they_leave_all_pools_and_come_back(self):
        node = Node(tuning=Tuning(reserved=0b1))
        before = pools(node)
        outcome = claim(node, "4-5")
        assert pools(node) == ["0", "4-5", "0-3,6-7", "1-3,6-7", "1-3,6-7"]
        assert said(outcome) == [("container.admit", "hands_off"), ("pool.resize", "cpus_taken")]
        node.stop("claimed")
        assert pools(node) == before

    def test_nothing_is_ordered_for_it(self):
        node = Node()
        outcome = claim(node, "4-5")
        assert (first(outcome).orders, node.cpus("claimed")) == (NO_KNOBS, "4-5")
        assert first(node.update("claimed", Resources(cpus="6-7"))).orders == NO_KNOBS

    def test_sharers_leave_before_it_starts(self):
        node = Node()
        node.create("online", wish=SHARED, on="shop")
        outcome = claim(node, "4-5")
        assert outcome.waits_for.containers == ("online",)
        assert node.cpus("online") == "0-3,6-7"

    def test_its_reclaimed_pod_leaves_the_box(self):
        node = Node()
        node.start_pod("claims", RECLAIMED)
        assert node.state.boxed("claims")
        claim(node, "4-5")
        assert not node.state.boxed("claims")

    def test_nobody_follows_it(self):
        node = Node()
        node.create("early", 100)
        claim(node, "4-7", on="web")
        node.create("late", 100)
        assert (node["early"].follows, node["late"].follows) == ("", "early")

    @pytest.mark.parametrize(
        ("cpus", "own", "share"),
        [("0-7", "1-7", "0"), ("6-9", "6-7", "0-5"), ("8-9", "", "0-7")],
        ids=["all-of-them", "partly-offline", "offline"],
    )
    def test_share_keeps_a_cpu_and_only_what_exists_is_taken(self, cpus, own, share):
        node = Node()
        claim(node, cpus)
        assert (node.pool("dedicated"), node.pool("share")) == (own, share)

    def test_a_cpu_that_share_keeps_is_said(self):
        assert first(claim(Node(), "0-7")).because.endswith("; 0 stays in share, which would be empty")


class TestOwnersOnThem:
    def test_who_owns_one_keeps_the_rest_and_gets_another_beside_it(self):
        node = Node()
        node.create("web", 2000)
        node.create("far", 2000, on="far")
        outcome = claim(node, "1,7")
        assert node.owners() == {"far": "2-3", "claimed": "1,7", "web": "0,6"}
        assert ("container.update", "cpus_claimed") in said(outcome)
        assert "web" in outcome.moves.containers
        told = next(d for d in outcome.decisions if d.reason.value == "cpus_claimed")
        assert told.because == (
            "restored: asked 2 CPUs; record gives CPUs 0-1, of which free: 0; it keeps CPUs 0 and takes 6 beside "
            "them, some on nodes 1: of its nodes 0 only CPUs none were free; free were 4-6; "
            "the DRA CPU driver gave CPUs of its own to another container"
        )

    def test_its_sidecars_stay_with_it(self):
        node = Node()
        node.create("web", 2000)
        node.create("side", 100)
        claim(node, "1")
        assert (node["side"].follows, node.cpus("side")) == ("web", "0,2")

    def test_who_cannot_get_others_runs_in_share(self):
        node = Node()
        node.create("web", 7000)
        claim(node, "0-1")
        assert (node.owners(), node["web"].pool, node.cpus("web")) == ({"claimed": "0-1"}, "share", "2-7")

    def test_two_claims_to_one_cpu_are_the_drivers_business(self):
        node = Node()
        claim(node, "4-5")
        claim(node, "5-6", "second", on="others")
        assert node.pool("share") == "0-3,7"


class TestLater:
    def test_a_restart_changes_nothing(self):
        node = Node()
        node.create("web", 2000)
        claim(node, "1-2")
        node.create("side", 100)
        node.push()
        again = node.anew()
        assert (again.owners(), pools(again)) == (node.owners(), pools(node))
        assert node.synchronize().decisions == ()

    def test_a_claim_that_came_meanwhile_goes_before_records(self):
        node = Node()
        node.create("web", 2000)
        other = Node()
        claim(other, "0-3")
        node.listed |= {k: replace(c, record="") for k, c in other.listed.items()}
        again = Node()
        again.happen(with_wishes(node))
        assert again.owners() == {"claimed": "0-3", "web": "4-5"}

    def test_a_reserve_over_them_does_not_move_it(self):
        node = Node()
        claim(node, "0-1")
        node.create("web", 2000)
        outcome = node.reconfigure(Tuning(reserved=0b11))
        assert node.owners() == {"claimed": "0-1", "web": "2-3"}
        assert (outcome.moves.containers, node.pool("share")) == ((), "4-7")

    def test_a_smaller_machine_takes_what_is_gone(self):
        node = Node()
        claim(node, "6-7")
        smaller = machine("offline")  # without 3 and 6-7
        node.reconfigure(topology=smaller)
        assert (node.pool("dedicated"), node.pool("share")) == ("", "0-2,4-5")

    def test_a_reserve_that_leaves_share_nothing_else_leaves_it_one(self):
        node = Node()
        claim(node, "2-7")
        node.reconfigure(Tuning(reserved=0b11))
        assert (node.pool("share"), node.pool("dedicated")) == ("2", "3-7")


def with_wishes(node: Node) -> Synchronized:
    """The runtime's list, where the state does not know a container whose wish is plain from its claim."""
    wishes = {k: DRIVEN if c.claimed else DEDICATED for k, c in node.listed.items()}
    return Synchronized((), tuple((c, wishes[k]) for k, c in node.listed.items()))


def test_a_cosmetic_change_of_a_main_container_says_nothing_of_its_sidecar():
    node = Node()
    node.create("web", 2000)
    node.create("side", 100)
    outcome = node.reconfigure(wishes={"web": replace(DEDICATED, because="a rule")})
    assert said(outcome) == [("container.update", "reconfigured")]
    assert not outcome.moves
