"""placing/claims.py: while a list is replayed, the operator's pools keep their CPUs from dedicated containers."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import Synchronized
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Container, Phase, QoSClass, Wish
from nri_coloc.placing import tiers
from tests.unit.placing.kit import DEDICATED, SHARED, SYSTEM, Node, asking, container, pod
from tests.unit.placing.pools_kit import having, join

GOLD = PoolTuning("gold", minimum=6)
IN_GOLD = Wish(QoSClass.SHARED, pool="gold")
RECORD = '{"v":1,"class":"shared","pool":"gold","original":{"cpus":null}}'
REFUSED = '{"v":1,"class":"dedicated","pool":"share","original":{"cpus":null}}'

Listed = tuple[Container, Wish]


def owner(spec: str, milli: int = 2000, name: str = "owner") -> Listed:
    """Return a dedicated container with or without CPUs since its creation; only its spec can show them."""
    return container(name, "web", resources=asking(milli, cpus=spec), record=REFUSED), DEDICATED


def another(name: str, spec: str, wish: Wish = IN_GOLD, on: str = "other", milli: int = 1000) -> Listed:
    record = RECORD.replace("gold", tiers.pool_of(wish))
    return container(name, on, resources=asking(milli, cpus=spec), record=record), wish


def restarted(*listed: Listed, pools: tuple[PoolTuning, ...] = (GOLD,)) -> Node:
    node = Node(tuning=Tuning(pools=pools))
    node.happen(Synchronized((), listed))
    return node


class TestWhoOwnsBySpecAlone:
    def test_a_pools_minimum_leaves_it_its_cpus(self):
        node = restarted(owner("2-3"), another("member", "0-1"))
        assert node.owners() == {"owner": "2-3"}
        assert node.pool("gold") == "0-1,4-6"

    def test_its_follower_names_them_too(self):
        follower = another("side", "2-3", DEDICATED, on="web", milli=100)
        assert restarted(owner("2-3"), follower, another("member", "0-1")).owners() == {"owner": "2-3"}

    def test_who_was_pinned_by_another_tells_nothing_of_pools(self):
        pinned = another("pinned", "2-3", replace(IN_GOLD, preserve=frozenset({"cpu"})))
        assert restarted(owner("2-3"), pinned, another("member", "0-1")).owners() == {"owner": "2-3"}

    @pytest.mark.parametrize("wish", [SHARED, SYSTEM, replace(SYSTEM, pool="gone")])
    def test_specs_of_share_show_a_claim_is_another_set(self, wish):
        witness = another("witness", "0-1", wish)
        assert restarted(owner("2-7", 6000), witness).owners() == {"owner": "2-7"}

    def test_a_spec_from_before_a_move_to_share_shows_nothing(self):
        moved, _ = another("moved", "0-1")
        assert restarted(owner("2-7", 6000), (moved, SHARED)).owners() == {}

    @pytest.mark.parametrize("spec", ["", "nonsense"])
    def test_a_spec_that_names_none_shows_nothing(self, spec):
        assert restarted(owner("2-7", 6000), another("silent", spec, SHARED)).owners() == {}


class TestWhoLivedInShare:
    def test_somebody_else_names_the_same_cpus(self):
        node = restarted(owner("2-3"), another("agent", "0-7", SYSTEM), another("member", "0-1"))
        assert node.owners() == {}
        assert node.pool("gold") == "0-5"

    def test_a_small_neighbour_of_another_class_names_the_same_cpus(self):
        neighbour = another("neighbour", "2-3", SHARED, on="web", milli=100)
        assert restarted(owner("2-3"), neighbour, another("member", "0-1")).owners() == {}

    def test_nothing_else_is_left_for_share(self):
        node = restarted(owner("6-7"), another("member", "0-5"))
        assert node.owners() == {}
        assert node.pool("gold") == "0-5"

    def test_what_is_left_is_what_a_pool_without_members_keeps(self):
        pools = (PoolTuning("gold", minimum=5), PoolTuning("etl", minimum=1))
        node = restarted(owner("6-7"), another("member", "0-4"), pools=pools)
        assert node.owners() == {}
        assert (node.pool("gold"), node.pool("etl")) == ("0-4", "5")


class TestWaitingAfterAResize:
    """A container that returned its CPUs and asks for CPUs again has a set of `share` in its spec while it waits."""

    @pytest.mark.parametrize(("asked", "members"), [(2000, 6), (6000, 3), (4000, 5)])
    def test_its_record_takes_no_cpu_of_a_pool(self, asked, members):
        node = having(PoolTuning("gold", minimum=1))
        node.run("online", 500, SHARED, on="shop")
        node.run("greedy", 1000)
        node.update("greedy", asking(100))
        for number in range(members):
            join(node, f"member-{number}", 1000, on="gold")
        node.update("greedy", asking(asked))
        node.push()
        again = node.anew()
        assert node.owners() == {}
        assert again.pool("gold") == node.pool("gold")


class TestWithoutTheirRecords:
    """A pod that carries the key of the record hides its containers' records: after a restart they look new."""

    def stranger(self, spec: str, milli: int) -> Listed:
        found = container("stranger", "web", resources=asking(milli, cpus=spec), phase=Phase.RUNNING)
        return found, DEDICATED

    @pytest.mark.parametrize("spec", ["2-7", ""])
    @pytest.mark.parametrize(
        "pool", [PoolTuning("gold", minimum=1), PoolTuning("gold", group_by="namespace")]
    )
    def test_pools_are_sized_first(self, spec, pool):
        name = f"gold{'/a' * bool(pool.group_by)}"
        (young, wish) = another("member", "0-1", replace(IN_GOLD, pool=name), milli=3000)
        member = replace(young, created_at=9), wish
        node = restarted(self.stranger(spec, 6000), another("witness", "2-7", SHARED), member, pools=(pool,))
        assert node.state.pools.tiers[name].bit_count() == 3

    def test_a_set_of_share_is_no_claim(self):
        node = restarted(
            self.stranger("2-7", 6000),
            another("witness", "2-7", SHARED),
            another("member", "0-1", milli=2000),
            pools=(PoolTuning("gold", minimum=1),),
        )
        assert node.owners() == {}
        assert node.pool("gold") == "0-1"

    def test_a_record_is_placed_before_them(self):
        record = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"3,9","original":{"cpus":null}}'
        resources = asking(2000, cpus="3,9")
        known = container("known", "other", resources=resources, record=record, created_at=9)
        node = restarted(self.stranger("", 6000), (known, DEDICATED), pools=())
        assert node.owners() == {"known": "2-3"}


