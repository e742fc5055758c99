"""No pod that a tenant can write gets more protection, score or weight than its request, or takes another pod's."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nri_coloc.core.decisions import ContainerCreating, ContainerGone, Synchronized
from nri_coloc.core.knobs import MIN_SHARES
from nri_coloc.core.settings import ClassRule, ClassTuning, Tuning
from nri_coloc.core.workload import Container, KubeQoS, Pod, QoSClass, Resources, Wish
from nri_coloc.placing import pools, protection, reclaim_cgroups
from nri_coloc.placing.node import step
from nri_coloc.placing.protection import NONE
from nri_coloc.pods import annotations, gate
from nri_coloc.sim import machines
from tests.property.tenancy import Kubelet, Tenancy
from tests.property.tenants import GIB, ContainerSpec, Figures, TenantPod

P = "coloc.nri.io/"
MACHINE = machines.topology(machines.MACHINES["8cpu"])
NODE_BYTES = MACHINE.memory_bytes
ONE_CPU = 1024
"""CPU shares; a reclaimed container counts one CPU at most, however much it was lent."""

PARENTS = {
    KubeQoS.GUARANTEED: "/kubepods/pod",
    KubeQoS.BURSTABLE: "/kubepods/burstable/pod",
    KubeQoS.BEST_EFFORT: "/kubepods/besteffort/pod",
}
GREEDY = ClassTuning(
    oom_score_adj=500, io_weight=5000, cpu_shares=4096, memory_low=str(NODE_BYTES), memory_min="90%"
)
TUNINGS = st.sampled_from(
    (
        Tuning(),
        Tuning(reserved_memory=NODE_BYTES // 2),
        Tuning(rules=(ClassRule(qos=QoSClass.SHARED, label=("tier", "gold")),)),
        Tuning(classes={QoSClass.SHARED: GREEDY, QoSClass.RECLAIMED: ClassTuning(2, 10, 1000)}),
    )
)


def lent(milli: int) -> str:
    """Return Koordinator's annotation by which the main container was lent CPU, in thousandths of a CPU."""
    return json.dumps({"containers": {"c0": {"requests": {"kubernetes.io/batch-cpu": milli}}}})


ASKED = st.fixed_dictionaries(
    {},
    optional={
        P + "qos-class": st.sampled_from(("shared", "reclaimed", "dedicated", "system")),
        "katalyst.kubewharf.io/memory_enhancement": st.just('{"oom_priority": "300"}'),
        P + "memory-min": st.sampled_from(("100%", "1Gi", str(NODE_BYTES))),
        P + "memory-low": st.sampled_from(("100%", "50%", "2Gi")),
        P + "oom-score-adj": st.integers(-1000, 1000).map(str),
        P + "io-weight": st.sampled_from(("1", "100", "101", "10000")),
        P + "io-weight.c0": st.just("10000"),
        P + "rdt-class": st.just("gold"),
        P + "record": st.just("{}"),
        "node.koordinator.sh/extended-resource-spec": st.sampled_from((1, 1000, 64000)).map(lent),
    },
)


