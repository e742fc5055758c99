"""The daemon beside a runtime that behaves: its answers, its writes, and the values that it does not change."""

import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.node import Node
from nri_coloc.sim.plugin_link import PluginLink
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import (
    QOS,
    assert_unhurt,
    daemon_of,
    decide_when_answered,
    dedicated,
    ends_well,
    pod,
    reclaimed,
    served,
    shared,
    tree_of,
)
from tests.rig.daemon import SLOW_PROGRAM, Daemon
from tests.rig.slow_daemon import SLOW
from tests.rig.waiting import wait_until

RECORD = "coloc.nri.io/record"
MI = 1 << 20
VERSIONS = ("1.7.24", "2.1.9", "2.4.0")
WAITS_S = 8.0
"""The time for which the runtime waits, as a plugin is told. An answer is due after a quarter, so six seconds are left
for a machine with other work."""

Answers = list[tuple[HookKind, str, Any]]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def cgroup(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return every answer to a hook, as it came over the wire: (hook, container's id, message)."""
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
    """Run, update and remove pods of all classes."""
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
    """The same creation takes its pod out of the reclaim cgroups and takes its CPUs."""
    pod_id = pod(node, "mixed", "reclaimed")
    batch = node.run_container(pod_id, ContainerRequest("batch"))
    node.runtime.pods[pod_id].request.annotations[f"{QOS}.main"] = "dedicated"
    answers.clear()
    node.run_container(pod_id, ContainerRequest("main", native(2000, 2000)))
    (created,) = [answer for kind, _, answer in answers if kind is HookKind.CREATE_CONTAINER]
    assert [update.container_id for update in created.update].count(batch) <= 1
    assert_unhurt(daemon)


@pytest.mark.parametrize(("sharers", "told"), [(3, 3), (4, 0)], ids=["all-fit", "one-too-many"])
def test_an_answer_carries_all_the_others_or_none_of_them(
    tmp_path: Path, answers: Answers, sharers: int, told: int
):
    with Node(tmp_path) as node, daemon_of(node, config="runtime: {updatesPerReply: 3}\n") as daemon:
        served(daemon)
        crowd = [shared(node, f"n{i}") for i in range(sharers)]
        answers.clear()
        owner = dedicated(node)
        created = [one for one in answers if one[:2] == (HookKind.CREATE_CONTAINER, owner)]
        assert len(updates_in(created)) == told
        specs = lambda: {node.runtime.containers[k].resources.cpu.cpus for k in crowd}  # noqa: E731 - polled
        wait_until(lambda: specs() == {"2-7"}, 20, "every spec to agree")


def test_no_change_of_ours_is_taken_for_somebody_elses(node, daemon):
    before = len(daemon.audit("drift.repair"))
    a_busy_day(node)
    assert_unhurt(daemon)
    assert daemon.audit("drift.repair")[before:] == []


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
def test_a_score_holds_everywhere_and_is_answered_where_possible(version, carried, cgroup, tmp_path, answers):
    with Node(tmp_path, cgroup=cgroup, runtime_version=version) as node, daemon_of(node) as daemon:
        served(daemon)
        pod_id = pod(node, "batch", kube=KubeQoS.BEST_EFFORT)
        container_id = node.run_container(pod_id, ContainerRequest("app", oom_score_adj=300))
        (created,) = [answer for kind, _, answer in answers if kind is HookKind.CREATE_CONTAINER]
        assert created.adjust.linux.HasField("oom_score_adj") is carried
        assert node.processes.oom_score_adj(node.runtime.containers[container_id].pid) == 1000


def test_the_record_survives_the_daemon_from_creation_on(node, daemon):
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


def test_a_record_is_not_believed_in_its_own_pod(node, daemon):
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
        wait_until(lambda: time.monotonic() > sweeps_over, 20, "a sweep to have been due")
        assert tree_of(node.host_root) == quiet
        assert [kind for kind, _, answer in answers if answer is not None and answer.ByteSize()] == []
        assert cpuset.render(node.cpus(container_id)) == "0-7"
        wait_until(lambda: daemon.container(container_id)["actual_cpus"] == "0-7", 20, "it to be looked at")
        assert assert_unhurt(daemon)["mode"] == "observe"
        assert list(daemon.state_dir.glob("restore*")) == []


# ---- slow decisions ----


def test_a_slow_decision_is_answered_neutrally_and_discarded(node_v2, answers, tmp_path, monkeypatch):
    node = node_v2
    decide_when_answered(monkeypatch)
    node.runtime.plugins.told_timeout = WAITS_S
    # without CRI's list, in which the daemon would find the containers of late decisions, and reconnect
    flags = ("--cri-socket", str(tmp_path / "no-cri.sock"))
    with daemon_of(node, flags=flags, program=SLOW_PROGRAM) as daemon:
        served(daemon)
        ids = []
        for name in ("slow", "slower", "slowest"):
            pod_id = pod(node, name, "dedicated", {SLOW: str(tmp_path / name)})
            ids.append(node.runtime.create(pod_id, ContainerRequest("app", native(2000, 2000))))
            assert daemon.audited("container.late", container_id=ids[-1])["pod"] == name
            assert daemon.container(ids[-1]) == {}
        creations = [told.seconds for told in node.runtime.trace if told.kind is HookKind.CREATE_CONTAINER]
        assert min(creations) > WAITS_S / 5
        assert median(creations) < WAITS_S, "one may meet a standstill"
        sizes = [answer.ByteSize() for kind, _, answer in answers if kind is HookKind.CREATE_CONTAINER]
        assert sizes == [0, 0, 0]
        assert daemon.metric('nri_coloc_neutral_replies_total{hook="CreateContainer"}') == 3
        container_id = ids[0]
        node.runtime.start(container_id)
        assert daemon.container(container_id)["cpus"] == cpuset.render(node.cpus(container_id)) == "0-1"
        assert node.runtime.plugins.farewells == []
        assert_unhurt(daemon)


def test_sigterm_in_the_middle_of_a_decision_ends_it_in_time(node_v2):
    node = node_v2
    node.runtime.plugins.told_timeout = 0.4
    with daemon_of(node, program=SLOW_PROGRAM) as daemon:
        served(daemon)
        pod_id = pod(node, "slow", "dedicated", {SLOW: "/nowhere"})
        node.runtime.create(pod_id, ContainerRequest("app"))
        assert ends_well(daemon)
