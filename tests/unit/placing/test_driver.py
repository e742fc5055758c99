"""A container with CPUs of the DRA CPU driver is left alone; no pool has them while it exists.

"8cpu": cores 0-1, 2-3, 4-5, 6-7, nodes 0-3 and 4-7. (placing/admission.py, driver.py, resynchronisation.py)
"""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import NO_KNOBS
from nri_coloc.core.settings import ClassTuning, PoolTuning, Tuning
from nri_coloc.core.state import POOLS
from nri_coloc.core.workload import KEPT_BY_DRA, Container, QoSClass
from nri_coloc.placing import driver
from tests.unit.placing.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    Node,
    asking,
    container,
    first,
    machine,
    mask,
    said,
)

DRIVER = Tuning(dra_driver=True)
DRIVEN = replace(
    DEDICATED,
    because="the DRA CPU driver has pinned it to CPUs …",
    preserve=frozenset({"cpu", KEPT_BY_DRA}),
)


def claim(node: Node, cpus: str, name: str = "claimed", on: str = "claims") -> Outcome:
    """Create a container whose claims the gate has accepted."""
    own = asking(1000 * mask(cpus).bit_count(), cpus=cpus)
    return node.create(name, wish=DRIVEN, on=on, resources=own, claimed=mask(cpus))


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
        assert first(node.update("claimed", asking(2000, cpus="6-7"))).orders == NO_KNOBS

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
        assert (node["early"].follows, node["late"].follows) == ("", "")

    def test_cpus_of_an_owner_stay_the_owners(self):
        node = Node()
        node.create("db", 4000, on="db")
        outcome = claim(node, "2-5")
        assert (node.owners(), node["claimed"].hands_off, node.cpus("claimed")) == (
            {"db": "0-3"},
            False,
            "4-7",
        )
        assert said(outcome) == [("container.admit", "no_free_cpus")]
        assert first(outcome).because.endswith("and other containers own 2-3")
        assert outcome.moves.containers == ()

    def test_the_last_cpus_of_share_stay_in_share(self):
        node = Node()
        claim(node, "0-7")
        assert (node.pool("dedicated"), node.pool("share")) == ("", "0-7")

    def test_cpus_that_are_offline_are_not_its_own(self):
        node = Node()
        claim(node, "6-9")
        assert (node.pool("dedicated"), node.pool("share")) == ("6-7", "0-5")


class TestLater:
    def test_a_restart_changes_nothing(self):
        node = Node()
        node.create("web", 2000)
        claim(node, "4-5")
        node.create("side", 100)
        node.push()
        again = node.anew()
        assert (again.owners(), pools(again)) == (node.owners(), pools(node))
        assert node.synchronize().decisions == ()

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

    @pytest.mark.parametrize("cpus", ["5-6", "6-7"], ids=["one of them", "all of them"])
    def test_cpus_that_come_back_are_its_own_again(self, cpus):
        node = Node()
        claim(node, cpus)
        node.reconfigure(topology=machine("offline"))
        node.reconfigure(topology=machine())
        assert node.owners() == {"claimed": cpus}

    def test_cpus_that_came_back_displace_no_owner(self):
        node = Node()
        claim(node, "5-6")
        node.reconfigure(topology=machine("offline"))
        node.reconfigure(topology=machine())
        node.create("web", 5000)
        assert node.anew().owners() == node.owners()


