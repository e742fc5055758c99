"""placing/membership.py: while a list is replayed, the operator's pools keep their CPUs from dedicated containers."""

from dataclasses import replace

import pytest

from nri_coloc.core.events import Synchronized
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Container, QoSClass, Wish
from tests.unit.placing.kit import DEDICATED, SHARED, SYSTEM, Node, asking, container

GOLD = PoolTuning("gold", minimum=6)
IN_GOLD = Wish(QoSClass.SHARED, pool="gold")
RECORD = '{"v":1,"class":"shared","pool":"gold","original":{"cpus":null}}'
REFUSED = '{"v":1,"class":"dedicated","pool":"share","original":{"cpus":null}}'

Listed = tuple[Container, Wish]


def owner(spec: str, milli: int = 2000, name: str = "owner") -> Listed:
    """Return a dedicated container with or without CPUs since its creation; only its spec can show them."""
    return container(name, "web", resources=asking(milli, cpus=spec), record=REFUSED), DEDICATED


def another(name: str, spec: str, wish: Wish = IN_GOLD, on: str = "other", milli: int = 1000) -> Listed:
    return container(name, on, resources=asking(milli, cpus=spec), record=RECORD), wish


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
    def test_the_spec_of_who_lives_in_share_shows_that_it_is_another_set(self, wish):
        witness = another("witness", "0-1", wish)
        assert restarted(owner("2-7", 6000), witness).owners() == {"owner": "2-7"}

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
