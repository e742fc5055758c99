"""A reclaim pool that is reported as the lightest weighs less than every online pod on its CPUs.

It holds wherever the two compete. The weights are the kubelet's: a pod has the sum of its containers' requests, the
class Burstable that of its pods'. The least weight is 2, which the class BestEffort and each of its pods have.
"""

from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.decisions import ContainerCreating, PodStarted
from nri_coloc.core.knobs import MIN_SHARES
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Wish
from nri_coloc.placing import reclaim_cgroups
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, Node, container, pod

GOLD = replace(SHARED, pool="gold")


class Resident(NamedTuple):
    """Hold a pod with one container.

    qos: its class of Kubernetes ("" is Guaranteed).
    milli: its CPU request.
    wish: its class here.
    """

    qos: str
    milli: int
    wish: Wish


def residents(*wishes: Wish) -> st.SearchStrategy[Resident]:
    wish = st.sampled_from(wishes)
    return st.one_of(
        st.builds(Resident, st.just("besteffort/"), st.just(0), wish),
        st.builds(Resident, st.just("burstable/"), st.sampled_from((0, 100, 1500)), wish),
        st.builds(Resident, st.just(""), st.just(1000), wish),
    )


def weight(one: Resident) -> int:
    return max(MIN_SHARES, one.milli * 1024 // 1000)


def meet(member: Resident, other: Resident, everybody: list[Resident]) -> tuple[int, int]:
    """Return the weights with which two pods compete: their own among siblings, else their classes'."""
    if member.qos == other.qos:
        # a reclaimed pod's own weight is the least in every class
        return MIN_SHARES, weight(other)
    burstable = max(
        MIN_SHARES, sum(weight(one) for one in everybody if one.milli and one.qos == "burstable/")
    )
    classes = {"besteffort/": MIN_SHARES, "burstable/": burstable}
    return classes.get(member.qos, MIN_SHARES), classes.get(other.qos, weight(other))


@given(
    st.lists(residents(RECLAIMED), min_size=1, max_size=3),
    st.lists(residents(SHARED, GOLD, DEDICATED), max_size=4),
)
def test_no_neighbour_of_the_lightest_box_weighs_as_little(members, others):
    node = Node(tuning=Tuning(pools=(PoolTuning("gold", minimum=1),)))
    for number, one in enumerate([*members, *others]):
        name = f"p{number}"
        where = replace(pod(name), cgroup_parent=f"/kubepods/{one.qos}pod{name}")
        node.happen(PodStarted(where, one.wish))
        node.happen(ContainerCreating(where, container(name, name, one.milli), one.wish))
    share = node.state.pools.share
    rivals = [
        one
        for number, one in enumerate(others, len(members))
        if node.state.cpus_of(node[f"p{number}"]) & share
    ]
    pairs = [meet(member, other, [*members, *others]) for member in members for other in rivals]
    if reclaim_cgroups.weighs_least(node.state):
        assert all(mine < theirs for mine, theirs in pairs)
        assert not reclaim_cgroups.equal(node.state)
    if reclaim_cgroups.equal(node.state):
        assert any(mine == theirs for mine, theirs in pairs)
