"""node_sim as a whole: a scripted plugin over the real socket, and containerd's treatment of its answers."""

from collections.abc import Mapping
from contextlib import closing
from threading import Event
from typing import Any

import grpc
import pytest

from nri_coloc import errors
from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.nri import events
from nri_coloc.nri.calls import HookKind
from nri_coloc.runtime.cri import CriClient
from nri_coloc.sim.node import Node
from nri_coloc.sim.plugin_link import PluginLink
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.rig.told import texts
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.sim.scripted_plugin import Answer, Refusal, ScriptedPlugin, adjustment, update_of

pytestmark = pytest.mark.tier("fast")

VERSIONS = ("1.7.24", "2.1.9", "2.4.0")
APP = ContainerRequest("app", native(500))


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cgroup(request):
    return request.param


@pytest.fixture
def node(tmp_path):
    with Node(tmp_path) as node:
        yield node


def connect(node: Node, answers: Mapping[HookKind, Answer] | None = None, **options: Any) -> ScriptedPlugin:
    before = len(node.runtime.plugins.names)
    plugin = ScriptedPlugin(node.nri_socket, answers, **options)
    wait_until(lambda: len(node.runtime.plugins.names) > before, 20, "a plugin that is served")
    return plugin


def run_one(node: Node, name: str = "web", request: ContainerRequest = APP) -> str:
    pod_id = node.run_pod(PodRequest(name, "shop"))
    return node.run_container(pod_id, request)


def test_a_plugin_is_told_what_exists_before_its_first_hook(tmp_path, version):
    with Node(tmp_path, runtime_version=version) as node:
        container_id = run_one(node)
        with connect(node) as plugin:
            (told,) = plugin.synchronized
            assert [one.id for one in told.containers] == [container_id]
            assert [pod.name for pod in told.pods] == ["web"]
            assert plugin.hooks == []


def test_a_life_is_told_in_containerds_order(tmp_path, version):
    with Node(tmp_path, runtime_version=version) as node, connect(node) as plugin:
        container_id = run_one(node)
        node.runtime.update(container_id, Resources(shares=100))
        node.runtime.stop(container_id)
        node.remove_pod(node.pod("shop/web"))
        assert plugin.kinds == [
            HookKind.RUN_POD_SANDBOX,
            HookKind.CREATE_CONTAINER,
            HookKind.POST_CREATE_CONTAINER,
            HookKind.START_CONTAINER,
            HookKind.POST_START_CONTAINER,
            HookKind.UPDATE_CONTAINER,
            HookKind.POST_UPDATE_CONTAINER,
            HookKind.STOP_CONTAINER,
            HookKind.STOP_POD_SANDBOX,
            HookKind.REMOVE_CONTAINER,
            HookKind.REMOVE_POD_SANDBOX,
        ]


def test_a_pods_cgroup_precedes_its_hook_and_a_containers_its_start(tmp_path, cgroup):
    seen: dict[HookKind, bool] = {}
    simulated = Node(tmp_path, cgroup=cgroup)

    def look(hook: events.Hook) -> None:
        path = hook.container.linux.cgroups_path if hook.container else hook.pod.linux.cgroup_parent
        seen[hook.kind] = simulated.tree.exists(path.lstrip("/"))

    hooks = (
        HookKind.RUN_POD_SANDBOX,
        HookKind.CREATE_CONTAINER,
        HookKind.POST_CREATE_CONTAINER,
        HookKind.START_CONTAINER,
    )
    with simulated, connect(simulated, dict.fromkeys(hooks, look)):
        run_one(simulated)
    assert list(seen.values()) == [True, False, False, True]


def test_the_pid_is_known_from_start_and_in_proc(node):
    with connect(node) as plugin:
        container_id = run_one(node)
    told = {hook.kind: hook.container.pid for hook in plugin.hooks if hook.container}
    container = node.runtime.containers[container_id]
    assert told[HookKind.CREATE_CONTAINER] == 0
    assert told[HookKind.START_CONTAINER] == container.pid
    assert (node.host_root / f"proc/{container.pid}/cgroup").read_text() == f"0::/{container.cgroup}\n"
    assert node.processes.oom_score_adj(container.pid) == 1000


