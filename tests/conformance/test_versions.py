"""The daemon's answers reach the runtime right: the official adaptation of each NRI version reads and merges them."""

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.nri import version as versions
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.spec import ContainerRequest, native
from tests.conformance.looking import cpus, owned, pools, spec
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    dedicated,
    pod,
    reclaimed,
    served,
    shared,
)
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.go_programs import EDITIONS, Edition
from tests.rig.waiting import wait_until

RECORD = "coloc.nri.io/record"
MESSAGE_LIMIT = 4 << 20
WITH_POD_UPDATES = [edition for edition in EDITIONS if edition.number >= (0, 10, 0)]


# ---- the handshake ----


def test_it_registers_and_knows_with_which_nri(lasting, edition: Edition):
    said = lasting.daemon.audited("runtime.connect")["because"]
    assert said == f"registered with the runtime: containerd v{edition.containerd}, NRI {edition.nri}"
    assert '"50-nri-coloc" connected' in lasting.node.nri.log.read_text()


def test_500_containers_are_synchronised_and_what_was_assigned_holds(tmp_path, edition: Edition):
    with GoNode(tmp_path, edition, "xeon-64") as node, daemon_of(node) as daemon:
        served(daemon)
        owners = [dedicated(node, f"web-{number}", 2000) for number in range(20)]
        others = _crowd(node, 240, KubeQoS.BURSTABLE) + _crowd(node, 240, KubeQoS.BEST_EFFORT)
        before = {container["id"]: container for container in daemon.state()["containers"]}
        assert set(before) == {*owners, *others}
        daemon.kill()
        daemon.start()
        served(daemon)
        # more than one message holds: a version that can split has split it, 0.6 has sent it whole
        assert node.nri.told_bytes > MESSAGE_LIMIT
        after = {container["id"]: container for container in assert_unhurt(daemon)["containers"]}
        assert {key: _placed(value) for key, value in after.items()} == {
            key: _placed(value) for key, value in before.items()
        }


def _crowd(node: GoNode, containers: int, kube: KubeQoS) -> list[str]:
    # one long annotation instead of hundreds of short variables: as many bytes, and much less work for the test
    filler = {"example.com/notes": "n" * 9000}
    ids = []
    for at in range(0, containers, 20):
        pod_id = pod(node, f"{kube.value}-{at}", kube=kube)
        requests = [ContainerRequest(f"c{number}", native(100), annotations=filler) for number in range(20)]
        ids += [node.runtime.create(pod_id, request) for request in requests]
        node.runtime.start(ids[-1])  # a runtime also lists containers that were created and never started
    return ids


def _placed(container: dict[str, object]) -> tuple[object, ...]:
    # the size of the reclaim pool is measured, and begins small after a restart; assert_unhurt checks that no container
    # owns its CPUs
    cpus = "the box" if container["pool"] == "reclaim" else container["cpus"]
    return container["class"], container["pool"], cpus, container["exclusive"]


# ---- the four classes ----


def test_neighbours_leave_a_dedicated_containers_cpus(node, daemon):
    neighbours = [shared(node, f"neighbour-{number}") for number in range(3)]
    web = dedicated(node)
    assert cpuset.render(cpus(node, web)) == "0-1"
    assert [cpuset.render(cpus(node, one)) for one in neighbours] == ["2-7"] * 3
    assert spec(node, web).cpu.quota.value == 200_000  # its weight and quota stay the kubelet's
    assert node.runtime.failures == []
    assert_unhurt(daemon)


def test_a_shared_container_lives_in_the_pool(node):
    dedicated(node)
    assert cpuset.render(cpus(node, shared(node))) == "2-7"


def test_an_offline_container_carries_no_cpus_and_the_smallest_weight(node, edition):
    web = dedicated(node)
    batch = node.runtime.containers[reclaimed(node)]
    assert (batch.resources.cpu.cpus, batch.resources.cpu.mems) == ("", "")
    assert dict(batch.resources.unified)["io.weight"] == "default 10"
    assert batch.resources.cpu.shares.value == 2
    wait_until(lambda: not node.cpus(batch.id) & cpus(node, web), 30, "the reclaim pool to include it")


