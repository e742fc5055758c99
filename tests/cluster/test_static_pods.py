"""Static pods, which the kubelet starts from files: placed as all other pods are."""

from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig import cgroups


def test_static_pod_owns_its_cpu(product: Product, pods: Pods):
    name = pods.run_static(pod("static", container(requests=ONE_CPU), qos_class="dedicated"))
    own = cgroups.members(product.owner(name)["cpus"])
    pods.settle(lambda: pods.cpus(name) == own, "the container on its CPU")


def test_static_pod_of_kube_system_is_system(product: Product, pods: Pods):
    name = pods.run_static(pod("static-agent", namespace="kube-system"))
    row = pods.settle(lambda: product.container(name, namespace="kube-system"), "the container in the state")
    assert row["class"] == "system"
