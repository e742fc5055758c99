"""The quota burst end to end: throttled online containers get a higher quota by file while the node is idle."""

from collections.abc import Iterator

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core.workload import Resources
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import Lasting, assert_unhurt, daemon_of, file, reload, served, shared
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

ON = "reclaim: {enabled: true, features: [quota-burst]}\n"
QUOTA = 100_000
MOST = 3 * QUOTA
LOOKS_S = 30
"""Some turns of two seconds, on a machine with something else to do."""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request: pytest.FixtureRequest, tmp_path) -> Iterator[Lasting]:
    with Node(tmp_path, "8cpu", cgroup=request.param, runtime_version="2.2.0") as node:
        node.start_clock()
        with daemon_of(node, config=ON) as daemon:
            yield Lasting(node, served(daemon))


def throttled(node: Node) -> str:
    """Run an online container that wants more than its quota; its pod has the same quota, as the kubelet sets it."""
    pod_id = node.run_pod(PodRequest("web", shares=512))
    node.limit_pod(pod_id, QUOTA)
    web = node.run_container(pod_id, ContainerRequest("app", native(500, 1000)))
    node.set_demand(web, 2.0)
    return web


def quota(node: Node, owner: str) -> int:
    name = "cpu.cfs_quota_us" if node.tree.version == 1 else "cpu.max"
    return int((file(node, owner, name) or "0").split()[0])


def raised(node: Node, web: str) -> None:
    pod = node.runtime.containers[web].pod.id
    wait_until(lambda: quota(node, web) > QUOTA, LOOKS_S, "a raised quota")
    wait_until(lambda: quota(node, pod) >= quota(node, web), LOOKS_S, "its pod's quota to bear it")
    assert quota(node, web) <= MOST


def told(daemon: Daemon) -> list[tuple[int, int]]:
    """Return the container's quotas before and after each change, from the audit."""
    records = daemon.audit("container.update", reason="quota_burst")
    return [(one["before"]["quota"], one["after"]["quota"]) for one in records]


def in_spec(node: Node, web: str) -> int:
    return int(node.runtime.containers[web].resources.cpu.quota.value)


def test_throttled_container_gets_more_on_an_idle_node(rig):
    web = throttled(rig.node)
    pod = rig.node.runtime.containers[web].pod.id
    raised(rig.node, web)
    assert in_spec(rig.node, web) == QUOTA
    neighbour = shared(rig.node, "neighbour", 6000)
    rig.node.set_demand(neighbour, 6.5)
    wait_until(lambda: [quota(rig.node, k) for k in (web, pod)] == [QUOTA] * 2, LOOKS_S, "their own quotas")
    assert in_spec(rig.node, web) == QUOTA
    wait_until(
        lambda: [after for _, after in told(rig.daemon)][-1:] == [QUOTA], LOOKS_S, "the record of the return"
    )
    steps = told(rig.daemon)
    assert steps[0][0] == QUOTA
    assert [after for _, after in steps[:-1]] == [before for before, _ in steps[1:]]
    assert_unhurt(rig.daemon)


def test_a_daemon_that_is_told_to_end_leaves_no_quota_raised(rig):
    web = throttled(rig.node)
    raised(rig.node, web)
    assert rig.daemon.terminate() == 0
    pod = rig.node.runtime.containers[web].pod.id
    assert [quota(rig.node, k) for k in (web, pod)] == [QUOTA] * 2


def test_who_only_observes_from_now_on_leaves_no_quota_raised(rig):
    web = throttled(rig.node)
    raised(rig.node, web)
    reload(rig.daemon, f"mode: observe\n{ON}")
    pod = rig.node.runtime.containers[web].pod.id
    wait_until(lambda: [quota(rig.node, k) for k in (web, pod)] == [QUOTA] * 2, LOOKS_S, "their own quotas")
    assert_unhurt(rig.daemon)


SIDECARS = 50_000


def with_sidecar(node: Node) -> tuple[str, str]:
    """Run a throttled container beside one that is not; their pod has both quotas."""
    web = throttled(node)
    pod_id = node.runtime.containers[web].pod.id
    node.limit_pod(pod_id, QUOTA + SIDECARS)
    sidecar = node.run_container(pod_id, ContainerRequest("sidecar", native(100, 500)))
    return web, sidecar