def test_an_adjustment_survives_reconnect_and_restart(tmp_path, cgroup, version):
    answers = {HookKind.CREATE_CONTAINER: lambda _: adjustment("2-3", {"coloc.nri.io/record": "mine"})}
    with Node(tmp_path, cgroup=cgroup, runtime_version=version) as node:
        with connect(node, answers):
            container_id = run_one(node)
            assert cpuset.render(node.cpus(container_id)) == "2-3"
        wait_until(lambda: not node.runtime.plugins.names, 20, "the farewell")
        with connect(node) as again:
            (told,) = again.synchronized[0].containers
            assert texts(told.annotations)["coloc.nri.io/record"] == "mine"
            assert told.linux.resources.cpu.cpus == "2-3"
            node.kill_runtime()
            wait_until(lambda: again.ended, 20, "the end of the connection")
        node.start_runtime()
        with connect(node) as after_restart:
            (told,) = after_restart.synchronized[0].containers
            assert (texts(told.annotations)["coloc.nri.io/record"], told.linux.resources.cpu.cpus) == (
                "mine",
                "2-3",
            )


def test_a_late_plugin_is_closed_and_the_operation_continues(node):
    awake = Event()
    with connect(
        node, {HookKind.CREATE_CONTAINER: lambda _: awake.wait(PATIENCE_SECONDS) and None}
    ) as plugin:
        pod_id = node.run_pod(PodRequest("web", "shop"))
        (link,) = node.runtime.plugins._serving
        link._timeout = 0.1  # a limit for the late answer, and not for the handshake
        container_id = node.run_container(pod_id, APP)
        assert cpuset.render(node.cpus(container_id)) == "0-7"
        assert node.runtime.plugins.names == []
        assert node.runtime.plugins.farewells == ["50-scripted did not answer within 0.1 s"]
        awake.set()
        wait_until(lambda: plugin.ended, 20, "the plugin to see its end")


def test_a_plugin_that_dies_in_a_hook_does_not_fail_it(node):
    def die(_):
        raise OSError("gone")

    with connect(node, {HookKind.START_CONTAINER: die}) as plugin:
        plugin.answers[HookKind.START_CONTAINER] = lambda _: plugin._socket.close()
        container_id = run_one(node)
    assert node.runtime.containers[container_id].phase.name == "RUNNING"


def test_a_task_that_runc_cannot_make_ends_in_silence(node):
    broken = ContainerRequest("app", native(500), broken="mount /data: not a directory")
    with connect(node) as plugin:
        with pytest.raises(errors.RuntimeRefused, match="not a directory"):
            run_one(node, request=broken)
        assert plugin.kinds[-1] is HookKind.POST_CREATE_CONTAINER


def test_attempts_of_a_container_are_numbered(node):
    pod_id = node.run_pod(PodRequest("web", "shop"))
    made = [node.runtime.create(pod_id, APP) for _ in range(2)]
    with closing(CriClient(str(node.cri_socket))) as client:
        assert [client.list_containers()[one].attempt for one in made] == [0, 1]


def test_a_refused_creation_fails_and_is_told_as_an_end(node):
    def refuse(_):
        raise Refusal("no")

    with connect(node, {HookKind.CREATE_CONTAINER: refuse}) as plugin:
        pod_id = node.run_pod(PodRequest("web", "shop"))
        with pytest.raises(errors.RuntimeRefused, match="50-scripted refused CreateContainer: no"):
            node.runtime.create(pod_id, APP)
        assert plugin.kinds[1:] == [
            HookKind.CREATE_CONTAINER,
            HookKind.STOP_CONTAINER,
            HookKind.REMOVE_CONTAINER,
        ]
        assert node.runtime.containers == {}
        assert node.runtime.plugins.names == ["50-scripted"]


