"""Resources of a whole pod (`spec.resources`): its containers have none of their own."""

from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig import cgroups


def test_containers_share_their_pods_cpus(product: Product, pods: Pods):
    containers = (container("app"), container("helper"))
    pods.run(pod("db", *containers, qos_class="dedicated", resources={"requests": ONE_CPU}))
    own = cgroups.members(product.owner("db")["cpus"])
    assert len(own) == 1
    pods.settle(
        lambda: pods.cpus("db") == pods.cpus("db", "helper") == own, "both containers on the pod's CPU"
    )


def test_shared_pod_runs_in_share(product: Product, pods: Pods):
    pods.run(pod("web", container(), resources={"requests": {"cpu": "200m", "memory": "32Mi"}}))
    assert pods.settle(lambda: product.container("web"), "the container in the state")["class"] == "shared"
