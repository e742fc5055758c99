"""core/workload.py: the Kubernetes QoS class follows from the kubelet's cgroup layout."""

import pytest

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import DEFAULT_WISH, KubeQoS, Pod, QoSClass, Resources


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/besteffort/pod1", KubeQoS.BEST_EFFORT),
        ("kubepods-besteffort-pod1.slice", KubeQoS.BEST_EFFORT),
        ("/kubepods/burstable/pod1", KubeQoS.BURSTABLE),
        ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice", KubeQoS.BURSTABLE),
        ("/kubepods/pod1", KubeQoS.GUARANTEED),
        ("kubepods-pod1.slice", KubeQoS.GUARANTEED),
        ("/kubelet/kubepods/besteffort/pod1", KubeQoS.BEST_EFFORT),
        ("/besteffort/kubepods/burstable/pod1", KubeQoS.BURSTABLE),
        ("/burstable/kubepods/pod1", KubeQoS.GUARANTEED),
        ("besteffort-kubepods-pod1.slice", KubeQoS.GUARANTEED),
        ("kubelet-kubepods-besteffort-pod1.slice", KubeQoS.BEST_EFFORT),
        ("/kubepods/podbesteffort", KubeQoS.GUARANTEED),
        ("/besteffort/pod1", KubeQoS.UNKNOWN),
        ("/system.slice", KubeQoS.UNKNOWN),
        ("", KubeQoS.UNKNOWN),
    ],
)
def test_the_cgroup_parent_tells_kubernetes_class(parent, qos):
    assert Pod("p", cgroup_parent=parent).kube_qos is qos


def test_who_wishes_nothing_is_shared():
    assert DEFAULT_WISH.qos is QoSClass.SHARED


def test_what_a_spec_says_becomes_knobs():
    said = Resources(shares=1024, quota=-1, period=100000, cpus="0", mems="0", memory_limit=5)
    assert said.knobs(oom_score_adj=7) == Knobs(
        shares=1024, quota=-1, period=100000, cpus="0", mems="0", memory_limit=5, oom_score_adj=7
    )


def test_zero_and_empty_in_a_spec_say_nothing():
    assert Resources(shares=0, quota=0, memory_limit=0).knobs() == NO_KNOBS


def test_an_oom_score_of_zero_is_said():
    assert Resources().knobs(oom_score_adj=0) == Knobs(oom_score_adj=0)


@pytest.mark.parametrize(
    ("quota", "period", "found"),
    [
        (None, None, (0, 100_000)),
        (0, 0, (0, 100_000)),
        (-1, 50_000, (0, 50_000)),
        (70_000, 50_000, (70_000, 50_000)),
    ],
)
def test_no_quota_is_zero_in_the_kernels_period(quota, period, found):
    resources = Resources(quota=quota, period=period)
    assert (resources.cpu_quota, resources.cpu_period) == found


def test_a_pods_full_name_has_its_namespace():
    assert Pod("p", name="web", namespace="shop").full_name == "shop/web"