def test_a_reclaimed_container_is_killed_first_where_nri_can(node, edition):
    request = ContainerRequest("app", oom_score_adj=500)
    container_id = node.run_container(pod(node, "batch", kube=KubeQoS.BEST_EFFORT), request)
    adjusted = node.runtime.containers[container_id].oom_score_adj
    assert adjusted == (1000 if versions.takes_oom_score_adj(edition.number) else 500)


def test_a_system_container_keeps_off_dedicated_cpus_only(node):
    dedicated(node)
    agent = shared(node, "agent", namespace="kube-system")
    assert cpuset.render(cpus(node, agent)) == "2-7"


def test_each_container_carries_its_record(node):
    for container_id in (dedicated(node), shared(node), reclaimed(node)):
        assert RECORD in node.runtime.containers[container_id].annotations


# ---- lives ----


def test_a_whole_life_leaves_nothing_behind(node, daemon):
    before = pools(daemon)
    web = dedicated(node)
    assert owned(daemon) == "0-1"
    node.runtime.update(web, Resources(shares=512))
    node.runtime.stop(web)
    assert pools(daemon) == before
    node.runtime.remove(web)
    node.remove_pod(node.pod("shop/web"))
    assert_unhurt(daemon)


def test_returned_cpus_are_given_again_and_usable_by_others_meanwhile(node):
    neighbour = shared(node)
    first = dedicated(node)
    node.runtime.stop(first)
    wait_until(lambda: cpuset.render(node.cpus(neighbour)) == "0-7", 30, "the neighbour to grow")
    assert cpuset.render(cpus(node, dedicated(node, "second"))) == "0-1"
    assert cpuset.render(cpus(node, neighbour)) == "2-7"


def test_a_kubelets_update_changes_all_but_our_cpus(node, daemon):
    web, neighbour = dedicated(node), shared(node)
    node.runtime.update(web, Resources(shares=1536, cpus="0-7"))
    node.runtime.update(neighbour, Resources(cpus="0-7", memory_limit=64 << 20))
    assert cpuset.render(cpus(node, web)) == "0-1"
    assert spec(node, web).cpu.shares.value == 1536
    assert spec(node, web).cpu.quota.value == 200_000
    assert cpuset.render(cpus(node, neighbour)) == "2-7"
    assert spec(node, neighbour).memory.limit.value == 64 << 20
    assert daemon.audited("container.update", container_id=web)["reason"] == "kubelet_update"


@pytest.mark.parametrize("edition", WITH_POD_UPDATES, indirect=True, ids=lambda one: f"nri-{one.nri}")
@pytest.mark.parametrize("kind", [HookKind.UPDATE_POD_SANDBOX, HookKind.POST_UPDATE_POD_SANDBOX])
def test_an_update_of_a_pod_is_taken(node, daemon, kind):
    pod_id = pod(node)
    told = node.runtime.pods[pod_id].message()
    resources = nri_pb2.LinuxResources() if kind.carries_resources else None
    assert len(list(node.nri.ask(kind, told, None, resources))) == 1
    assert_unhurt(daemon)


def test_a_refused_creation_fails_with_our_words_and_nothing_stays(lasting, node):
    node = lasting.emptied("apiVersion: coloc.nri.io/v1\nstrict: true\n")
    with pytest.raises(RuntimeRefused, match="shop/web"):
        dedicated(node, "web", 64_000)
    assert owned(lasting.daemon) == ""
    assert_unhurt(lasting.daemon)


# ---- bringing the runtime's own record up to date ----


def test_values_beyond_a_reply_reach_every_spec(node: GoNode, daemon: Daemon, edition: Edition):
    # more neighbours than a reply may update (runtime.updatesPerReply, 4): their specs are pushed
    neighbours = [shared(node, f"neighbour-{number}") for number in range(24)]
    dedicated(node)
    assert {cpuset.render(cpus(node, one)) for one in neighbours} <= {"0-7", "2-7"}
    wait_until(lambda: all(cpus(node, one) == 0b11111100 for one in neighbours), 30, "every spec to agree")
    if not versions.native_updates_are_safe(edition.number):
        assert node.nri.pushed == []
    assert_unhurt(daemon)
