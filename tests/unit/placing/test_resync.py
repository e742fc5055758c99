"""placing/resynchronisation.py: the runtime's whole list restores the state after a restart."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.decisions import Outcome, Synchronized
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Container, Phase, Resources, Wish
from nri_coloc.placing import resynchronisation
from tests.unit.placing.kit import (
    DEDICATED,
    RECLAIMED,
    SHARED,
    Node,
    asking,
    container,
    everyone_in,
    peopled,
    pod,
    said,
)


class TestOurOwnState:
    def test_synchronising_changes_nothing(self):
        node = peopled()
        node.synchronize()
        before = node.state
        outcome = node.synchronize()
        assert outcome.state is before
        assert outcome.decisions == ()

    def test_only_facts_are_learned(self):
        node = peopled()
        before = node.state
        node.listed["main"] = replace(node.listed["main"], pid=7)
        outcome = node.synchronize()
        assert (node["main"].container.pid, node["main"].container.created_at) == (7, 5)
        assert (outcome.decisions, node.state.pools, node.state.pods) == ((), before.pools, before.pods)
        for name, known in before.containers.items():
            facts = replace(node[name].container, created_at=0, pid=0)
            assert replace(node[name], container=facts) == known

    def test_everyone_is_compared_with_the_kernel(self):
        node = peopled()
        pods, containers = everyone_in(node.synchronize().moves)
        assert containers == set(node.state.containers)
        assert "jobs" in pods


class TestAfterARestart:
    def test_everyone_has_what_it_had(self):
        node = peopled()
        again = node.anew()
        assert again.owners() == node.owners()
        assert again.state.pools == node.state.pools
        assert {k: again.cpus(k) for k in again.state.containers} == {k: node.cpus(k) for k in node.listed}
        assert again.state.boxed("jobs")

    def test_a_lapsed_claim_does_not_move_the_present_owner(self):
        node = Node()
        node.create("shrunk", 2000)
        node.update("shrunk", asking(500))
        node.create("other", 2000, on="other")
        node.push()
        assert node.cpus("other") == "0-1"  # CPUs that the shrunk container's record names too
        assert node.anew().owners() == node.owners() == {"other": "0-1"}

    def test_a_restart_meets_no_unmet_request(self):
        node = Node()
        node.create("early", 6000, on="early")
        node.create("late", 2000)
        node.stop("early")
        node.push()
        assert node.owners() == node.anew().owners() == {}

    @pytest.mark.parametrize("pushed", [True, False])
    def test_a_sidecar_without_its_main_container_owns_no_returned_cpus_again(self, pushed):
        """Its record names the CPU that was its own until the main container came."""
        node = Node()
        node.create("side", 100)
        node.create("main", 2000)
        node.push()
        node.stop("main")
        if pushed:
            node.push()
        again = node.anew()
        assert again.owners() == node.owners() == {}
        assert again.state.pools == node.state.pools
        assert again.cpus("side") == node.cpus("side")

    def test_restored_containers_are_said(self):
        node = Node()
        node.create("main", 2000)
        again = Node()
        outcome = again.happen(node.listing())
        assert said(outcome) == [("container.admit", "restored"), ("pool.resize", "reconfigured")]

    def test_the_kubelets_values_are_known_again(self):
        node = peopled()
        again = node.anew()
        assert {k: a.original for k, a in again.state.containers.items()} == {
            k: a.original for k, a in node.state.containers.items()
        }

    def test_a_second_synchronisation_changes_nothing(self):
        again = peopled().anew()
        before = again.state
        assert again.synchronize().state is before


def restarted_with(wish: Wish, former: Wish, **facts: Any) -> tuple[Node, Outcome]:
    """Return the node and the outcome after a restart in which a container's wish changed."""
    node = Node()
    node.create("app", wish=former, on="job", **facts)
    again = Node()
    listed = node.listed["app"]
    return again, again.happen(Synchronized(((pod("job"), wish),), ((listed, wish),)))


def test_pods_are_ordered_by_their_oldest_container():
    old, young = container("old", "first", created_at=1), container("young", "first", created_at=9)
    pods = tuple((pod(name), SHARED) for name in ("second", "first"))
    node = Node()
    node.happen(
        Synchronized(pods, tuple((c, SHARED) for c in (young, container("mid", "second", created_at=5), old)))
    )
    assert list(node.state.pods) == ["first", "second"]