def test_a_refused_pod_leaves_nothing_behind(node):
    def refuse(_):
        raise Refusal("no")

    with connect(node, {HookKind.RUN_POD_SANDBOX: refuse}) as plugin:
        with pytest.raises(errors.RuntimeRefused):
            node.run_pod(PodRequest("web", "shop"))
        assert plugin.kinds == [
            HookKind.RUN_POD_SANDBOX,
            HookKind.STOP_POD_SANDBOX,
            HookKind.REMOVE_POD_SANDBOX,
        ]
    assert node.tree.children("kubepods/burstable") == []


def test_a_refusal_where_containerd_only_logs_changes_nothing(node):
    def refuse(_):
        raise Refusal("no")

    hooks = (HookKind.POST_CREATE_CONTAINER, HookKind.POST_START_CONTAINER, HookKind.STOP_CONTAINER)
    with connect(node, dict.fromkeys(hooks, refuse)):
        container_id = run_one(node)
        node.runtime.remove(container_id)
    assert node.runtime.containers == {}


def test_an_answers_updates_reach_others_and_skip_unknown_ones(node):
    def answer(hook):
        response = adjustment("0-1")
        response.update.extend([update_of("nobody", "4"), update_of(first, "2-7")])
        return response

    first = run_one(node, "first")
    with connect(node, {HookKind.CREATE_CONTAINER: answer}):
        run_one(node, "second")
    assert cpuset.render(node.cpus(first)) == "2-7"
    assert node.runtime.failures == []


def test_an_update_of_a_created_container_changes_its_spec_only(node):
    pod_id = node.run_pod(PodRequest("web", "shop"))
    container_id = node.runtime.create(pod_id, APP)
    node.runtime.update(container_id, Resources(cpus="4-5"))
    assert not node.tree.exists(node.runtime.containers[container_id].cgroup)
    node.runtime.start(container_id)
    assert cpuset.render(node.cpus(container_id)) == "4-5"


def test_the_kubelets_update_is_overlaid_by_the_plugins(node):
    def answer(hook):
        return nri_pb2.UpdateContainerResponse(update=[update_of(hook.container.id, "2-3")])

    with connect(node, {HookKind.UPDATE_CONTAINER: answer}) as plugin:
        container_id = run_one(node)
        node.runtime.update(container_id, Resources(shares=100, cpus="0-7"))
        asked = plugin.hooks[-2].resources
    assert asked is not None
    spec = node.runtime.containers[container_id].resources
    assert (asked.cpu.shares.value, asked.cpu.HasField("quota"), asked.cpu.quota.value) == (100, True, 0)
    assert (spec.cpu.shares.value, spec.cpu.cpus) == (100, "2-3")


def test_an_update_without_resources_wipes_the_kubelets_request(node):
    def answer(hook):
        empty = nri_pb2.ContainerUpdate(container_id=hook.container.id)
        return nri_pb2.UpdateContainerResponse(update=[empty])

    with connect(node, {HookKind.UPDATE_CONTAINER: answer}):
        container_id = run_one(node)
        node.runtime.update(container_id, Resources(shares=100))
    assert node.runtime.containers[container_id].resources.cpu.shares.value == 512


def test_a_plugin_may_push_and_hears_of_failures(node):
    container_id = run_one(node)
    with connect(node) as plugin:
        plugin.push(update_of(container_id, "4"))
        wait_until(lambda: plugin.answered, 20, "the answer")
        bad = update_of(container_id)
        bad.linux.resources.unified["no.such.file"] = "1"
        plugin.push(bad)
        wait_until(lambda: len(plugin.answered) == 2, 20, "the second answer")
    assert [answer.code for answer in plugin.answered] == [0, 2]
    assert cpuset.render(node.cpus(container_id)) == "4"