@dataclass(frozen=True)
class Asking:
    """Hold a pod as the kubelet would translate it.

    request: the main container's, in thousandths of the node's memory. Sidecars request nothing and inherit its score.
    """

    qos: KubeQoS
    annotations: dict[str, str]
    labels: dict[str, str]
    request: int
    sidecars: int

    @property
    def requested(self) -> int:
        """Return the bytes that the whole pod requests."""
        return NODE_BYTES * self.request // 1000 if self.qos is not KubeQoS.BEST_EFFORT else 0

    def pod(self, name: str) -> Pod:
        parent = PARENTS[self.qos] + name
        return Pod(
            id=name,
            uid=name,
            name=name,
            namespace="shop",
            labels=self.labels,
            annotations=self.annotations,
            cgroup_parent=parent,
            claims_record=P + "record" in self.annotations,
        )

    def containers(self, name: str) -> list[Container]:
        score = {
            KubeQoS.GUARANTEED: -997,
            KubeQoS.BURSTABLE: min(max(1000 - 1000 * self.requested // NODE_BYTES, 3), 999),
            KubeQoS.BEST_EFFORT: 1000,
        }[self.qos]
        limit = self.requested if self.qos is KubeQoS.GUARANTEED else None
        sidecars = self.sidecars if self.qos is not KubeQoS.GUARANTEED else 0
        main = Container(
            f"{name}-c0", name, "c0", oom_score_adj=score, resources=Resources(2, memory_limit=limit)
        )
        more = (
            Container(f"{name}-s{n}", name, f"s{n}", oom_score_adj=score, resources=Resources(2))
            for n in range(sidecars)
        )
        return [*more, main]


PODS = st.builds(
    Asking,
    st.sampled_from(tuple(PARENTS)),
    ASKED,
    st.sampled_from(({}, {"tier": "gold"}, {"koordinator.sh/qosClass": "LS"})),
    st.integers(1, 400),
    st.integers(0, 4),
)


def is_offline(asking: Asking, wish: Wish) -> bool:
    return asking.qos is KubeQoS.BEST_EFFORT or wish.qos is QoSClass.RECLAIMED


A_LARGE_LOAN = Asking(
    KubeQoS.BEST_EFFORT,
    {"node.koordinator.sh/extended-resource-spec": lent(64_000)},
    {},
    request=1,
    sidecars=0,
)


@given(PODS, TUNINGS)
@example(A_LARGE_LOAN, Tuning())
def test_no_container_gets_more_than_its_request(asking: Asking, tuning: Tuning):
    for container in asking.containers("p"):
        wish = annotations.resolve(asking.pod("p"), container, tuning, NODE_BYTES)
        is_operators = gate.is_given(wish.qos, asking.pod("p"), tuning)
        knobs = (
            wish.annotated if is_operators else wish.knobs
        )  # the defaults of that class are meant for the pod
        assert (wish.knobs.memory_min or 0) <= asking.requested
        assert (wish.knobs.memory_low or 0) <= asking.requested
        assert knobs.oom_score_adj is None or knobs.oom_score_adj >= (container.oom_score_adj or 0)
        assert not is_offline(asking, wish) or (knobs.io_weight or 100) <= 100
        assert knobs.rdt_class is None
        assert (knobs.shares or MIN_SHARES) <= (ONE_CPU if wish.qos is QoSClass.RECLAIMED else MIN_SHARES)


@given(st.lists(PODS, min_size=1, max_size=5), TUNINGS, st.data())
def test_a_new_pod_takes_no_protection_and_no_weight(
    asked: list[Asking], tuning: Tuning, data: st.DataObject
):
    state = pools.initial(MACHINE, tuning)
    for number, asking in enumerate(asked):
        name = f"p{number}"
        before = protection.granted(state, tuning.reserved_memory)
        weights = {k: reclaim_cgroups.io_weight(state, k) for k in state.pods}
        pod = asking.pod(name)
        for container in asking.containers(name):
            wish = annotations.resolve(pod, container, tuning, NODE_BYTES)
            state = step(state, ContainerCreating(pod, container, wish), tuning).state
        now = protection.granted(state, tuning.reserved_memory)
        assert {k: now.get(k) for k in before} == before
        assert {k: reclaim_cgroups.io_weight(state, k) for k in weights} == weights
        assert now.get(name, NONE).amount <= asking.requested
        assert sum(each.amount for each in now.values()) <= max(0, NODE_BYTES - tuning.reserved_memory)
    gone = data.draw(st.sampled_from(sorted(state.containers)))
    state = step(state, ContainerGone(gone, removed=False), tuning).state
    total = sum(each.amount for each in protection.granted(state, tuning.reserved_memory).values())
    assert total <= max(0, NODE_BYTES - tuning.reserved_memory)


@given(st.lists(PODS, min_size=1, max_size=4), TUNINGS)
def test_the_bounds_hold_in_any_order_of_the_list(asked: list[Asking], tuning: Tuning):
    pods: list[tuple[Pod, Wish]] = []
    containers: list[tuple[Container, Wish]] = []
    for number, asking in enumerate(asked):
        pod = asking.pod(f"p{number}")
        pods.append((pod, annotations.resolve_pod(pod, tuning)))
        found = asking.containers(pod.id)
        containers += [(each, annotations.resolve(pod, each, tuning, NODE_BYTES)) for each in found]
    event = Synchronized(tuple(reversed(pods)), tuple(reversed(containers)))
    state = step(pools.initial(MACHINE, tuning), event, tuning).state
    granted = protection.granted(state, tuning.reserved_memory)
    assert all(granted.get(f"p{n}", NONE).amount <= each.requested for n, each in enumerate(asked))
    assert sum(each.amount for each in granted.values()) <= max(0, NODE_BYTES - tuning.reserved_memory)
    again = step(state, event, tuning).state
    assert protection.granted(again, tuning.reserved_memory) == granted


@pytest.mark.parametrize("is_listed", [True, False], ids=["a list shows it", "an update shows it"])
def test_a_limit_raised_unseen_proves_no_former_request(is_listed):
    large, small, raised, busy = (
        TenantPod((ContainerSpec("app", figures),), annotations={"coloc.nri.io/memory-min": "100%"})
        for figures in (
            Figures(1000, None, 4 * GIB, 4 * GIB),
            Figures(1000, None, GIB, GIB),
            Figures(1000, None, GIB, 4 * GIB),
            Figures(2000, None, GIB, 4 * GIB),
        )
    )
    node = Tenancy(Tuning(), Kubelet())
    node.run(large)
    node.resize(large, small)
    node.stop_daemon()
    node.resize(small, raised)
    if is_listed:
        node.list_again()
        assert protection.of_pod(node.state, large.name).amount <= GIB
    node.is_away = False  # the same process, without a list
    node.resize(raised, busy)
    assert protection.of_pod(node.state, large.name).amount <= GIB
    assert (node.state.containers["tenant-app"].knobs.memory_min or 0) <= GIB