class TestSettingsThatChangedMeanwhile:
    LOAN = Knobs(shares=512, quota=50_000, period=100_000)

    def test_another_value_of_what_was_ours_is_the_records_business_still(self):
        former = replace(SHARED, knobs=Knobs(memory_high=1 << 28))
        node, _ = restarted_with(replace(SHARED, knobs=Knobs(memory_high=1 << 29)), former)
        assert (node["app"].knobs.memory_high, node["app"].by_file) == (1 << 29, False)

    def test_what_no_record_calls_ours_is_carried_and_remembered_by_files(self):
        node, _ = restarted_with(replace(SHARED, knobs=Knobs(memory_high=1 << 29)), SHARED)
        assert node["app"].by_file

    def test_what_nothing_orders_any_more_goes_back_and_is_said(self):
        former = replace(SHARED, knobs=Knobs(memory_low=1 << 20, oom_score_adj=300))
        node, outcome = restarted_with(SHARED, former, oom_score_adj=950)
        assert node["app"].returned == Knobs(memory_low=0, oom_score_adj=950)
        said = outcome.decisions[0]
        assert (said.event.value, said.subject) == ("container.admit", node["app"])
        assert (said.before.oom_score_adj, said.after.oom_score_adj) == (None, 950)

    def test_who_is_reclaimed_no_more_gets_its_shares_back(self):
        lent = replace(RECLAIMED, knobs=RECLAIMED.knobs.overlaid(self.LOAN), annotated=self.LOAN)
        node, _ = restarted_with(SHARED, lent, resources=Resources(shares=2))
        assert node["app"].returned.shares == 2

    def test_settings_that_did_not_change_give_nothing_back(self):
        node, _ = restarted_with(RECLAIMED, RECLAIMED)
        assert (node["app"].returned, node["app"].by_file) == (NO_KNOBS, False)


def claims(name: str, cpus: str, created_at: int, milli: int = 1000) -> tuple[Container, Wish]:
    """Return a listed dedicated container, in a pod of its own, whose record claims these CPUs."""
    record = f'{{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"{cpus}"}}'
    return container(name, name, milli, created_at=created_at, record=record), DEDICATED


class TestLapsedClaims:
    """A record is as old as its container; its CPUs may have gone to another container since."""

    def owners(self, machine_name: str, *listed: tuple[Container, Wish]) -> dict[str, str]:
        node = Node(machine_name)
        node.happen(Synchronized((), listed))
        return node.owners()

    def test_of_two_claims_to_one_cpu_the_younger_holds(self):
        found = self.owners("2cpu", claims("old", "1", 1), claims("young", "1", 2))
        assert found == {"young": "1"}

    def test_whose_claim_lapsed_takes_nobodys_cpus_while_it_is_placed_anew(self):
        found = self.owners("8cpu", claims("lapsed", "64", 2), claims("old", "0", 1))
        assert found == {"old": "0", "lapsed": "1"}

    def test_a_claim_keeps_the_cpus_that_the_reserve_left(self):
        node = Node(tuning=Tuning(reserved=0b1))
        rival = container("rival", "rival", 1000, created_at=1), DEDICATED
        node.happen(Synchronized((), (rival, claims("old", "0-1", 2, milli=2000))))
        assert node.state.owners["old"] & 0b10

    def test_the_claim_to_the_rest_for_share_lapses(self):
        """The record's CPUs happen to be the rest for share, so its spec names them, as other specs do."""
        node = Node()
        node.create("a-old", 2000, on="old")
        node.create("far", 4000, on="far")
        node.create("online", 100, SHARED, on="shop")
        node.reconfigure(Tuning(reserved=0b11))
        node.reconfigure(Tuning())
        node.create("young", 2000, replace(DEDICATED, cpus_ordered=0b1100), on="young")
        node.push()
        assert node.owners() == {"far": "4-7", "young": "2-3"}
        assert node.listed["a-old"].resources.cpus == node.pool("share") == "0-1"
        assert node.anew().owners() == node.owners()

    def test_a_sidecars_claim_comes_last_when_share_would_be_empty(self):
        found = self.owners("2cpu", claims("old", "0", 1), claims("side", "1", 2, milli=100))
        assert found == {"old": "0"}


