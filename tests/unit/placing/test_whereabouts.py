"""placing/tiers.py: the use of some containers is a claim on lent CPUs; each other CPU has its owner."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import PoolsSized
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.core.workload import QoSClass
from nri_coloc.placing import tiers
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, SYSTEM, Node, asking, mask

PLAN = (
    PoolTuning("gold", minimum=2),
    PoolTuning("agents", qos=QoSClass.SYSTEM, minimum=1),
    PoolTuning("name"),
    PoolTuning("everywhere", qos=QoSClass.SYSTEM),
)
TUNING = Tuning(pools=PLAN, reserved_count=2)
LEFT_ALONE = replace(SHARED, preserve=frozenset({"cpu"}))


def lendable(node: Node) -> int:
    return tiers.lendable(node.state.pools, node.tuning.reclaim)


def owned(node: Node) -> int:
    return tiers.owned(node.state.pools, lendable(node))


def beyond(node: Node) -> int:
    return tiers.beyond(node.state, lendable(node))


def is_on_owned(node: Node, name: str = "app") -> bool:
    return tiers.is_on_owned(node.state, node[name], owned(node))


def test_without_pools_all_is_lendable_and_nothing_owned():
    node = Node()
    node.create("app", wish=SHARED)
    assert (lendable(node), owned(node), beyond(node)) == (mask("0-7"), 0, 0)
    assert not is_on_owned(node)


def test_pools_and_dedicated_cpus_are_owned_reserved_ones_not():
    node = Node(tuning=TUNING)
    node.create("app", 1000, replace(SHARED, pool="gold"))
    node.create("agent", 0, replace(SYSTEM, pool="agents"), on="agent")
    node.create("db", 1000, on="db")
    pools = node.state.pools
    assert lendable(node) == pools.share
    assert owned(node) == pools.tiers["gold"] | pools.tiers["agents"] | pools.dedicated
    assert beyond(node) == pools.reserved == mask("0-1")


def test_cpus_that_the_kubelet_has_pinned_are_owned():
    node = Node(tuning=Tuning(kept_by_kubelet={"uid-other": {"app": mask("2-3")}}))
    assert (owned(node), beyond(node)) == (mask("2-3"), 0)


def test_isolated_cpus_are_nobodys_until_they_are_owned():
    node = Node("isolated")
    assert (owned(node), beyond(node)) == (0, mask("2-3,6"))
    node.create("app", 1000, replace(DEDICATED, pool="isolated"))
    assert (owned(node), beyond(node)) == (mask("6"), mask("2-3"))
    assert is_on_owned(node)


def test_pools_sized_by_load_are_all_lendable():
    node = Node(tuning=replace(TUNING, reclaim=ReclaimTuning(partition=True)))
    node.create("app", 1000, replace(SHARED, pool="gold"))
    node.create("db", 1000, on="db")
    node.happen(PoolsSized({"gold": 2, "share": 2, "reclaim": 2}, ""))
    assert lendable(node) == mask("2-7") & ~node.state.pools.dedicated
    assert owned(node) == node.state.pools.dedicated
    assert not is_on_owned(node)


def test_switched_off_lending_has_what_share_has():
    node = Node(tuning=replace(TUNING, reclaim=ReclaimTuning(partition=True, enabled=False)))
    assert lendable(node) == node.state.pools.share


@pytest.mark.parametrize(
    ("wish", "is_on_owned_cpus"),
    [
        (replace(SHARED, pool="gold"), True),
        (replace(SYSTEM, pool="agents"), True),
        (replace(SHARED, pool="name"), False),
        (replace(SYSTEM, pool="everywhere"), False),
        (DEDICATED, True),
        (SHARED, False),
        (SYSTEM, False),
        (RECLAIMED, False),
    ],
    ids=lambda value: f"{value.qos.value} {value.pool}" if not isinstance(value, bool) else None,
)
def test_containers_of_a_pool_with_own_cpus_are_on_owned_ones(wish, is_on_owned_cpus):
    node = Node(tuning=TUNING)
    node.create("app", 1000, wish)
    assert is_on_owned(node) is is_on_owned_cpus


def test_a_sidecar_of_an_owner_is_on_owned_cpus():
    node = Node()
    node.create("app", 2000)
    node.create("side", 100)
    assert is_on_owned(node, "side")


@pytest.mark.parametrize(
    ("cpus", "is_on_owned_cpus"),
    [
        ("2", True),
        ("0", False),
        ("2,7", False),
        ("0,2", False),
        ("", False),
        ("nonsense", False),
        ("4096", False),
    ],
    ids=["owned", "reserved", "and share's", "and reserved", "none", "unreadable", "offline"],
)
def test_a_container_left_alone_follows_its_spec(cpus, is_on_owned_cpus):
    node = Node(tuning=Tuning(reserved_count=1, kept_by_kubelet={"uid-web": {"app": mask("2-3")}}))
    node.create("app", wish=LEFT_ALONE, resources=asking(1000, cpus=cpus))
    assert is_on_owned(node) is is_on_owned_cpus


def test_one_that_is_left_alone_is_not_where_its_pool_is():
    node = Node(tuning=TUNING)
    node.create("app", wish=replace(LEFT_ALONE, pool="gold"))
    assert not is_on_owned(node)


def test_cpus_out_of_pods_reach_are_beyond():
    node = Node(tuning=TUNING)
    before = tiers.beyond(node.state, lendable(node))
    node.state = replace(node.state, topology=replace(node.state.topology, outside=1 << 40))
    assert tiers.beyond(node.state, lendable(node)) == before | 1 << 40
