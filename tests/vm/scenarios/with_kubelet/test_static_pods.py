"""A real kubelet on cgroup v2 with the driver `systemd`: its pods are placed, and its own writes stay.

The last tests run pods with sidecars, a probe, resources of the whole pod, and a crash loop. `make test-vm` alone
plays those with a sidecar: tests/cluster shows the same beside an API server, tests/integration on cgroup v2.

Memory QoS is on: the kubelet writes `memory.min` of pods, of their Kubernetes classes and of kubepods, and
`memory.high` of containers whose limits are above their requests.
"""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.pods import ONE_CPU, container, pod
from tests.vm import slices
from tests.vm.kubelet import STARTS, Kubelet
from tests.vm.node import Node, becomes, cpus, read, until

SWEEPS: Final = 180
"""Seconds; the plugin looks every two, and everything is slower here."""

CRASHES: Final = 300
"""Seconds until a container that ends was started twice: the kubelet waits ten before the second start."""

MIB: Final = 1 << 20
SIZE: Final = {"cpu": "2", "memory": "64Mi"}
SMALL: Final = {"cpu": "500m", "memory": "32Mi"}
LIMITED: Final = {"memory": "64Mi"}
PROBE: Final = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 5, "timeoutSeconds": 60}
LENT: Final = {
    "node.koordinator.sh/extended-resource-spec": json.dumps(
        {"containers": {"app": {"requests": {"kubernetes.io/batch-cpu": 1000}}}}
    )
}
LOANS: Final = ["100", "default 10"]
ENDS: Final = ("/bin/sh", "-c", "exit 1")
NAMES: Final = ("web", "shop", "batch", "agent")
WANTED: Final = {"web": "0-1", **dict.fromkeys(NAMES[1:], "2-7"), "weight of batch's pod": "1"}


@pytest.fixture(scope="module")
def kubelet(node: Node) -> Iterator[Kubelet]:
    found = Kubelet(node)
    found.start()
    web = container(requests=SIZE, limits=SIZE)
    found.run(
        pod("web", web, qos_class="dedicated", annotations={"memory-min": "16Mi"}, hostNetwork=True),
        pod("shop", container(requests=SMALL, limits=LIMITED), hostNetwork=True),
        pod("batch", hostNetwork=True),
        pod("agent", namespace="kube-system", hostNetwork=True),
    )
    yield found
    found.close()


def values(kubelet: Kubelet) -> dict[str, str]:
    cgroups = {name: kubelet.path(name) for name in NAMES}
    found = {name: read(path, "cpuset.cpus.effective") for name, path in cgroups.items()}
    return found | {"weight of batch's pod": read(cgroups["batch"].rpartition("/")[0], "cpu.weight")}


def test_static_pods_are_placed_in_slices(kubelet: Kubelet):
    assert kubelet.path("web").startswith("/kubepods.slice/kubepods-pod")
    assert kubelet.path("batch").startswith("/kubepods.slice/kubepods-besteffort.slice/")
    becomes(lambda: values(kubelet), WANTED)
    assert [kubelet.row(name)["class"] for name in NAMES] == ["dedicated", "shared", "reclaimed", "system"]


def protected(cgroup: str) -> int:
    """Return the memory.min of a cgroup, in MiB."""
    return int(read(cgroup, "memory.min")) // MIB


def test_kubelets_memory_qos_is_not_fought(node: Node, kubelet: Kubelet):
    """The annotation of a container replaces the kubelet's value for it; the kubelet's sum above is not lowered."""
    until(lambda: protected("/kubepods.slice") == 96, "the kubelet's sum of requests", SWEEPS)
    becomes(lambda: [protected(kubelet.path(name)) for name in ("web", "shop")], [16, 32], SWEEPS)
    throttled = int(read(kubelet.path("shop"), "memory.high")) // MIB
    assert 32 < throttled < 64
    of_ours = [record for name in NAMES for record in node.plugin.audit("drift.repair", pod=f"{name}-node")]
    # systemd may write its weights of a slice again whenever a pod starts: such a repair is another matter
    fought = [record for record in of_ours if any(name.startswith("memory.") for name in record["before"])]
    assert [record["because"] for record in fought] == []


def test_placement_outlives_a_daemon_reload(kubelet: Kubelet):
    slices.systemctl("daemon-reload")
    becomes(lambda: values(kubelet), WANTED, SWEEPS)


