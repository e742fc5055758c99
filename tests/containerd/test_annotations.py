"""Bad and forbidden annotations: the container starts with its class's defaults, and the audit gives the reason."""

import json
from collections.abc import Callable, Mapping

import grpc
import pytest

from tests.rig import cgroups, kubepods, workloads
from tests.rig.configuration import Options
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import becomes, poll, wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load]

PREFIX = "coloc.nri.io/"
OURS = "coloc.nri.io/record"
BAD = {
    "qos-class": "gold",
    "cpu-pool": "no such pool!",
    "numa": "both",
    "numa-count": "-1",
    "numa-ids": "9-1",
    "cpu-placement": "everywhere",
    "memory-limit": "lots",
    "memory-high": "-5Mi",
    "io-weight": "99999999999999999999",
    "oom-score-adj": "1001",
    "cpu-burst": "101",
    "priority": "1e3",
    "avoidance": "pray",
    "preserve": "cpu;memory",
}


def test_bad_values_give_the_class_defaults(daemon: Daemon, cri: Cri):
    web = workloads.dedicated(cri)
    odd = _annotated(cri, BAD)
    assert odd.first_cpus() == odd.cpus == NODE_CPUS - web.first_cpus()
    assert cgroups.weighs(odd.cgroup, 100)
    assert cgroups.memory_limit(odd.cgroup) == 64 << 20
    assert cgroups.oom_score_adj(cri.pid(odd.id)) == 500
    assert (daemon.container(odd.id)["class"], daemon.container(odd.id)["pool"]) == ("shared", "share")


@ON_THE_NEWEST
def test_every_bad_value_is_audited_and_counted(daemon: Daemon, cri: Cri):
    before = {key: _counted(daemon, "invalid", key) for key in BAD}
    odd = _annotated(cri, BAD)
    for key, value in BAD.items():
        record = daemon.audited("annotation.invalid", container_id=odd.id, key=PREFIX + key)
        assert record["value"] == value
        assert record["allowed"]
        assert record["used"]
        assert record["reason"] == "bad_value"
    becomes(
        lambda: {key: _counted(daemon, "invalid", key) - before[key] for key in BAD}, dict.fromkeys(BAD, 1)
    )


@ON_THE_NEWEST
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("colour", "blue"),
        ("qos-classs", "dedicated"),
        ("io-weight", "7" * 60_000),
        ("memory-limit", "9" * 1000 + "Ei"),
        ("io-weight.app", "0"),
        ("containers", "{"),
        ("containers", '{"app": {"io-weight": 5}}'),
        ("containers", '["app"]'),
        ("containers", '{"app": {"io-weight": "zero"}}'),
        ("io-weight", "\u0661\u0660\u0660"),
        ("qos-class", ""),
    ],
    ids=[
        *("unknown key", "misspelt key", "60 kB", "astronomical", "for one container", "broken JSON"),
        *("number in JSON", "list in JSON", "bad value in JSON", "foreign digits", "empty"),
    ],
)
def test_a_bad_annotation_is_ignored_and_audited(daemon: Daemon, cri: Cri, key: str, value: str):
    odd = _annotated(cri, {key: value})
    assert odd.first_cpus() == NODE_CPUS
    assert cgroups.weighs(odd.cgroup, 100)
    assert cgroups.memory_limit(odd.cgroup) == 64 << 20
    record = daemon.audited("annotation.invalid", container_id=odd.id)
    assert record["key"].startswith(PREFIX + key)
    assert len(str(record)) < 5000


def test_an_excess_leaves_no_key_in_force(daemon: Daemon, cri: Cri):
    odd = _annotated(cri, {"io-weight": "300", "priority": "7" * 70_000})
    record = daemon.audited("annotation.invalid", container_id=odd.id)
    assert record["key"] == "*"
    assert cgroups.weighs(odd.cgroup, 100)


def test_a_containers_bad_value_keeps_the_pods_in_force(daemon: Daemon, cri: Cri):
    odd = _annotated(cri, {"io-weight": "300", "io-weight.app": "none"})
    record = daemon.audited("annotation.invalid", container_id=odd.id)
    assert record["key"] == f"{PREFIX}io-weight.app"
    assert record["used"] == "300"
    wait_until(lambda: cgroups.weighs(odd.cgroup, 118), 30, "the pod's weight")


@pytest.mark.parametrize(
    ("key", "value"),
    [("qos-class", "system"), ("preserve", "cpu,memory"), ("avoidance", "none")],
    ids=["system", "preserve", "avoidance none"],
)
def test_a_privilege_outside_of_its_namespaces_is_denied(daemon: Daemon, cri: Cri, key: str, value: str):
    web = workloads.dedicated(cri)
    before = _counted(daemon, "denied", key)
    pretender = _annotated(cri, {key: value})
    record = daemon.audited("annotation.denied", container_id=pretender.id)
    assert (record["key"], record["value"]) == (PREFIX + key, value)
    assert "kube-system" in record["allowed"]
    assert record["used"]
    becomes(lambda: _counted(daemon, "denied", key), before + 1)
    assert pretender.first_cpus() == NODE_CPUS - web.first_cpus()
    assert daemon.container(pretender.id)["class"] == "shared"