def test_plugins_are_asked_in_the_order_of_their_index(node):
    with connect(node, index="90"), connect(node, index="10"):
        assert node.runtime.plugins.names == ["10-scripted", "90-scripted"]


def test_synchronize_may_carry_updates(node):
    container_id = run_one(node)
    response = nri_pb2.SynchronizeResponse(update=[update_of(container_id, "6-7")])
    with connect(node, on_synchronize=lambda _: response):
        assert cpuset.render(node.cpus(container_id)) == "6-7"


def test_a_late_synchronize_leaves_a_zombie_on_the_oldest_runtime(tmp_path, monkeypatch):
    awake = Event()
    synchronize = PluginLink.synchronize

    def impatient(link, *told):
        link._timeout = 0.1  # a limit for the late answer, and not for the handshake before it
        return synchronize(link, *told)

    monkeypatch.setattr(PluginLink, "synchronize", impatient)
    with Node(tmp_path, runtime_version="1.7.24") as node:
        plugin = ScriptedPlugin(
            node.nri_socket, on_synchronize=lambda _: awake.wait(PATIENCE_SECONDS) and None
        )
        wait_until(lambda: node.runtime.plugins.farewells, 20, "the runtime to lose patience")
        awake.set()
        run_one(node)
        assert (plugin.hooks, plugin.ended, node.runtime.plugins.names) == ([], False, [])
        plugin.close()


@pytest.mark.parametrize(("release", "score"), [("1.7.24", 1000), ("2.1.9", 500)])
def test_oom_score_adj_is_ignored_at_creation_by_the_oldest_runtime(tmp_path, release, score):
    response = nri_pb2.CreateContainerResponse()
    response.adjust.linux.oom_score_adj.value = 500
    with (
        Node(tmp_path, runtime_version=release) as node,
        connect(node, {HookKind.CREATE_CONTAINER: lambda _: response}),
    ):
        container_id = run_one(node)
        assert node.processes.oom_score_adj(node.runtime.containers[container_id].pid) == score


def test_an_earlier_pods_end_is_never_reported(node):
    run_one(node)
    node.kill_runtime()
    node.start_runtime()
    with connect(node) as plugin:
        node.remove_pod(node.pod("shop/web"))
        assert plugin.kinds == [HookKind.STOP_CONTAINER, HookKind.REMOVE_CONTAINER]


def test_cri_lists_what_the_runtime_has_and_takes_updates(node):
    container_id = run_one(node)
    cri = CriClient(str(node.cri_socket))
    try:
        (facts,) = cri.list_containers().values()
        assert (facts.name, facts.state) == ("app", "running")
        cri.update_resources(container_id, cpus="1")
        assert cpuset.render(node.cpus(container_id)) == "1"
        with pytest.raises(errors.RuntimeRefused, match=grpc.StatusCode.NOT_FOUND.name):
            cri.update_resources("nobody", cpus="1")
    finally:
        cri.close()


def test_an_update_over_cri_goes_through_the_hook(node):
    with connect(node) as plugin:
        container_id = run_one(node)
        cri = CriClient(str(node.cri_socket))
        cri.update_resources(container_id, cpus="1")
        cri.close()
        assert plugin.kinds[-2:] == [HookKind.UPDATE_CONTAINER, HookKind.POST_UPDATE_CONTAINER]


def test_a_pods_cpuset_is_inherited_and_effective_at_once(node):
    pod_id = node.run_pod(PodRequest("etl", "batch", KubeQoS.BEST_EFFORT))
    container_id = node.run_container(pod_id, ContainerRequest("worker"))
    pod = node.runtime.pods[pod_id].cgroup
    file = node.tree.folder("cpuset.cpus", pod) / "cpuset.cpus"
    file.write_text("4-7")
    wait_until(lambda: cpuset.render(node.cpus(container_id)) == "4-7", 20, "the kernel's part")
    file.write_text("5")
    assert cpuset.render(node.cpus(container_id)) == "5"
