"""The daemon beside a runtime that behaves: what it answers, what it writes, and what it leaves alone."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.model import cpuset
from nri_coloc.model.workload import KubeQoS, Resources
from nri_coloc.node_sim.node import Node
from nri_coloc.node_sim.plugin_link import PluginLink
from nri_coloc.node_sim.spec import ContainerRequest, PodRequest, native
from nri_coloc.nri.subscription import HookKind
from tests.integration.harness import (
    QOS,
    assert_unhurt,
    daemon_of,
    dedicated,
    ends_well,
    file,
    pod,
    reclaimed,
    served,
    shared,
    tree_of,
)
from tests.rig.daemon import SLOW_PROGRAM, Daemon
from tests.rig.raw_runtime import RawPlugin, RawRuntime
from tests.rig.slow_daemon import SLOW
from tests.rig.waiting import wait_until

RECORD = "coloc.nri.io/record"
MI = 1 << 20
VERSIONS = ("1.7.24", "2.1.9", "2.4.0")

Answers = list[tuple[HookKind, str, Any]]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cgroup(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def node_v2(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=2) as node:
        yield node


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Every answer to a hook, as it came over the wire: (hook, container's id, message)."""
    heard: Answers = []
    ask = PluginLink.hook

    def listen(self, kind, pod, container=None, resources=None):
        answer = ask(self, kind, pod, container, resources)
        heard.append((kind, container.id if container else "", answer))
        return answer

    monkeypatch.setattr(PluginLink, "hook", listen)
    return heard


def updates_in(answers: Answers) -> list[nri_pb2.ContainerUpdate]:
    return [update for _, _, answer in answers for update in getattr(answer, "update", ())]


def a_busy_day(node: Node) -> None:
    """Pods of all classes come, are updated and go."""
    ids = [shared(node, f"s{number}") for number in range(3)] + [
        reclaimed(node, f"b{number}") for number in range(3)
    ]
    first = dedicated(
        node, "web", 2000, **{"coloc.nri.io/memory-high": "64Mi", "coloc.nri.io/io-weight": "300"}
    )
    dedicated(node, "second", 1000)
    mixed = pod(node, "mixed", "reclaimed", {f"{QOS}.main": "dedicated"})
    node.run_container(mixed, ContainerRequest("batch"))
    node.run_container(mixed, ContainerRequest("main", native(1000, 1000)))
    joined = pod(node, "joined", "reclaimed")
    node.run_container(joined, ContainerRequest("batch"))
    for container_id in (*ids, first):
        node.runtime.update(container_id, Resources(shares=512))
        node.runtime.update(container_id, Resources(cpus="0-7"))
        node.runtime.update(container_id, Resources(memory_limit=100 * MI))
    node.runtime.stop(first)
    node.remove_pod(node.pod("shop/second"))
    node.remove_pod(node.pod("shop/mixed"))


# ---- what is on the wire ----


@pytest.mark.parametrize("version", VERSIONS)
def test_no_update_is_empty_doubled_or_of_a_kind_that_hurts(version, cgroup, tmp_path, answers):
    with Node(tmp_path, cgroup=cgroup, runtime_version=version) as node, daemon_of(node) as daemon:
        served(daemon)
        a_busy_day(node)
        assert len(updates_in(answers)) > 10
        for update in updates_in(answers):
            assert update.container_id
            assert update.linux.resources.ByteSize() > 0
        for _, _, answer in answers:
            ids = [update.container_id for update in getattr(answer, "update", ())]
            assert len(ids) == len(set(ids)), "two updates for one container in one answer"
        if cgroup == 1:
            assert not any(update.linux.resources.unified for update in updates_in(answers))
            assert not any(
                answer.adjust.linux.resources.unified
                for kind, _, answer in answers
                if kind is HookKind.CREATE_CONTAINER
            )
        assert node.runtime.failures == []
        assert node.runtime.plugins.farewells == []
        assert_unhurt(daemon)


