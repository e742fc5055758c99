"""A CPU burst for a class is set on the container and its pod, recorded in the audit, and changed by a reload."""

from typing import Any

from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import assert_unhurt, file, reload
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

QUOTA = 100_000
HALF = "classes: {shared: {cpuBurst: 50}}\n"
FIFTH = "classes: {shared: {cpuBurst: 20}}\n"


def limited(node: Node, name: str, **annotations: str) -> tuple[str, str]:
    """Run an online pod whose container has a quota, and its pod the same, as the kubelet makes them."""
    wanted = {f"coloc.nri.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    pod_id = node.run_pod(PodRequest(name, annotations=wanted))
    path = node.runtime.pods[pod_id].cgroup
    quota = ("cpu.cfs_quota_us", "") if node.tree.version == 1 else ("cpu.max", " 100000")
    node.tree.write(path, quota[0], f"{QUOTA}{quota[1]}")
    return pod_id, node.run_container(pod_id, ContainerRequest("app", native(500, 1000)))


def bursts(node: Node, *ids: str) -> list[str | None]:
    name = "cpu.cfs_burst_us" if node.tree.version == 1 else "cpu.max.burst"
    return [file(node, each, name) for each in ids]


def expect_bursts(node: Node, burst: str, *ids: str) -> None:
    wait_until(lambda: bursts(node, *ids) == [burst] * len(ids), 30, f"a burst of {burst}")


def admissions(daemon: Daemon, container_id: str) -> list[dict[str, Any]]:
    return [each for each in daemon.audit("container.admit") if each["container_id"] == container_id]


def test_a_class_bursts_and_follows_its_settings_until_they_say_nothing(node, daemon):
    ordinary = limited(node, "web")
    own = limited(node, "says-it-itself", cpu_burst="10")
    expect_bursts(node, "10000", *own)
    assert bursts(node, *ordinary) == ["0", "0"]
    for settings, burst in ((HALF, "50000"), (FIFTH, "20000"), ("", "0")):
        reload(daemon, settings)
        expect_bursts(node, burst, *ordinary)
        assert bursts(node, *own) == ["10000"] * 2
    assert_unhurt(daemon)


def test_a_new_container_has_its_classs_audited_burst(lasting):
    node, daemon = lasting.emptied(HALF), lasting.daemon
    pod_id, app = limited(node, "shop-front")
    expect_bursts(node, "50000", pod_id, app)
    wait_until(lambda: admissions(daemon, app), 30, "its record")
    (admitted,) = admissions(daemon, app)
    assert admitted["after"]["burst"] == 50_000
    assert {"quota": 100_000, "burst_percent": 50}.items() <= admitted["inputs"].items()
    assert_unhurt(daemon)
