"""No more of a tenant's memory is protected than the daemon can prove: limits hide, and specifications are old."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.settings import Tuning
from nri_coloc.placing import protection
from tests.property.tenancy import Kubelet, Memory, Tenancy, memory_left
from tests.property.tenants import GIB, ContainerSpec, Figures, TenantPod

ASKING = {"coloc.nri.io/qos-class": "dedicated"}
THREE = tuple(ContainerSpec(name) for name in ("app", "log", "extra"))

HIDDEN = ("50%", "33%", "150%", "1Gi", "100Gi")
"""Values of `memory-limit`: with each, the specification shows our limit instead of the kubelet's."""


@st.composite
def hidden_limits(draw: st.DrawFn) -> list[tuple[TenantPod, str]]:
    """Draw a pod whose limits are hidden and its resizes, each with the place of the daemon's restart."""
    is_guaranteed, amounts = draw(st.booleans()), st.sampled_from((GIB // 4, GIB, 2 * GIB, 16 * GIB))
    word = {f"coloc.nri.io/{draw(st.sampled_from(('memory-min', 'memory-low')))}": "100%"}
    words = {**ASKING, **word, "coloc.nri.io/memory-limit": draw(st.sampled_from(HIDDEN))}

    def pod() -> TenantPod:
        limits = [draw(amounts) for _ in names]
        asked = [limit if is_guaranteed else draw(st.sampled_from((limit // 2, limit))) for limit in limits]
        figures = [Figures(1000, 1000, each, limit) for each, limit in zip(asked, limits, strict=True)]
        return TenantPod(tuple(map(ContainerSpec, names, figures)), annotations=words)

    names = draw(st.sampled_from((("app",), ("app", "log"))))
    restarts = st.sampled_from(("never", "around", "after"))
    first = pod()
    later = [(pod(), draw(restarts)) for _ in range(3)]
    return [(first, "never"), *((each, at) for each, at in later if each.qos is first.qos)]


@given(hidden_limits())
def test_a_hidden_limit_proves_no_more_than_the_request(lives):
    node = Tenancy(Tuning(), Kubelet(1))
    left, (pod, _) = memory_left(node), lives[0]
    node.run(pod)
    memory = Memory(node, pod, left)
    memory.is_within(pod)
    for after, restart in lives[1:]:
        if restart == "around":
            node.stop_daemon()
        node.resize(pod, after)
        pod = after
        if restart != "never":
            node.start_daemon()
        memory.is_within(pod)


@pytest.mark.parametrize("word", HIDDEN)
def test_a_push_hides_no_resize(word):
    words = {"coloc.nri.io/memory-min": "100%", "coloc.nri.io/memory-limit": word}
    pod, small = (
        TenantPod((ContainerSpec("app", Figures(1000, 1000, size, size)),), annotations=words)
        for size in (16 * GIB, 2 * GIB)
    )
    node = Tenancy(Tuning(), Kubelet())
    node.run(pod)
    node.stop_daemon()
    node.resize(pod, small)
    for _ in range(2):
        node.list_again()
        assert protection.of_pod(node.state, pod.name).amount <= 2 * GIB
    node.resize(small, pod)
    assert protection.of_pod(node.state, pod.name).amount == 16 * GIB


@pytest.mark.parametrize("shows", [True, False], ids=["the pod's limit", "without it"])
@pytest.mark.parametrize("milli", [0, 1000], ids=["Burstable", "Guaranteed"])
def test_an_amount_like_the_first_limit_hides_no_resize(milli, shows):
    words = {"coloc.nri.io/memory-min": "100%", "coloc.nri.io/memory-limit": "1Gi"}
    pod, small = (
        TenantPod((ContainerSpec("app", Figures(milli, 1000, size, size)),), annotations=words)
        for size in (GIB, GIB // 16)
    )
    node = Tenancy(Tuning(), Kubelet(shows_memory=shows))
    node.run(pod)
    node.resize(pod, small)
    node.start_daemon()
    assert protection.of_pod(node.state, pod.name).amount <= GIB // 16


@pytest.mark.parametrize(
    ("word", "shows", "amount"),
    [("1Gi", True, 6), ("50%", True, 6), ("50%", False, 3), ("1Gi", False, 0)],
    ids=["amount", "percentage", "percentage without the pod's limit", "amount without the pod's limit"],
)
def test_protection_outlasts_a_restart_as_far_as_it_is_proven(word, shows, amount):
    words = {"coloc.nri.io/memory-min": "100%", "coloc.nri.io/memory-limit": word}
    specs = ("app", Figures(1000, 1000, 4 * GIB, 4 * GIB)), ("log", Figures(1000, 1000, 2 * GIB, 2 * GIB))
    pod = TenantPod(tuple(ContainerSpec(*each) for each in specs), annotations=words)
    node = Tenancy(Tuning(), Kubelet(shows_memory=shows))
    node.run(pod)
    node.start_daemon()
    assert protection.of_pod(node.state, pod.name).amount == amount * GIB


@pytest.mark.parametrize("updates_pods", [True, False], ids=["with UpdatePodSandbox", "without it"])
def test_smaller_resources_of_a_pod_protect_less(updates_pods):
    words = {**ASKING, "coloc.nri.io/memory-min": "100%"}
    pod = TenantPod(THREE, Figures(1000, 1000, 4 * GIB, 4 * GIB), words)
    node = Tenancy(Tuning(), Kubelet(updates_pods=updates_pods))
    node.run(pod)
    node.resize(pod, replace(pod, figures=Figures(1000, 1000, GIB, GIB)))
    node.wait_for_a_look()
    assert protection.of_pod(node.state, pod.name).amount == GIB


def test_a_cpu_resize_of_a_pod_keeps_its_memory_limit():
    words = {**ASKING, "coloc.nri.io/memory-min": "100%"}
    pod = TenantPod(THREE, Figures(2000, 2000, GIB, GIB), words)
    node = Tenancy(Tuning(), Kubelet())
    node.run(pod)
    node.resize(pod, replace(pod, figures=Figures(3000, 3000, GIB, GIB)))
    assert protection.of_pod(node.state, pod.name).amount == GIB
