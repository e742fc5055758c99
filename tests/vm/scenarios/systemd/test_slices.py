"""systemd, as the first process, makes the cgroups; values that we wrote survive its writes or are repaired.

The last scenarios lend: the reclaim pool shrinks and grows, and values that systemd writes meanwhile are repaired. The
daemon-reload comes after the load: beside it, a reload takes a minute.
"""

from collections.abc import Iterator

import pytest

from tests.vm import slices
from tests.vm.load import burning
from tests.vm.node import PERIOD, SYNCHRONISED_SECONDS, Container, Node, becomes, cpus, lending, read, until
from tests.vm.sound import Crowd

SWEEPS = 180  # seconds; the plugin checks every two, and everything is slower here
ALL = cpus("0-7")
FLOOR = 2  # CPUs: a core has two threads
LENT = 4
UPPER = cpus("4-7")
LENDING = "reclaim: {enabled: true}\n"
SEEN_MILLI = 1000
"""Online use that the plugin reads from the slices while the load runs: a quarter of it."""

FILES = ("cpuset.cpus", "cpuset.mems", "cpu.weight", "cpu.max", "io.weight", "memory.high", "memory.max")
CLASS = "kubepods.slice/kubepods-besteffort.slice"


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


def overwritten(container: Container) -> None:
    """Let systemd write other values on a pod's slice; from then on systemd keeps them as its own."""
    name = container.pod_path.rpartition("/")[2]
    slices.systemctl("set-property", "--runtime", name, "CPUWeight=200", "AllowedCPUs=0-7", "IOWeight=400")


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
    """Return each repaired knob of a pod in the audit, with the value found before each repair."""
    found: dict[str, list[object]] = {}
    for record in node.plugin.audit("drift.repair", pod=pod):
        for name, value in record["before"].items():
            found.setdefault(name, []).append(value)
    return found


def test_what_systemd_writes_itself_is_put_right_and_told(node: Node, web: Container, batch: Container):
    """systemd re-applies its own properties of a slice, as the kubelet makes it do whenever a pod starts."""
    overwritten(batch)
    becomes(lambda: values(web, batch), WANTED, SWEEPS)
    until(lambda: told(node, "batch").keys() >= {"cpus", "shares", "io.weight"}, "every repair in the audit")
    assert "0-7" in told(node, "batch")["cpus"]
    assert 400 in told(node, "batch")["io.weight"]


def test_a_later_daemon_reload_is_survived(node: Node, web: Container, batch: Container):
    """Properties that another program gave systemd belong to systemd from then on: it writes them again at a reload."""
    before = len(node.plugin.audit("drift.repair", pod="batch"))
    slices.systemctl("daemon-reload")
    becomes(lambda: values(web, batch), WANTED, SWEEPS)
    for record in node.plugin.audit("drift.repair", pod="batch")[before:]:
        assert record["after"].items() <= {"cpus": "2-7", "shares": 2, "io.weight": 10}.items()


def test_an_update_by_the_kubelet_leaves_a_dedicated_containers_cpus(web: Container):
    web.update(cpus="0-7")
    becomes(lambda: (web.cpus, web.cgroup("cpuset.cpus")), (cpus("0-1"), "0-1"))


def test_the_next_start_repairs_systemds_unseen_writes(node: Node, web: Container, batch: Container):
    node.plugin.kill()
    overwritten(batch)
    assert batch.pod_cgroup("cpuset.cpus") == "0-7"
    node.plugin.start()
    node.plugin.wait_synchronised(SYNCHRONISED_SECONDS)
    becomes(lambda: values(web, batch), WANTED, SWEEPS)


@pytest.fixture(scope="module")
def crowd(node: Node, web: Container, batch: Container) -> Iterator[Crowd]:
    """Run an online pod without a limit, and a BestEffort system pod beside the reclaimed pod, while CPUs are lent."""
    node.plugin.config.write(lending(LENT))
    shop = node.pod("shop")
    agent = node.pod("agent", kube_qos="besteffort", namespace="kube-system", oom=1000)
    yield Crowd((web,), (batch,), (shop, agent))
    node.plugin.config.write("")


def lent(batch: Container) -> int:
    """Return how many CPUs the reclaimed pod has, by its slice's file."""
    return len(cpus(batch.pod_cgroup("cpuset.cpus")))


def beside(agent: Container) -> dict[str, str]:
    """Return every value of the system pod, and of the class above it and the reclaimed pod."""
    found = {f"app {file}": agent.cgroup(file) for file in FILES}
    found |= {f"pod {file}": agent.pod_cgroup(file) for file in FILES}
    return found | {f"class {file}": read(CLASS, file) for file in FILES}


def test_the_pool_shrinks_and_grows_beside_systemds_writes(node: Node, batch: Container, crowd: Crowd):
    shop, agent = crowd.others
    until(lambda: lent(batch) == LENT, "the reclaim pool to have its ordered size")
    before, repairs = beside(agent), len(told(node, "batch").get("cpus", []))
    node.plugin.config.write(LENDING)  # from here on its size follows the load
    with burning(shop, LENT):
        until(lambda: node.plugin.capacity()["online_cpu_milli"] >= SEEN_MILLI, "the online use to be read")
        until(lambda: lent(batch) == FLOOR, "the reclaim pool to reach its floor", SWEEPS)
        overwritten(batch)
        until(lambda: len(told(node, "batch").get("cpus", [])) > repairs, "the repair in the audit", SWEEPS)
        until(lambda: lent(batch) == FLOOR, "the reclaim pool to be repaired", SWEEPS)
    slices.systemctl("daemon-reload")
    node.plugin.config.write(lending(LENT))
    until(lambda: lent(batch) == LENT, "the reclaim pool to have its ordered size again", SWEEPS)
    becomes(crowd.breaches, [], SWEEPS)
    becomes(lambda: beside(agent), before, SWEEPS)


def test_a_resized_dedicated_container_keeps_its_new_cpus_through_a_reload(web: Container, crowd: Crowd):
    web.cri.weigh(web.pod.cgroup, 3 * 1024)
    web.update(shares=3 * 1024, quota=3 * PERIOD, period=PERIOD)
    becomes(lambda: len(web.cpus), 3)
    grown = web.cpus
    assert cpus("0-1") < grown
    slices.systemctl("daemon-reload")
    becomes(
        lambda: [web.cpus, *(one.cpus for one in crowd.others)], [grown, ALL - grown, ALL - grown], SWEEPS
    )
    becomes(crowd.breaches, [], SWEEPS)
    assert web.cgroup("cpu.max") == f"{3 * PERIOD} {PERIOD}"


def test_pods_keep_within_the_cpus_of_kubepods(node: Node, web: Container, batch: Container, crowd: Crowd):
    node.plugin.config.write("")
    size = len(web.cpus)
    slices.systemctl("set-property", "--runtime", "kubepods.slice", "AllowedCPUs=4-7")
    until(lambda: len(web.cpus) == size and web.cpus < UPPER, "the owner within the slice", SWEEPS)
    becomes(lambda: [one.cpus for one in (batch, *crowd.others)], [UPPER - web.cpus] * 3, SWEEPS)
    assert "kubepods.slice/cpuset.cpus has CPUs 4-7 of 0-7" in node.plugin.check("cgroups")["detail"]
    slices.systemctl("set-property", "--runtime", "kubepods.slice", "AllowedCPUs=0-7")
    becomes(lambda: [one.cpus for one in crowd.others], [ALL - web.cpus] * 2, SWEEPS)