def test_a_neighbours_resize_finds_the_kubelets_quota(rig):
    web, sidecar = with_sidecar(rig.node)
    raised(rig.node, web)
    rig.node.runtime.update(sidecar, Resources(quota=20_000, period=100_000))
    pod = rig.node.runtime.containers[web].pod.id
    assert [quota(rig.node, k) for k in (web, sidecar, pod)] == [QUOTA, 20_000, QUOTA + SIDECARS]
    assert_unhurt(rig.daemon)


def test_an_update_finds_its_pods_kubelet_quota(rig):
    web, _ = with_sidecar(rig.node)
    raised(rig.node, web)
    pod = rig.node.runtime.containers[web].pod
    announced(rig.node, pod.id)
    assert [quota(rig.node, k) for k in (web, pod.id)] == [QUOTA, QUOTA + SIDECARS]
    assert_unhurt(rig.daemon)


class TestKubeletsOwnWrites:
    """Test writes of a kubelet that compares a pod's new quota with the file.

    It writes the pod's quota first only if that quota grows.
    """

    def test_neighbour_grows_within_raised_pod(self, rig):
        web, sidecar = with_sidecar(rig.node)
        raised(rig.node, web)
        pod = rig.node.runtime.containers[web].pod.id
        wait_until(lambda: quota(rig.node, pod) >= 2 * QUOTA, LOOKS_S, "a pod's quota above the new one")
        rig.node.runtime.update(sidecar, Resources(quota=180_000, period=100_000))
        rig.node.limit_pod(pod, QUOTA + 180_000)
        assert [quota(rig.node, k) for k in (web, sidecar)] == [QUOTA, 180_000]
        assert_unhurt(rig.daemon)

    def test_resize_to_the_raised_quota_reaches_the_pod(self, rig):
        web, _ = with_sidecar(rig.node)
        pod, new = rig.node.runtime.containers[web].pod.id, MOST + SIDECARS
        rig.node.set_demand(web, 4.0)
        wait_until(lambda: quota(rig.node, web) == MOST, 2 * LOOKS_S, "the highest raise")
        wait_until(lambda: quota(rig.node, pod) >= new, LOOKS_S, "a pod's quota that bears it")
        read = quota(rig.node, pod)
        rig.node.runtime.update(web, Resources(quota=MOST, period=100_000))
        if new != read:
            rig.node.limit_pod(pod, new)
        assert [quota(rig.node, k) for k in (web, pod)] == [MOST, new]
        assert_unhurt(rig.daemon)

    def test_pods_quota_falls_after_container_ended(self, rig):
        web, sidecar = with_sidecar(rig.node)
        raised(rig.node, web)
        pod = rig.node.runtime.containers[web].pod.id
        rig.node.runtime.stop(sidecar)  # the resize policy of the sidecar wants a restart
        wait_until(lambda: quota(rig.node, pod) == QUOTA + SIDECARS, 20, "the pod's own quota")
        rig.node.limit_pod(pod, QUOTA + 20_000)
        rig.node.run_container(pod, ContainerRequest("sidecar", native(100, 200)))
        assert quota(rig.node, web) == QUOTA
        assert_unhurt(rig.daemon)

    def test_announced_resize_finds_no_burst(self, rig):
        pod_id = rig.node.run_pod(PodRequest("web", annotations={"coloc.nri.io/cpu-burst": "100"}))
        rig.node.limit_pod(pod_id, QUOTA)
        app = rig.node.run_container(pod_id, ContainerRequest("app", native(500, 1000)))
        name = "cpu.cfs_burst_us" if rig.node.tree.version == 1 else "cpu.max.burst"
        wait_until(lambda: file(rig.node, pod_id, name) == str(QUOTA), LOOKS_S, "the pod's burst")
        rig.node.runtime.stop(app)  # its resize policy wants a restart
        announced(rig.node, pod_id)
        rig.node.limit_pod(pod_id, QUOTA // 2)
        assert_unhurt(rig.daemon)


def announced(node: Node, pod_id: str) -> None:
    """Announce a change of a pod's resources, as the kubelet of 1.37 does before it writes."""
    message = node.runtime.pods[pod_id].message()
    asked = node.runtime.plugins.ask(HookKind.UPDATE_POD_SANDBOX, message, None, nri_pb2.LinuxResources())
    assert len(list(asked)) == 1