def listed(name: str, spec: str, on: str, milli: int, owned: str = "") -> tuple[Container, Wish]:
    """Return a listed dedicated container with these CPUs in its spec, and its CPUs at creation in its record."""
    entry = f'"exclusive":"{owned}"' if owned else '"original":{}'
    record = f'{{"v":1,"class":"dedicated","pool":"share",{entry}}}'
    return container(name, on, resources=asking(milli, cpus=spec), record=record), DEDICATED


class TestSpecsAlone:
    """The CPUs of `share` and owned CPUs look the same in a spec."""

    def restarted(self, tuning: Tuning, *containers: tuple[Container, Wish]) -> Node:
        node = Node(tuning=tuning)
        node.happen(Synchronized((), containers))
        return node

    def test_who_got_its_own_after_its_creation_keeps_it(self):
        node = self.restarted(Tuning(), listed("main", "0-1", "web", 2000))
        assert node.owners() == {"main": "0-1"}

    @pytest.mark.parametrize("spec", ["0-1", "1-2"])
    def test_a_spec_takes_no_cpu_of_a_recorded_owner(self, spec):
        owner = listed("main", "0-1", "web", 2000, owned="0-1")
        node = self.restarted(Tuning(), listed("other", spec, "elsewhere", 2000), owner)
        assert node.owners()["main"] == "0-1"
        assert node["other"].exclusive & node["main"].exclusive == 0

    def test_of_two_equal_specs_one_holds(self):
        two = (listed(name, "0-1", name, 2000) for name in ("one", "two"))
        node = self.restarted(Tuning(), *two)
        assert list(node.owners().values()) == ["0-1"]

    @pytest.mark.parametrize("milli", [100, 0])
    def test_a_record_of_a_small_container_lapses(self, milli):
        mate = listed("side", "4", "web", milli, owned="4")
        node = self.restarted(Tuning(), listed("main", "0-1", "web", 2000), mate)
        assert (node.owners(), node["side"].follows) == ({"main": "0-1"}, "main")

    def test_a_belied_record_keeps_no_pool_from_its_minimum(self):
        pools = (PoolTuning("gold", minimum=1), PoolTuning("share", minimum=2))
        node = self.restarted(
            Tuning(pools=pools),
            listed("lapsed", "3-7", "led", 100, owned="0"),
            listed("lead", "3-7", "led", 5000, owned="3-7"),
            listed("refused", "1-2", "web", 2000),
        )
        assert node.owners() == {"lead": "3-7"}
        assert (node.pool("gold"), node.pool("share")) == ("0", "1-2")

    def test_shares_cpus_are_no_claim_beside_one(self):
        node = Node(tuning=Tuning(reserved=0b11))
        node.create("grown", 64000, on="grown")
        node.update("grown", asking(4000))
        node.create("member", 0, SHARED, on="member")
        node.create("refused", 2000, on="refused")
        node.push()
        assert node.listed["refused"].resources.cpus == node.pool("share") == "2-3"
        assert node.anew().owners() == node.owners() == {"grown": "4-7"}


class TestClassesOfLater:
    """A resize or a reload gives a container class dedicated, and own CPUs that only its spec names."""

    @pytest.mark.parametrize("how", ["resize", "reload"])
    @pytest.mark.parametrize("wish", [SHARED, RECLAIMED], ids=["shared", "reclaimed"])
    def test_a_restart_keeps_their_own_cpus(self, how, wish):
        node = Node()
        node.run("gone", 2000, on="gone")
        node.run("online", 500, SHARED, on="shop")
        node.run("web", 2000 if how == "reload" else 500, wish)
        if how == "reload":
            node.reconfigure(wishes={"web": DEDICATED}, pod_wishes={"web": DEDICATED})
        else:
            node.update("web", asking(2000), DEDICATED, judged={"web": DEDICATED})
        node.stop("gone")
        node.push()
        assert node.owners() == {"web": "2-3"}
        assert node.anew().owners() == node.owners()


