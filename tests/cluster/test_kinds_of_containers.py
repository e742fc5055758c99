"""Init containers, native sidecars and ephemeral containers; exec and probes."""

from tests.cluster.cluster import Cluster
from tests.cluster.pods import ONE_CPU, SLEEP, container, pod
from tests.cluster.product import Product
from tests.cluster.running import Pods
from tests.rig import cgroups, image


def test_native_sidecar_follows_the_main_container(product: Product, pods: Pods):
    sidecar = container("proxy", requests={"cpu": "100m"}, restartPolicy="Always")
    pods.run(pod("db", container(requests=ONE_CPU), qos_class="dedicated", initContainers=[sidecar]))
    own = cgroups.members(product.owner("db")["cpus"])
    pods.settle(lambda: pods.cpus("db", "proxy") == own, "the sidecar on the main container's CPUs")


def test_init_container_leaves_its_cpu_free(product: Product, pods: Pods):
    init = container("prepare", requests=ONE_CPU, command=["/bin/true"])
    pods.run(pod("db", container(requests=ONE_CPU), qos_class="dedicated", initContainers=[init]))
    assert product.owner("db")["cpus"]


def test_ephemeral_container_joins_its_pod(cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("db", container(requests=ONE_CPU), qos_class="dedicated"))
    debug = [
        "debug",
        "db",
        f"--image={image.BUSYBOX}",
        "--image-pull-policy=Never",
        "--container=look",
        "--quiet",
    ]
    cluster.kubectl(*debug, "--", *SLEEP)
    cluster.wait(lambda: product.container("db", "look"), "the ephemeral container in the state")
    own = cgroups.members(product.owner("db")["cpus"])
    pods.settle(lambda: pods.cpus("db", "look") == own, "the ephemeral container on its pod's CPUs")


def test_exec_runs_on_the_containers_cpus(cluster: Cluster, product: Product, pods: Pods):
    pods.run(pod("db", container(requests=ONE_CPU), qos_class="dedicated"))
    row = product.owner("db")
    allowed = cluster.kubectl("exec", "db", "--", "grep", "Cpus_allowed_list", "/proc/self/status")
    assert allowed.split()[1] == row["actual_cpus"]


def test_probes_do_not_move_a_container(product: Product, pods: Pods):
    probe = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1}
    probed = container(requests=ONE_CPU, livenessProbe=probe, readinessProbe=probe)
    pods.run(pod("db", probed, qos_class="dedicated"))
    row = product.owner("db")
    assert row["actual_cpus"] == row["cpus"]