def test_one_answer_names_a_container_once_although_two_causes_move_it(node, daemon, answers):
    """Its pod leaves the box and its CPUs are taken, by the same creation."""
    pod_id = pod(node, "mixed", "reclaimed")
    batch = node.run_container(pod_id, ContainerRequest("batch"))
    node.runtime.pods[pod_id].request.annotations[f"{QOS}.main"] = "dedicated"
    answers.clear()
    node.run_container(pod_id, ContainerRequest("main", native(2000, 2000)))
    (created,) = [answer for kind, _, answer in answers if kind is HookKind.CREATE_CONTAINER]
    assert [update.container_id for update in created.update].count(batch) <= 1
    assert_unhurt(daemon)


def test_every_set_that_is_sent_is_a_set_of_online_cpus(node, daemon, answers):
    a_busy_day(node)
    sent = [update.linux.resources.cpu.cpus for update in updates_in(answers)]
    sent += [a.adjust.linux.resources.cpu.cpus for kind, _, a in answers if kind is HookKind.CREATE_CONTAINER]
    for text in filter(None, sent):
        assert cpuset.parse(text)
        assert not cpuset.parse(text) & ~cpuset.parse("0-7")


def test_an_update_that_touches_nothing_of_ours_is_answered_with_nothing(node, daemon, answers):
    container_id = shared(node)
    answers.clear()
    node.runtime.update(container_id, Resources(shares=300, quota=50_000, period=100_000))
    (update,) = [answer for kind, _, answer in answers if kind is HookKind.UPDATE_CONTAINER]
    assert update.ByteSize() == 0


def test_cpus_that_the_kubelet_asks_for_are_answered_with_ours(node, daemon, answers):
    container_id = shared(node)
    dedicated(node)
    answers.clear()
    node.runtime.update(container_id, Resources(cpus="0-7", shares=300))
    (update,) = updates_in(answers)
    assert (update.container_id, update.linux.resources.cpu.cpus) == (container_id, "2-7")
    assert cpuset.render(node.cpus(container_id)) == "2-7"


@pytest.mark.parametrize(("version", "carried"), [("1.7.24", False), ("2.1.9", True), ("2.4.0", True)])
def test_an_oom_score_is_answered_only_where_the_runtime_takes_it_and_holds_everywhere(
    version, carried, cgroup, tmp_path, answers
):
    with Node(tmp_path, cgroup=cgroup, runtime_version=version) as node, daemon_of(node) as daemon:
        served(daemon)
        pod_id = pod(node, "batch", kube=KubeQoS.BEST_EFFORT)
        container_id = node.run_container(pod_id, ContainerRequest("app", oom_score_adj=300))
        (created,) = [answer for kind, _, answer in answers if kind is HookKind.CREATE_CONTAINER]
        assert created.adjust.linux.HasField("oom_score_adj") is carried
        assert node.processes.oom_score_adj(node.runtime.containers[container_id].pid) == 1000


def test_the_record_is_there_from_the_creation_on_and_survives_the_daemon(node, daemon):
    container_id = dedicated(node)
    shared(node)
    assert '"exclusive":"0-1"' in node.runtime.containers[container_id].annotations[RECORD]
    daemon.kill()
    daemon.start()
    served(daemon)
    assert daemon.container(container_id)["cpus"] == "0-1"
    assert dedicated_cpus(node, daemon) == "0-1"
    dedicated(node, "second")
    assert dedicated_cpus(node, daemon) == "0-3"


def dedicated_cpus(node: Node, daemon: Daemon) -> str:
    cpus: str = assert_unhurt(daemon)["pools"]["dedicated"]["cpus"]
    return cpus


def test_a_record_is_not_believed_in_a_pod_that_writes_the_key_itself(node, daemon):
    forged = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"6-7"}'
    daemon.kill()
    liar = pod(node, "liar", "dedicated", {RECORD: forged})
    lied = node.run_container(liar, ContainerRequest("app", native(2000), annotations={RECORD: forged}))
    honest = pod(node, "honest", "dedicated")
    told = node.run_container(honest, ContainerRequest("app", native(2000), annotations={RECORD: forged}))
    daemon.start()
    served(daemon)
    assert daemon.container(told)["cpus"] == "6-7"
    assert daemon.container(lied)["cpus"] not in ("", "6-7")
    assert_unhurt(daemon)


# ---- observe ----