class TestWaitingContainers:
    """They are placed again by age, as before the restart, although CPUs became free while the daemon was stopped."""

    def restarted(self, young: str) -> Node:
        """Return a node on which `old` waits, and so does the younger container `hidden`, or `grown` for more CPUs."""
        node = Node()
        node.run("gone", 5000, on="gone")
        node.run("grown", 1000, on="grown")
        node.run("old", 4000, on="old")
        node.run("hidden", 2000, on="hidden")
        node.run("late", 100, SHARED, on="late")
        if young == "grown":
            node.listed["grown"] = replace(node.listed["grown"], created_at=9)
            node.update("grown", asking(3000))
        node.push()
        del node.listed["gone"]
        node.listed["hidden"] = replace(node.listed["hidden"], record="")
        for name in {"grown", "hidden"} - {young}:
            del node.listed[name]
        return node.anew()

    @pytest.mark.parametrize(("young", "had"), [("hidden", {}), ("grown", {"grown": "5"})])
    def test_a_younger_one_waits_for_the_older(self, young, had):
        node = self.restarted(young)
        assert node.owners() == had
        node.free()
        assert set(node.owners()) == {"old", *had}

    def test_the_oldest_is_placed_at_once(self):
        node = self.restarted("hidden")
        del node.listed["old"]
        assert set(node.anew().owners()) == {"hidden"}


class TestForeigners:
    def test_who_ran_before_us_is_adopted_by_file(self):
        node = Node()
        listing = Synchronized(((pod(), DEDICATED),), ((container("main", milli=2000), DEDICATED),))
        outcome = node.happen(listing)
        assert said(outcome)[0] == ("container.admit", "adopted")
        assert (node["main"].by_file, node.cpus("main")) == (True, "0-1")

    def test_the_oldest_is_served_first(self):
        node = Node("2cpu")
        young, old = container("a", "p", 1000, created_at=2), container("b", "p", 1000, created_at=1)
        node.happen(Synchronized(((pod("p"), DEDICATED),), ((young, DEDICATED), (old, DEDICATED))))
        assert node.owners() == {"b": "0"}

    def test_recorded_cpus_come_before_new_ones(self):
        node = Node()
        node.create("main", 2000)
        stranger = (container("early", "other", 2000), DEDICATED)
        listing = node.listing()
        again = Node()
        again.happen(replace(listing, containers=(stranger, *listing.containers)))
        assert again.owners() == {"main": "0-1", "early": "2-3"}

    def test_a_container_of_an_unlisted_pod_is_placed(self):
        node = Node()
        node.happen(Synchronized((), ((container("app", "ghost"), SHARED),)))
        assert node.cpus("app") == "0-7"
        assert not node.state.boxed("ghost")

    def test_a_pod_that_is_known_is_not_forgotten_with_the_list(self):
        node = Node()
        node.create("batch", wish=RECLAIMED)
        node.happen(replace(node.listing(), pods=()))
        assert node.state.boxed("web")

    def test_a_pod_with_another_class_in_it_is_not_boxed(self):
        node = Node()
        pods, containers = ((pod(), RECLAIMED),), ((container("app"), SHARED), (container("b"), RECLAIMED))
        node.happen(Synchronized(pods, containers))
        assert not node.state.boxed("web")

    def test_a_newly_reclaimed_pod_with_online_containers_is_not_limited(self):
        node = Node()
        node.create("app", wish=SHARED)
        listing = node.listing()
        node.happen(replace(listing, pods=((pod(), RECLAIMED),)))
        assert not node.state.boxed("web")

    def test_strict_refuses_nobody_who_runs(self):
        node = Node(tuning=Tuning(strict=True))
        node.happen(Synchronized(((pod(), DEDICATED),), ((container("main", milli=99000), DEDICATED),)))
        assert node.cpus("main") == "0-7"

    def test_one_container_listed_twice_is_one(self):
        node = Node()
        entry = (container("main", milli=2000), DEDICATED)
        node.happen(Synchronized(((pod(), DEDICATED),), (entry, entry)))
        assert node.owners() == {"main": "0-1"}


