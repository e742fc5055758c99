"""An operator's pool counts the present requests of its containers, whatever their pods requested before.

A pool has as many CPUs as its containers request. So a request that stays counted after a resize, or after the end of
its pod, takes CPUs from all other containers.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nri_coloc.core.settings import PoolTuning, Selector, Tuning
from tests.property.looks import what_members_ask_for_is_known
from tests.property.tenancy import GOLD, Kubelet, Tenancy
from tests.property.tenants import ASKING_WORDS, ContainerSpec, Figures, Kind, TenantPod, resized, tenant_pods
from tests.property.test_authority import KUBELETS
from tests.rig import examples

POOLS = Tuning(
    pools=(
        PoolTuning("gold", members=(Selector(label=("tier", "gold")),), minimum=1, maximum=4),
        PoolTuning("team", members=(Selector(label=("tier", "own")),), group_by="pod"),
    )
)
LARGE = TenantPod(
    (ContainerSpec("app", Figures(None, 100)), ContainerSpec("log", Figures(999))),
    annotations={"coloc.nri.io/qos-class": "dedicated"},
    labels={"tier": "gold"},
)
SMALL = replace(LARGE, containers=(ContainerSpec("app", Figures(100, 100)), ContainerSpec("log", Figures(0))))


def test_no_number_of_resizes_enlarges_a_pool():
    node = Tenancy(POOLS, Kubelet(1))
    node.run(GOLD)
    node.run(LARGE)
    for _ in range(20):
        node.resize(LARGE, SMALL)
        node.resize(SMALL, LARGE)
    node.remove(LARGE)
    assert (node.state.pools.asked["gold"].milli, node.state.pools.tiers["gold"].bit_count()) == (2000, 2)


@given(st.data(), KUBELETS, st.sampled_from(({"tier": "gold"}, {"tier": "own"}, {})))
@settings(max_examples=examples.times(2))
def test_a_pool_counts_the_present_requests(data, kubelet, labels):
    node = Tenancy(POOLS, replace(kubelet, files={}, is_per_qos=True))
    node.run(GOLD)
    pod = replace(data.draw(tenant_pods(ASKING_WORDS)), labels=labels)
    node.run(pod)
    for _ in range(3):
        before, pod = pod, data.draw(resized(pod))
        for _ in node.steps_of_resize(before, pod):
            what_members_ask_for_is_known(node.state)
        container = data.draw(st.sampled_from(pod.containers))
        if container.kind is not Kind.INIT and data.draw(st.booleans()):
            node.end(pod, container)
            node.create(pod, container)
        if data.draw(st.booleans()):
            node.list_again()
        what_members_ask_for_is_known(node.state)
    node.start_daemon()
    what_members_ask_for_is_known(node.state)
    node.remove(pod)
    what_members_ask_for_is_known(node.state)