def test_observing_answers_nothing_and_writes_nothing(node_v2, answers):
    node = node_v2
    before_any = tree_of(node.host_root / "sys")
    with daemon_of(node, flags=("--observe",)) as daemon:
        served(daemon)
        assert tree_of(node.host_root / "sys") == before_any
        shared(node)
        reclaimed(node)
        container_id = dedicated(node)
        node.runtime.update(container_id, Resources(shares=300, cpus="0-7"))
        quiet = tree_of(node.host_root)
        daemon.audited("container.admit", container_id=container_id)
        sweeps_over = time.monotonic() + 2.5
        wait_until(lambda: time.monotonic() > sweeps_over, 5, "a sweep to have been due")
        assert tree_of(node.host_root) == quiet
        assert [kind for kind, _, answer in answers if answer is not None and answer.ByteSize()] == []
        assert cpuset.render(node.cpus(container_id)) == "0-7"
        assert assert_unhurt(daemon)["mode"] == "observe"
        assert list(daemon.state_dir.glob("restore*")) == []


# ---- files, on the container and along its path ----


def test_v2_values_stand_on_the_container_and_its_pod(node_v2):
    with daemon_of(node_v2) as daemon:
        served(daemon)
        wanted = {"memory-high": "64Mi", "io-weight": "300"}
        pod_id = pod(node_v2, "web", "shared", {f"coloc.nri.io/{key}": text for key, text in wanted.items()})
        app = node_v2.run_container(pod_id, ContainerRequest("app", native(100, None, 128 * MI)))
        assert file(node_v2, app, "memory.high") == str(64 * MI)
        for owner in (app, pod_id):
            assert (file(node_v2, owner, "io.weight") or "").removeprefix("default ") == "300"
            assert (file(node_v2, owner, "io.bfq.weight") or "").removeprefix("default ") == "118"
        assert_unhurt(daemon)


ANCESTORS = ("kubepods/burstable", "kubepods")


def protected(node: Node, name: str, amount: int) -> str:
    """Run a Burstable pod that is surely granted some protection: its kubelet's score says a request of a half."""
    wanted = {"coloc.nri.io/memory-min": str(amount), "coloc.nri.io/memory-low": str(2 * amount)}
    pod_id = pod(node, name, "shared", wanted)
    return node.run_container(pod_id, ContainerRequest("app", native(100), oom_score_adj=500))


def sums(node: Node, name: str) -> list[str | None]:
    return [node.tree.read(path, name) for path in ANCESTORS]


def test_protections_are_sums_along_the_path_and_are_given_back_at_release(node_v2):
    with daemon_of(node_v2) as daemon:
        served(daemon)
        first, second = protected(node_v2, "a", MI), protected(node_v2, "b", 3 * MI)
        assert file(node_v2, first, "memory.min") == str(MI)
        wait_until(lambda: sums(node_v2, "memory.min") == [str(4 * MI)] * 2, 5, "the sums")
        wait_until(lambda: sums(node_v2, "memory.low") == [str(8 * MI)] * 2, 5, "the lower sums")
        pod_b = node_v2.pod("shop/b")
        wait_until(lambda: file(node_v2, pod_b, "memory.min") == str(3 * MI), 5, "the pod's own")
        node_v2.remove_pod(node_v2.pod("shop/b"))
        wait_until(lambda: sums(node_v2, "memory.min") == [str(MI)] * 2, 5, "the second pod's part to go")
        node_v2.runtime.stop(first)
        wait_until(lambda: sums(node_v2, "memory.low") == ["0"] * 2, 5, "everything to be given back")
        assert second not in node_v2.runtime.containers
        assert_unhurt(daemon)


def test_protections_of_pods_that_ended_while_we_were_away_are_given_back(node_v2):
    with daemon_of(node_v2) as daemon:
        served(daemon)
        protected(node_v2, "a", MI)
        wait_until(lambda: sums(node_v2, "memory.min") == [str(MI)] * 2, 5, "the sums")
        daemon.kill()
        node_v2.remove_pod(node_v2.pod("shop/a"))
        daemon.start()
        served(daemon)
        wait_until(lambda: sums(node_v2, "memory.min") == ["0"] * 2, 5, "what a former life protected")