class TestFailedAttempts:
    """A runtime lists an attempt that never started as created, for as long as its pod lives."""

    @staticmethod
    def listed(*phases: Phase, young_first: bool = False) -> Node:
        """Return a node that finds two attempts of one container, each with a record of CPU 0."""
        attempts = []
        for number, phase in enumerate(phases):
            maker = Node("2cpu")
            maker.attempt(f"web-{number}", "web", 1000)
            created_at = 2 - number if young_first else 1 + number
            facts = replace(maker.listed[f"web-{number}"], phase=phase, created_at=created_at)
            attempts.append((facts, DEDICATED))
        node = Node("2cpu")
        node.happen(Synchronized(((pod(), DEDICATED),), tuple(attempts)))
        return node

    @pytest.mark.parametrize("phase", [Phase.CREATED, Phase.RUNNING])
    def test_the_later_attempt_owns_the_cpus(self, phase):
        assert self.listed(Phase.CREATED, phase).owners() == {"web-1": "0"}

    def test_one_that_runs_is_the_later_one(self):
        assert set(self.listed(Phase.CREATED, Phase.RUNNING, young_first=True).owners()) == {"web-1"}

    def test_of_two_created_at_once_none_is_left_out(self):
        twins = [(container(k, created_at=1, phase=Phase.CREATED), DEDICATED) for k in ("web-0", "web-1")]
        node = Node()
        node.happen(Synchronized((), tuple((replace(c, name="web"), wish) for c, wish in twins)))
        assert set(node.state.containers) == {"web-0", "web-1"}

    def test_one_that_runs_is_never_left_out(self):
        assert set(self.listed(Phase.RUNNING, Phase.RUNNING).state.containers) == {"web-0", "web-1"}


class TestVanished:
    def test_who_is_not_listed_is_gone(self):
        node = peopled()
        del node.listed["other"]
        outcome = node.synchronize()
        assert ("container.release", "vanished") in said(outcome)
        assert "other" not in node.state.containers

    def test_the_sidecar_of_a_vanished_main_container_runs_in_share(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        del node.listed["main"]
        outcome = node.synchronize()
        assert said(outcome).count(("container.update", "main_gone")) == 1
        assert node.cpus("side") == "0-7"

    @pytest.mark.parametrize("pods", [("web",), ("shop", "web")], ids=["once", "twice"])
    def test_an_id_in_another_pod_is_another_container(self, pods):
        node = Node()
        node.create("main", 2000, on="shop")
        node.create("side", 100, on="shop")
        listed = [(container("main", on, 1000), DEDICATED) for on in pods]
        listed.append((node.listed["side"], DEDICATED))
        node.happen(Synchronized(((pod("shop"), DEDICATED), (pod("web"), DEDICATED)), tuple(listed)))
        assert (node.owners(), node["side"].follows) == ({"main": "0"}, "")
        assert [a.id for a in node.state.of_pod("shop")] == ["side"]

    def test_an_empty_list_empties_the_node(self):
        node = peopled()
        node.happen(Synchronized((), ()))
        assert not node.state.pods
        assert not node.state.containers
        assert node.state.pools == Node("4node").state.pools


def test_a_purely_reclaimed_pod_stays_a_reclaim_cgroup():
    node = Node()
    node.create("batch", wish=RECLAIMED)
    assert resynchronisation.box_again(node.state) is node.state


@pytest.mark.parametrize("wish", [SHARED, DEDICATED], ids=["shared", "dedicated"])
def test_listed_resources_that_are_not_ours_are_the_kubelets(wish):
    node = Node()
    node.create("app", 2000, wish)
    listed = node.listed["app"]
    node.listed["app"] = replace(listed, resources=replace(listed.resources, shares=4096))
    node.synchronize()
    assert node["app"].container.resources == Resources(shares=4096)


class TestResizedWhileNoDaemonRan:
    def again(self, **milli: int) -> Node:
        """Return the restarted node of `web` and the younger `db`, of 2 CPUs each, with the kubelet's new requests."""
        node = Node()
        node.run("web", 2000)
        node.run("db", 2000, on="db")
        for name, asked in milli.items():
            was = node.listed[name]
            node.listed[name] = replace(was, resources=asking(asked, cpus=was.resources.cpus))
        return node.anew()

    def test_one_that_runs_grows(self):
        assert self.again(db=4000).owners() == {"web": "0-1", "db": "2-5"}

    def test_a_younger_one_does_not_grow_before_one_that_waits(self):
        assert self.again(web=8000, db=4000).owners() == {"web": "0-1", "db": "2-3"}

    def test_a_younger_one_shrinks_before_one_that_waits(self):
        assert self.again(web=8000, db=1000).owners() == {"web": "0-1", "db": "2"}