class TestWhatCounts:
    def claiming(self, cpus: str, milli: int = 8000, spec: str | None = None, **facts: Any) -> Container:
        own = asking(milli, cpus=cpus if spec is None else spec)
        return container("c", "claims", resources=own, claimed=mask(cpus), **facts)

    def refused(
        self, node: Node, asked: Container, tuning: Tuning = DRIVER, *, is_created: bool = True
    ) -> tuple[str, bool]:
        return driver.refusal(node.state, asked, SHARED, tuning, (), is_created=is_created)

    @pytest.mark.parametrize(
        ("spec", "cpus"),
        [("4-5", "4-5"), ("", ""), ("0-7", ""), ("x", "")],
        ids=["same", "none", "more", "garbage"],
    )
    def test_a_spec_with_the_same_cpus(self, spec, cpus):
        assert driver.claimed(self.claiming("4-5", spec=spec)) == mask(cpus)

    def test_no_claim_of_cpus_that_we_pinned(self):
        ours = '{"v":1,"class":"shared","pool":"share","original":{"cpus":null}}'
        assert driver.claimed(self.claiming("0-7", record=ours)) == 0

    @pytest.mark.parametrize(("cpus", "milli"), [("4-5", 2000), ("4-5", 1001), ("0", 1000), ("0-6", 8000)])
    def test_free_cpus_within_the_request(self, cpus, milli):
        assert self.refused(Node(), self.claiming(cpus, milli)) == ("", False)

    @pytest.mark.parametrize(
        ("cpus", "milli", "most"), [("4-5", 1000, 1), ("4-5", 999, 0), ("0", 0, 0), ("0", 2, 0)]
    )
    def test_no_more_than_the_request(self, cpus, milli, most):
        tuning = replace(DRIVER, classes={QoSClass.DEDICATED: ClassTuning()})
        assert self.refused(Node(), self.claiming(cpus, milli), tuning) == (
            f"as many CPUs as the container's CPU request, here {most}",
            True,
        )

    def test_no_more_than_the_pods_request(self):
        node = Node()
        node.requests["claims"] = 2000
        node.create("first", 1000, on="claims")
        assert self.refused(node, self.claiming("4-5", 8000)) == (
            "as many CPUs as the container's CPU request, here 1",
            True,
        )

    def test_no_pod_below_the_least_request(self):
        tuning = replace(DRIVER, classes={QoSClass.DEDICATED: ClassTuning(min_request=4000)})
        assert self.refused(Node(), self.claiming("4-5", 2000), tuning) == (
            "claims of a pod that requests 4 CPUs (classes.dedicated.minRequest)",
            True,
        )

    def test_nothing_without_the_operators_word(self):
        assert self.refused(Node(), self.claiming("4-5"), Tuning()) == (
            "no claim without runtime.draCPUDriver: true",
            False,
        )

    def test_no_container_that_ran_before(self):
        assert self.refused(Node(), self.claiming("4-5"), is_created=False) == (
            "a claim that existed when the container was created beside this plugin",
            False,
        )

    def test_no_claim_of_all_that_share_has(self):
        allowed, _ = self.refused(Node("isolated"), self.claiming("0-1,4-7"))  # isolated are 2-3 and 6
        assert allowed == "CPUs that are free and leave one to share; free are 0-7"

    @pytest.mark.parametrize(
        ("record", "counts"),
        [
            ('{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"4-5"}', True),
            ('{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"4-6"}', False),
            (
                '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"4-5","original":{"cpus":"4-5"}}',
                False,
            ),
            ('{"v":1,"class":"shared","pool":"share"}', False),
        ],
        ids=["same", "others", "ours", "another-class"],
    )
    def test_a_record_tells_of_its_creation(self, record, counts):
        allowed, _ = self.refused(Node(), self.claiming("4-5", record=record), is_created=False)
        assert (allowed == "") is counts

    @pytest.mark.parametrize(
        ("exclusive", "created_at", "counts"),
        [("5-6", 2, False), ("5-6", 0, True), ("5-6", 1, True), ("2-3", 2, True)],
        ids=["younger", "older", "of equal age", "on other CPUs"],
    )
    def test_a_younger_record_ends_a_claim(self, exclusive, created_at, counts):
        text = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"%s"}'
        asked = self.claiming("4-5", record=text % "4-5", created_at=1)
        other = container("other", "web", record=text % exclusive, created_at=created_at)
        owners = driver.owners_at_creation((asked, other))
        allowed, _ = driver.refusal(Node().state, asked, SHARED, DRIVER, owners, is_created=False)
        assert (allowed == "") is counts

    @pytest.mark.parametrize("owner", [DEDICATED, DRIVEN], ids=["dedicated", "claim"])
    def test_no_cpus_of_an_owner(self, owner):
        node = Node()
        node.create("db", wish=owner, on="db", resources=asking(4000, cpus="0-3"), claimed=mask("0-3"))
        allowed, _ = self.refused(node, self.claiming("3-5"))
        assert allowed == "CPUs that are free and leave one to share; free are 4-7"

    @pytest.mark.parametrize(
        ("tuning", "cpus"),
        [
            (replace(DRIVER, kubelet_default=0b111100), "2-5"),
            (DRIVER, "0-7"),
            (replace(DRIVER, reserved=0b11), "2-7"),
            (replace(DRIVER, reserved=0b11), "0-1"),
            (replace(DRIVER, pools=(PoolTuning("gold", minimum=2),)), "0-1"),
        ],
        ids=["kubelets-default", "share", "share-beside-a-reserve", "reserved", "gold"],
    )
    def test_no_pool_and_no_default_set(self, tuning, cpus):
        allowed, _ = self.refused(Node(tuning=tuning), self.claiming(cpus), tuning)
        assert allowed == "CPUs that are no pool and not the kubelet's default set"

    @pytest.mark.parametrize(
        ("tuning", "cpus"),
        [
            (replace(DRIVER, reserved=0b11), "1-2"),
            (replace(DRIVER, pools=(PoolTuning("gold", minimum=4),)), "3-4"),
            (DRIVER, "6-9"),
        ],
        ids=["reserved", "gold", "offline"],
    )
    def test_nothing_of_a_pool_with_cpus_of_its_own(self, tuning, cpus):
        allowed, _ = self.refused(Node(tuning=tuning), self.claiming(cpus), tuning)
        assert allowed.startswith("CPUs that are free and leave one to share; free are ")


def test_a_cosmetic_change_leaves_the_sidecar_unmentioned():
    node = Node()
    node.create("web", 2000)
    node.create("side", 100)
    outcome = node.reconfigure(wishes={"web": replace(DEDICATED, because="a rule")})
    assert said(outcome) == [("container.update", "reconfigured")]
    assert not outcome.moves