def test_a_reclaimed_pod_is_limited_before_its_first_container(node, daemon):
    dedicated(node)
    pod_id = pod(node, "batch", kube=KubeQoS.BEST_EFFORT)
    assert file(node, pod_id, "cpuset.cpus") == "2-7"
    weight = ("cpu.shares", "2") if node.tree.version == 1 else ("cpu.weight", "1")
    assert file(node, pod_id, weight[0]) == weight[1]
    container_id = node.run_container(pod_id, ContainerRequest("app"))
    assert cpuset.render(node.cpus(container_id)) == "2-7"
    assert node.runtime.containers[container_id].resources.cpu.cpus == ""


def test_a_pod_that_leaves_the_box_gets_its_cpus_and_weight_back(node, daemon):
    name = "cpu.shares" if node.tree.version == 1 else "cpu.weight"
    request = PodRequest("mixed", "shop", KubeQoS.BURSTABLE, {QOS: "reclaimed"}, shares=1024)
    pod_id = node.run_pod(request)
    wanted = node.tree.weight(1024)[1]
    batch = node.run_container(pod_id, ContainerRequest("batch"))
    assert file(node, pod_id, name) != wanted
    owner = dedicated(node)
    request.annotations[f"{QOS}.main"] = "shared"  # type: ignore[index]  # a dict, declared read-only
    node.kill_runtime()
    node.start_runtime()
    wait_until(lambda: file(node, pod_id, name) == wanted, 15, "the weight to come back")
    everything = "0-7" if node.tree.version == 1 else ""
    wait_until(lambda: (file(node, pod_id, "cpuset.cpus") or "").strip() == everything, 5, "the CPUs too")
    wait_until(lambda: not node.cpus(batch) & node.cpus(owner), 5, "its offline container to stay off")
    assert_unhurt(daemon)


def test_the_best_effort_class_itself_is_never_written(node, daemon):
    names = ("cpu.shares", "cpu.weight", "cpuset.cpus", "io.weight", "blkio.bfq.weight", "memory.min")
    before = [node.tree.read("kubepods/besteffort", name) for name in names]
    dedicated(node)
    reclaimed(node)
    assert [node.tree.read("kubepods/besteffort", name) for name in names] == before


def test_what_somebody_resets_is_repaired_and_said(node, daemon):
    container_id = dedicated(node)
    node.tree.write(node.runtime.containers[container_id].cgroup, "cpuset.cpus", "0-7")
    wait_until(lambda: cpuset.render(node.cpus(container_id)) == "0-1", 5, "the repair")
    assert daemon.audited("drift.repair", container_id=container_id)["after"] == {"cpus": "0-1"}


# ---- slow decisions ----


def test_a_slow_decision_is_answered_neutrally_in_time_once_and_is_discarded(node_v2, answers):
    node = node_v2
    with daemon_of(node, program=SLOW_PROGRAM) as daemon:
        served(daemon)
        pod_id = pod(node, "slow", "dedicated", {SLOW: "1"})
        began = time.monotonic()
        container_id = node.runtime.create(pod_id, ContainerRequest("app", native(2000, 2000)))
        created = next(told for told in node.runtime.trace if told.kind is HookKind.CREATE_CONTAINER)
        assert 0.3 < created.seconds < 0.5 + 0.05, "a quarter of the runtime's two seconds"
        assert [answer.ByteSize() for kind, _, answer in answers if kind is HookKind.CREATE_CONTAINER] == [0]
        daemon.audited("container.late", container_id=container_id)
        assert time.monotonic() - began > 0.9
        assert daemon.container(container_id) == {}
        assert daemon.metric('nri_coloc_neutral_replies_total{hook="CreateContainer"}') == 1
        node.runtime.start(container_id)
        assert daemon.container(container_id)["cpus"] == cpuset.render(node.cpus(container_id)) == "0-1"
        assert node.runtime.plugins.farewells == []
        assert_unhurt(daemon)


def test_sigterm_in_the_middle_of_a_decision_ends_it_in_time(node_v2):
    node = node_v2
    with daemon_of(node, program=SLOW_PROGRAM) as daemon:
        served(daemon)
        node.runtime.plugins.request_timeout = 0.4
        pod_id = pod(node, "slow", "dedicated", {SLOW: "30"})
        node.runtime.create(pod_id, ContainerRequest("app"))
        assert ends_well(daemon)