class TestPoolsThatGrewWhileStopped:
    """A container in `share` that is older than an owner names the owner's CPUs in its specification until a push."""

    OWNED = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"6-7","original":{"cpus":null}}'

    def owners(self, *others: Listed, pools: tuple[PoolTuning, ...]) -> dict[str, str]:
        resources = asking(2000, cpus="6-7")
        proven = container("proven", "web", resources=resources, record=self.OWNED, created_at=2)
        return restarted((proven, DEDICATED), another("old", "0-7", SHARED), *others, pools=pools).owners()

    def test_a_raised_minimum_takes_no_cpus_of_an_owner(self):
        assert self.owners(pools=(GOLD,)) == {"proven": "6-7"}

    def test_a_new_pool_takes_no_cpus_of_an_owner(self):
        pools = (PoolTuning("gold", minimum=2), PoolTuning("etl", minimum=4))
        assert self.owners(another("member", "0-1"), pools=pools) == {"proven": "6-7"}


class TestOnANearlyFullNode:
    """Containers that started before the daemon have no record."""

    def old(self, name: str, spec: str, created_at: int, milli: int = 2000) -> Listed:
        resources = asking(milli, cpus=spec)
        found = container(name, name, resources=resources, phase=Phase.RUNNING, created_at=created_at)
        return found, DEDICATED

    def test_a_doubtful_claim_costs_no_other(self):
        node = restarted(
            self.old("one", "2-3", 1),
            self.old("two", "4-5", 2),
            self.old("waiting", "6-7", 3),
            pools=(PoolTuning("gold", minimum=2),),
        )
        assert node.owners() == {"one": "2-3", "two": "4-5"}
        assert node.pool("gold") == "0-1"

    def test_a_contested_claim_costs_no_other(self):
        node = restarted(
            self.old("one", "2-3", 1),
            self.old("two", "4-5", 2),
            another("member", "0-1", milli=2000),
            another("witness", "2-3,6-7", SHARED),
            pools=(PoolTuning("gold", minimum=2),),
        )
        assert node.owners()["two"] == "4-5"

    def test_the_older_of_two_sets_holds(self):
        old, young = self.old("old", "2-3", 1), self.old("young", "3-4", 2)
        assert restarted(young, old, pools=()).owners()["old"] == "2-3"


