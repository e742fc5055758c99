"""systemd as the first process makes the cgroups; what we wrote behind its back survives it, or comes back at once."""

import pytest

from tests.vm import slices
from tests.vm.node import Container, Node, becomes, cpus, until

SWEEPS = 120  # seconds; the plugin looks every two, and everything is slower here


@pytest.fixture(scope="module")
def batch(node: Node) -> Container:
    return node.pod("batch", kube_qos="besteffort", oom=1000)


@pytest.fixture(scope="module")
def web(node: Node, batch: Container) -> Container:
    return node.pod(
        "web", kube_qos="guaranteed", cpus=2, qos_class="dedicated", numa="single", io_weight="300"
    )


def values(web: Container, batch: Container) -> dict[str, str]:
    return {
        "cpus of web": web.cgroup("cpuset.cpus"),
        "mems of web": web.cgroup("cpuset.mems"),
        "I/O weight of web": web.cgroup("io.weight"),
        "I/O weight of web's pod": web.pod_cgroup("io.weight"),
        "cpus of batch's pod": batch.pod_cgroup("cpuset.cpus"),
        "weight of batch's pod": batch.pod_cgroup("cpu.weight"),
        "I/O weight of batch's pod": batch.pod_cgroup("io.weight"),
        "where batch may run": batch.cgroup("cpuset.cpus.effective"),
    }


WANTED = {
    "cpus of web": "0-1",
    "mems of web": "0",
    "I/O weight of web": "default 300",
    "I/O weight of web's pod": "default 300",
    "cpus of batch's pod": "2-7",
    "weight of batch's pod": "1",
    "I/O weight of batch's pod": "default 10",
    "where batch may run": "2-7",
}


def test_containers_are_scopes_in_the_pods_slice(web: Container, batch: Container):
    unit = web.pod.uid.replace("-", "_")
    assert web.path == f"/kubepods.slice/kubepods-pod{unit}.slice/cri-containerd-{web.id}.scope"
    assert batch.pod_path.startswith("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod")


def test_containers_and_pods_get_their_values_there(web: Container, batch: Container):
    becomes(lambda: values(web, batch), WANTED)


def test_values_outlive_a_daemon_reload_or_are_repaired(web: Container, batch: Container):
    slices.systemctl("daemon-reload")
    becomes(lambda: values(web, batch), WANTED, SWEEPS)


def told(node: Node, pod: str) -> dict[str, list[object]]:
    """What the audit says that it found on a pod and put right, each knob as often as it was found."""
    found: dict[str, list[object]] = {}
    for record in node.plugin.audit("drift.repair", pod=pod):
        for name, value in record["before"].items():
            found.setdefault(name, []).append(value)
    return found


def test_what_systemd_writes_itself_is_put_right_and_told(node: Node, web: Container, batch: Container):
    """As the kubelet makes it do whenever a pod starts: systemd re-applies its own properties of a slice."""
    name = batch.pod_path.rpartition("/")[2]
    slices.systemctl("set-property", "--runtime", name, "CPUWeight=200", "AllowedCPUs=0-7", "IOWeight=400")
    becomes(lambda: values(web, batch), WANTED, SWEEPS)
    until(lambda: told(node, "batch").keys() >= {"cpus", "shares", "io.weight"}, "every repair in the audit")
    assert "0-7" in told(node, "batch")["cpus"]
    assert 400 in told(node, "batch")["io.weight"]


def test_a_daemon_reload_after_it_is_survived_and_told_as_it_was(
    node: Node, web: Container, batch: Container
):
    """What systemd was told by somebody else is its own from then on: it writes it again at a reload."""
    before = len(node.plugin.audit("drift.repair", pod="batch"))
    slices.systemctl("daemon-reload")
    becomes(lambda: values(web, batch), WANTED, SWEEPS)
    for record in node.plugin.audit("drift.repair", pod="batch")[before:]:
        assert record["after"].items() <= {"cpus": "2-7", "shares": 2, "io.weight": 10}.items()


def test_an_update_by_the_kubelet_leaves_a_dedicated_containers_cpus(web: Container):
    web.update(cpus="0-7")
    becomes(lambda: (web.cpus, web.cgroup("cpuset.cpus")), (cpus("0-1"), "0-1"))