# ---- hygiene ----


def resident_kb(daemon: Daemon, name: str) -> int:
    lines = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def cpu_seconds(daemon: Daemon) -> float:
    fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_things(daemon: Daemon) -> tuple[int, int]:
    """Descriptors and threads."""
    process = Path(f"/proc/{daemon.pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def live(plugin: RawPlugin, number: int) -> None:
    """One pod's life, of every class in turn, told by a runtime that makes no cgroups and so takes no time."""
    qos = ("dedicated", "shared", "reclaimed", "system")[number % 4]
    sandbox = nri_pb2.PodSandbox(
        id=f"pod{number}", name=f"p{number}", uid=f"u{number}", namespace="kube-system"
    )
    sandbox.annotations[QOS] = qos
    sandbox.linux.cgroup_parent = f"/kubepods/burstable/podu{number}"
    container = nri_pb2.Container(id=f"c{number}", pod_sandbox_id=sandbox.id, name="app")
    container.linux.cgroups_path = f"{sandbox.linux.cgroup_parent}/{container.id}"
    container.linux.resources.cpu.shares.value = 1024
    plugin.hook("RunPodSandbox", pod=sandbox)
    created = plugin.hook("CreateContainer", pod=sandbox, container=container)
    container.annotations.update(created.adjust.annotations)
    for method in ("PostCreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer"):
        plugin.hook(method, pod=sandbox, container=container)
    if number % 3:  # a runtime that restarts tells some ends never or only once
        plugin.hook("StopContainer", pod=sandbox, container=container)
    plugin.hook("StopPodSandbox", pod=sandbox)
    if number % 3 > 1:
        plugin.hook("RemoveContainer", pod=sandbox, container=container)
        plugin.hook("RemovePodSandbox", pod=sandbox)


def test_two_thousand_lives_leave_nothing_behind(tmp_path, record_testsuite_property):
    node = Node(tmp_path, cgroup=1)
    few = "telemetry: {auditRing: 500}\n"  # kept records are no leak, so the ring is full before we look
    with (
        RawRuntime(node.nri_socket) as runtime,
        daemon_of(node, config=few) as daemon,
        runtime.accept() as plugin,
    ):
        plugin.welcome()
        # from then on gRPC is loaded, with its threads and its megabytes
        wait_until(lambda: "cannot compare" in daemon.check("synchronised")["detail"], 10, "a try to ask CRI")
        for number in range(500):
            live(plugin, number)
        before, things = resident_kb(daemon, "Rss"), open_things(daemon)
        for number in range(500, 2500):
            live(plugin, number)
        grown = resident_kb(daemon, "Rss") - before
        record_testsuite_property("grown_kb", grown)
        wait_until(lambda: open_things(daemon) <= things, 5, f"{things}, not {open_things(daemon)}")
        assert assert_unhurt(daemon)["containers"] == []
        assert grown < 3 * 1024, f"grown by {grown} kB"


def test_an_idle_daemon_with_110_pods_is_small_and_quiet(tmp_path, record_testsuite_property):
    with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
        served(daemon)
        for number in range(110):
            (shared, reclaimed)[number % 2](node, f"p{number}")
        began, used = time.monotonic(), cpu_seconds(daemon)
        wait_until(
            lambda: time.monotonic() > began + 5, 10, "five idle seconds, the comparison with CRI in them"
        )
        share = (cpu_seconds(daemon) - used) / (time.monotonic() - began)
        pss = resident_kb(daemon, "Pss") / 1024
        record_testsuite_property("cpu_percent", 100 * share)
        record_testsuite_property("pss_mib", pss)
        assert share < 0.03, f"{100 * share:.1f} % of a core"
        assert pss < 80, f"{pss:.0f} MiB"


def test_a_daemon_that_is_killed_un_pins_nothing(node, daemon):
    owner, other = dedicated(node), shared(node)
    os.kill(daemon.pid, signal.SIGKILL)
    wait_until(lambda: daemon.is_dead, 5, "its end")
    assert [cpuset.render(node.cpus(one)) for one in (owner, other)] == ["0-1", "2-7"]