def ids(kubelet: Kubelet) -> list[str]:
    """Return the id of each pod's container."""
    return [kubelet.row(name).get("id", "") for name in NAMES]


def test_kubelet_restart_moves_no_container(kubelet: Kubelet):
    before = ids(kubelet)
    kubelet.stop()
    kubelet.start()
    becomes(lambda: values(kubelet), WANTED, SWEEPS)
    assert ids(kubelet) == before


def test_restarts_beside_a_kubelet_move_no_container(node: Node, kubelet: Kubelet):
    before = ids(kubelet)
    node.plugin.kill()
    node.containerd.kill()
    node.make_ready()
    becomes(lambda: ids(kubelet), before, SWEEPS)
    becomes(lambda: values(kubelet), WANTED, SWEEPS)


def test_adopted_loan_weighs_what_runc_makes_of_its_shares(node: Node, kubelet: Kubelet):
    """Of 1,024 shares runc makes a weight of 100 from 1.3.2 on, and 39 before; no file tells which it is.

    systemd writes its own I/O weight at the push.
    """
    there = len(node.cri.list_containers())
    node.plugin.kill()
    loan = pod("loan", hostNetwork=True)
    loan["metadata"]["annotations"] = LENT
    kubelet.create(loan)
    until(lambda: len(node.cri.list_containers()) > there, "a container beside no plugin", STARTS)
    node.make_ready()
    until(lambda: shares(node, kubelet) == 1024, "the push", SWEEPS)
    becomes(lambda: [read(kubelet.path("loan"), name) for name in ("cpu.weight", "io.weight")], LOANS, SWEEPS)
    assert [record["because"] for record in node.plugin.audit("drift.repair", pod="loan-node")] == []


def shares(node: Node, kubelet: Kubelet) -> int:
    """Return the CPU shares in the runtime's spec of the container that was lent a CPU."""
    spec = node.cri.info(kubelet.row("loan")["id"])["runtimeSpec"]
    return int(spec["linux"]["resources"]["cpu"]["shares"])


@pytest.fixture(scope="module")
def pods_of_kinds(kubelet: Kubelet) -> None:
    """Run a dedicated pod with a sidecar, and one with resources of the whole pod."""
    prepare = container("prepare", requests=ONE_CPU, command=("/bin/true",))
    proxy = container("proxy", requests={"cpu": "100m"}, restartPolicy="Always")
    main = container(requests=ONE_CPU, livenessProbe=PROBE)
    kubelet.run(pod("db", main, qos_class="dedicated", initContainers=[prepare, proxy], hostNetwork=True))
    both = (container("app"), container("helper"))
    kubelet.run(pod("pair", *both, qos_class="dedicated", resources={"requests": ONE_CPU}, hostNetwork=True))


def where(kubelet: Kubelet, name: str, container_name: str = "app") -> str:
    """Return the CPUs of a container, by the kernel's own file."""
    return read(kubelet.path(name, container_name), "cpuset.cpus.effective")


@pytest.mark.tier("soak")
@pytest.mark.usefixtures("pods_of_kinds")
@pytest.mark.parametrize(("name", "other"), [("db", "proxy"), ("pair", "helper")])
def test_containers_of_a_pod_own_a_cpu_together(kubelet: Kubelet, name: str, other: str):
    until(lambda: kubelet.row(name)["exclusive"], "a CPU of its own")
    own = where(kubelet, name)
    assert len(cpus(own)) == 1
    becomes(lambda: where(kubelet, name, other), own)


def test_crash_loop_is_placed_and_keeps_no_cpu(node: Node, kubelet: Kubelet):
    owned = node.plugin.state()["pools"]["dedicated"]["cpus"]
    crash = container(requests=ONE_CPU, command=ENDS)
    with kubelet.creating(pod("crash", crash, qos_class="dedicated", hostNetwork=True)):
        until(lambda: len(admitted(node)) >= 2, "two starts", CRASHES)
        assert {record["class"] for record in admitted(node)} == {"dedicated"}
    becomes(lambda: node.plugin.state()["pools"]["dedicated"]["cpus"], owned, CRASHES)


def admitted(node: Node) -> list[dict[str, object]]:
    return node.plugin.audit("container.admit", pod="crash-node")