class TestContainersThatMayOwnNoneNow:
    """Their record and their specification may be older than the change that took their CPUs."""

    @pytest.mark.parametrize(
        "wish",
        [
            replace(DEDICATED, handler="ignore"),
            replace(DEDICATED, preserve=frozenset({"cpu"})),
            replace(DEDICATED, init=True),
            SHARED,
            IN_GOLD,
        ],
        ids=["handler", "preserve", "init", "shared", "pool"],
    )
    def test_their_record_takes_no_cpus_of_an_owner(self, wish):
        assert self.owners(self.former(wish)) == {"grown": "2,6-7"}

    def test_their_spec_contests_no_cpus_of_an_owner(self):
        witness = another("witness", "3-5", SHARED)
        assert self.owners(self.former(SHARED), witness, minimum=5) == {"grown": "2,6-7"}

    def test_a_smaller_pod_request_ends_a_claim(self):
        node = having(PoolTuning("gold", minimum=3))
        pods = tuple((pod(name, cpu_request=milli), DEDICATED) for name, milli in (("web", 3000), ("p", 500)))
        node.happen(Synchronized(pods, (self.grown(), self.former(DEDICATED))))
        assert node.owners() == {"grown": "2,6-7"}

    def former(self, wish: Wish) -> Listed:
        """Return a container that owned CPU 6 once."""
        record = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"6"}'
        found = container("former", "p", resources=asking(1000, cpus="6"), record=record, created_at=2)
        return found, wish

    def grown(self) -> Listed:
        """Return an owner that has grown onto CPU 6."""
        record = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"2","original":{"cpus":null}}'
        resources = asking(3000, cpus="2,6-7")
        return container("grown", "web", resources=resources, record=record, created_at=1), DEDICATED

    def owners(self, *others: Listed, minimum: int = 3) -> dict[str, str]:
        return restarted(self.grown(), *others, pools=(PoolTuning("gold", minimum=minimum),)).owners()


class TestRequestsThatSizeNoPool:
    """A pool keeps beside claims without proof the CPUs that its containers size it to, and no more."""

    def owners(self, *members: Listed, **requests: int) -> dict[str, str]:
        """Return the owners beside an older container that waits for more CPUs than the node has."""
        node = having(PoolTuning("gold", minimum=1))
        pods = tuple((pod(name, cpu_request=milli), IN_GOLD) for name, milli in requests.items())
        late, wish = owner("0-3", 4000)
        waiting = container("old", "old", 64000, record=REFUSED, phase=Phase.RUNNING)
        listed = ((waiting, DEDICATED), (replace(late, created_at=1), wish), *members)
        node.happen(Synchronized(pods, listed))
        return node.owners()

    def test_a_pinned_container_sizes_no_pool(self):
        pinned = another("pinned", "4-7", replace(IN_GOLD, preserve=frozenset({"cpu"})), milli=5000)
        assert self.owners(pinned) == {"owner": "0-3"}

    def test_containers_share_the_request_of_their_pod(self):
        members = (another(name, "4-5", milli=2000) for name in ("one", "two", "three"))
        assert self.owners(*members, other=2000) == {"owner": "0-3"}


def test_an_older_container_takes_no_isolated_cpus_of_an_owner():
    isolated = replace(DEDICATED, pool="isolated")  # CPUs 2-3 and 6
    node = Node("isolated")
    node.create("first", 1000, isolated, on="first")
    node.create("owner", 1000, isolated, on="owner")
    node.stop("first")
    assert node.owners() == {"owner": "2"}
    older = container("older", "older", 2000, created_at=0)
    listed = ((older, isolated), (node.listed["owner"], isolated))
    again = Node("isolated")
    again.happen(Synchronized(((pod("older"), isolated), (pod("owner"), isolated)), listed))
    assert again.owners() == {"owner": "2", "older": "3,6"}