@pytest.mark.parametrize("key", ["qos-class", "preserve"])
def test_the_same_privilege_is_granted_in_kube_system(daemon: Daemon, cri: Cri, key: str):
    value = {"qos-class": "system", "preserve": "cpu"}[key]
    agent = workloads.run(cri, "agent", annotations={PREFIX + key: value}, namespace="kube-system")
    assert daemon.container(agent.id)["class"] == "system"
    assert daemon.audited("container.admit", container_id=agent.id)  # records are in order
    assert daemon.audit("annotation.denied", container_id=agent.id) == []
    cri.update(agent.id, cpus="0")
    assert agent.cpus == (frozenset({0}) if key == "preserve" else NODE_CPUS)


def test_cpus_of_its_own_are_denied_to_a_pod_without_requests(daemon: Daemon, cri: Cri):
    pretender = workloads.run(cri, "pretender", "dedicated", parent=kubepods.BESTEFFORT)
    assert pretender.first_cpus() == NODE_CPUS
    assert cgroups.shares(pretender.pod.cgroup) in (2, None)
    record = daemon.audited("annotation.denied", container_id=pretender.id)
    assert (record["key"], record["value"], record["used"]) == (
        f"{PREFIX}qos-class",
        "dedicated",
        "reclaimed",
    )
    assert daemon.container(pretender.id)["class"] == "reclaimed"


def test_a_forged_record_is_not_trusted(own_containerd: Callable[[Options], Containerd]):
    """This holds even if containerd copies a pod's annotations onto its containers."""
    containerd = own_containerd(Options(pod_annotations=f"{PREFIX}*"))
    wanted, lowest = str(max(NODE_CPUS)), frozenset({min(NODE_CPUS)})  # a new container gets the lowest CPU
    forged = json.dumps({"v": 1, "class": "dedicated", "pool": "dedicated", "exclusive": wanted})
    with Daemon(containerd) as daemon, containerd.cri() as cri:
        daemon.wait_synchronised()
        thief = workloads.run(cri, "thief", request=0.5, annotations={OURS: forged})
        glutton = workloads.run(cri, "glutton", "dedicated", request=1, annotations={OURS: forged})
        assert glutton.first_cpus() == lowest
        daemon.kill()
        daemon.start()
        daemon.wait_synchronised()
        assert not poll(lambda: glutton.cpus != lowest, 3)
        assert thief.cpus == NODE_CPUS - lowest


def test_a_known_runtime_class_throttles_its_container(
    own_containerd: Callable[[Options], Containerd],
):
    number, path = next(iter(cgroups.disks().items()))
    slow = f"Classes: {{slow: [{{Devices: [{path}], ThrottleWriteBps: 1048576}}]}}\n"
    containerd = own_containerd(Options(blockio_classes=slow))
    with Daemon(containerd) as daemon, containerd.cri() as cri:
        daemon.wait_synchronised()
        asked = {f"{PREFIX}blockio-class": "slow"}
        batch = workloads.run(cri, "batch", "reclaimed", namespace="kube-system", annotations=asked)
        assert cgroups.most_written(batch.cgroup, number) == 1 << 20
        assert cgroups.most_written(workloads.shared(cri).cgroup, number) is None
        with pytest.raises(grpc.RpcError, match=r"no OCI BlockIO parameters for class ..?unheard-of"):
            workloads.run(cri, "odd", annotations={f"{PREFIX}blockio-class": "unheard-of"})


def test_strict_refuses_a_bad_annotation_and_says_why(own_daemon: Callable[..., Daemon], cri: Cri):
    own_daemon(config="strict: true\n")
    with pytest.raises(grpc.RpcError) as refusal:
        workloads.run(cri, "web", request=0.1, namespace="shop", annotations={f"{PREFIX}io-weight": "heavy"})
    for word in ("shop/web", f"{PREFIX}io-weight", "heavy", "from 1 to 10000"):
        assert word in str(refusal.value)


def test_strict_refuses_a_request_that_cannot_be_met(own_daemon: Callable[..., Daemon], cri: Cri):
    daemon = own_daemon(config="strict: true\n")
    with pytest.raises(grpc.RpcError) as refusal:
        workloads.dedicated(cri, "greedy", request=len(NODE_CPUS))
    assert "default/greedy" in str(refusal.value)
    assert f"{len(NODE_CPUS)} CPUs asked" in str(refusal.value)
    assert daemon.audited("container.admit")["reason"] == "refused_strict"
    assert daemon.state()["containers"] == []
    assert len(workloads.dedicated(cri, "modest").first_cpus()) == 1


def _annotated(cri: Cri, annotations: Mapping[str, str]) -> workloads.Workload:
    wanted = {PREFIX + key: value for key, value in annotations.items()}
    return workloads.run(cri, "odd", annotations=wanted, request=0.1, memory=64 << 20, oom=500)


def _counted(daemon: Daemon, kind: str, key: str) -> float:
    return daemon.metric(f'nri_coloc_annotation_{kind}_total{{key="{key}"}}')
