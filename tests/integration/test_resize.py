"""In-place resize beside a simulated runtime: the kubelet's update changes a container's CPUs, and its neighbours'."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.node import Node
from nri_coloc.sim.plugin_link import PluginLink
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    decide_when_answered,
    dedicated,
    file,
    pod,
    reclaimed,
    reload,
    served,
    shared,
)
from tests.rig.daemon import SLOW_PROGRAM, Daemon
from tests.rig.slow_daemon import SLOW_UPDATE
from tests.rig.waiting import poll, wait_until

RECORD = "coloc.nri.io/record"
MI = 1 << 20


def resize(node: Node, container_id: str, milli: int) -> None:
    """Send the kubelet's update for a changed CPU request and limit."""
    node.runtime.update(container_id, native(milli, milli))


def on(node: Node, container_id: str) -> str:
    """Return the CPUs of a container's cgroup."""
    return cpuset.render(node.cpus(container_id))


def in_spec(node: Node, container_id: str) -> str:
    cpus: str = node.runtime.containers[container_id].resources.cpu.cpus
    return cpus


def events_after(daemon: Daemon, record: dict[str, Any]) -> set[str]:
    """Return the events in the audit after a record, except those of the record's own decision."""
    own = record["decision_id"]
    return {r["event"] for r in daemon.audit() if r["seq"] > record["seq"] and r["decision_id"] != own}


def test_growth_keeps_what_it_has_and_others_leave(node, daemon):
    neighbour, batch = shared(node), reclaimed(node)
    web = dedicated(node)
    resize(node, web, 4000)
    assert on(node, web) == in_spec(node, web) == "0-3"
    assert on(node, neighbour) == in_spec(node, neighbour) == "4-7"
    wait_until(lambda: on(node, batch) == "4-7", 20, "the reclaim pool to shrink")
    grown = daemon.audited("container.update", container_id=web)
    assert (grown["reason"], grown["before"]["cpus"], grown["after"]["cpus"]) == ("grown", "0-1", "0-3")
    assert {"n": 4, "owned": "0-1", "free": "2-7"}.items() <= grown["inputs"].items()
    assert (
        file(node, web, "cpu.shares" if node.tree.version == 1 else "cpu.weight") == node.tree.weight(4096)[1]
    )
    assert daemon.audit("container.late", container_id=web) == []
    assert_unhurt(daemon)


def test_what_a_container_gives_back_flows_to_share(node, daemon):
    neighbour, web = shared(node), dedicated(node, milli=4000)
    resize(node, web, 1000)
    assert on(node, web) == in_spec(node, web) == "0"
    assert on(node, neighbour) == "1-7"
    assert daemon.audited("container.update", container_id=web)["reason"] == "shrunk"
    assert_unhurt(daemon)


def test_impossible_growth_keeps_the_set_and_is_reported(node, daemon):
    neighbour, web = shared(node), dedicated(node)
    resize(node, web, 8000)
    assert (on(node, web), on(node, neighbour)) == ("0-1", "2-7")
    unmet = daemon.audited("container.update", container_id=web)
    assert unmet["reason"] == "resize_unmet"
    assert {"n": 8, "owned": "0-1", "free": "2-7"}.items() <= unmet["inputs"].items()
    assert "cpus" not in unmet["after"]
    assert node.runtime.containers[web].resources.cpu.shares.value == 8192
    assert_unhurt(daemon)


@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
def test_a_late_resize_is_carried_out_by_files(tmp_path, monkeypatch, strict):
    decide_when_answered(monkeypatch)
    config = "apiVersion: coloc.nri.io/v1\nstrict: true\n" if strict else ""
    with Node(tmp_path, cgroup=2) as node, daemon_of(node, config=config, program=SLOW_PROGRAM) as daemon:
        node.runtime.plugins.told_timeout = 2.0
        served(daemon)
        decided = {SLOW_UPDATE: str(tmp_path / "decided")}
        neighbour, web = shared(node), dedicated(node, "web", 2000, **decided)
        resize(node, web, 4000)
        wait_until(lambda: on(node, web) == "0-3", 20, "the growth")
        wait_until(lambda: on(node, neighbour) == "4-7", 20, "the neighbour to leave")
        wait_until(lambda: in_spec(node, web) == "0-3", 20, "the spec to say so")
        late = daemon.audited("container.late", container_id=web)
        assert late["reason"] == "too_late"
        assert daemon.audited("container.update", container_id=web)["reason"] == "grown"
        assert node.runtime.containers[web].resources.cpu.shares.value == 4096
        assert_unhurt(daemon)


def test_a_strict_update_fails_until_there_is_room(lasting):
    node, daemon = lasting.emptied("apiVersion: coloc.nri.io/v1\nstrict: true\n"), lasting.daemon
    other, web = dedicated(node, "other", 4000), dedicated(node)
    with pytest.raises(Exception, match=r"nri-coloc refuses shop/web/app.*2 more CPUs asked"):
        resize(node, web, 4000)
    assert on(node, web) == in_spec(node, web) == "4-5"
    assert node.runtime.containers[web].resources.cpu.shares.value == 2048
    node.runtime.stop(other)
    resize(node, web, 4000)
    assert on(node, web) == "4-7"
    assert_unhurt(daemon)


def test_a_resize_survives_a_restart_despite_its_old_record(node, daemon):
    web, other = dedicated(node), dedicated(node, "other", 4000)
    resize(node, other, 2000)
    resize(node, web, 3000)
    held = {k: on(node, k) for k in (web, other)}
    assert '"exclusive":"0-1"' in node.runtime.containers[web].annotations[RECORD]
    daemon.kill()
    daemon.start()
    served(daemon)
    assert {k: daemon.container(k)["cpus"] for k in held} == {k: on(node, k) for k in held} == held
    assert daemon.container(web)["exclusive"]
    assert_unhurt(daemon)


def test_a_resize_during_our_absence_is_carried_out_after_it(node, daemon):
    neighbour, web, other = shared(node), dedicated(node), dedicated(node, "other", 2000)
    daemon.kill()
    resize(node, web, 4000)
    resize(node, other, 1000)
    daemon.start()
    served(daemon)
    assert (daemon.container(web)["cpus"], daemon.container(other)["cpus"]) == ("0-1,4-5", "2")
    wait_until(lambda: on(node, web) == in_spec(node, web) == "0-1,4-5", 20, "the grown set")
    wait_until(lambda: on(node, neighbour) == "3,6-7", 20, "the neighbour to leave")
    assert daemon.audited("container.update", container_id=web, reason="grown")
    assert_unhurt(daemon)


def test_a_runtime_that_comes_back_moves_nobody(node, daemon):
    neighbour, web = shared(node), dedicated(node)
    resize(node, web, 3000)
    held = {k: on(node, k) for k in (neighbour, web)}
    connects, grown = (
        len(daemon.audit("runtime.connect")),
        daemon.audited("container.update", container_id=web),
    )
    node.kill_runtime()
    node.start_runtime()
    wait_until(lambda: len(daemon.audit("runtime.connect")) > connects, 20, "the daemon to be back")
    daemon.wait_synchronised()
    assert {k: on(node, k) for k in held} == held
    assert events_after(daemon, grown) <= {"runtime.lost", "runtime.connect", "runtime.compare"}


def test_a_reload_that_changes_nothing_about_a_container_moves_nobody(lasting):
    node, daemon = lasting.emptied(), lasting.daemon
    neighbour, web = shared(node), dedicated(node)
    resize(node, web, 3000)
    held = {k: on(node, k) for k in (neighbour, web)}
    grown = daemon.audited("container.update", container_id=web)
    reload(daemon, "apiVersion: coloc.nri.io/v1\nclasses: {shared: {ioWeight: 100}}\n")
    assert {k: on(node, k) for k in held} == held
    assert events_after(daemon, grown) - {"runtime.compare"} == {"config.reload"}


def test_a_smaller_machine_moves_only_those_on_the_lost_cpus(lasting):
    node, daemon = lasting.emptied(), lasting.daemon
    first, second = dedicated(node, "first"), dedicated(node, "second", 3000)
    assert (on(node, first), on(node, second)) == ("0-1", "4-6")
    reload(daemon, "apiVersion: coloc.nri.io/v1\nnode: {reservedCPUs: '4'}\n")
    wait_until(lambda: on(node, second) == "5-7", 20, "the second to leave CPU 4, and nothing else")
    assert on(node, first) == "0-1"
    assert_unhurt(daemon)


@pytest.mark.parametrize(("others", "told"), [(3, 4), (20, 1)], ids=["few", "many"])
def test_the_answer_names_each_container_once(node, daemon, monkeypatch, others, told):
    heard: list[Any] = []
    ask = PluginLink.hook

    def listen(self, kind, sandbox, container=None, resources=None):
        answer = ask(self, kind, sandbox, container, resources)
        if kind is HookKind.UPDATE_CONTAINER:
            heard.append(answer)
        return answer

    monkeypatch.setattr(PluginLink, "hook", listen)
    neighbours = [shared(node, f"s{number}") for number in range(others)]
    web = dedicated(node)
    # a push that is under way would write the former set once more, until its Post event
    wait_until(lambda: {in_spec(node, k) for k in neighbours} == {"2-7"}, 20, "every spec to agree")
    resize(node, web, 3000)
    (answer,) = [
        found for found in heard if getattr(found, "update", ())
    ]  # the answer to a push of ours is neutral
    assert isinstance(answer, nri_pb2.UpdateContainerResponse)
    ids = [update.container_id for update in answer.update]
    assert len(ids) == len(set(ids)) == told
    assert web in ids
    # containers that the answer did not carry were moved before it left, too
    assert {on(node, k) for k in neighbours} == {"3-7"}


def test_a_sidecar_follows_unless_it_outgrows_its_main_container(node, daemon):
    sandbox = pod(node, "web", "dedicated")
    main = node.run_container(sandbox, ContainerRequest("main", native(2000, 2000)))
    side = node.run_container(sandbox, ContainerRequest("side", native(100)))
    resize(node, main, 4000)
    assert (on(node, main), on(node, side)) == ("0-3", "0-3")
    node.runtime.update(side, native(2000))
    assert (on(node, main), on(node, side)) == ("0-3", "4-5")
    node.runtime.update(side, native(500))
    assert (on(node, main), on(node, side)) == ("0-3", "0-3")
    assert_unhurt(daemon)


def test_a_shared_containers_resize_is_its_own_business(node, daemon):
    neighbour, web = shared(node), dedicated(node)
    resize(node, neighbour, 3000)
    assert (on(node, neighbour), on(node, web)) == ("2-7", "0-1")
    assert node.runtime.containers[neighbour].resources.cpu.shares.value == 3072
    assert daemon.audited("container.update", container_id=neighbour)["reason"] == "nothing_ours"


def test_at_no_moment_of_many_resizes_do_two_own_a_cpu(tmp_path: Path):
    with Node(tmp_path, cgroup=2) as node, daemon_of(node) as daemon:
        served(daemon)
        owners = [dedicated(node, f"web{number}", 1000) for number in range(3)]
        neighbour = shared(node, kube=KubeQoS.BURSTABLE)
        for amounts in ((3, 1, 1), (1, 3, 2), (2, 2, 2), (4, 1, 1), (1, 1, 4), (1, 1, 1)):
            for owner, cpus in zip(owners, amounts, strict=True):
                resize(node, owner, cpus * 1000)
                sets = [node.cpus(k) for k in (*owners, neighbour)]
                assert all(not a & b for i, a in enumerate(sets) for b in sets[i + 1 :])

        def records() -> list[dict[str, Any]]:
            return [r for r in daemon.audit("container.update") if r["container_id"] in owners]

        wait_until(lambda: {"grown", "shrunk"} <= {r["reason"] for r in records()}, 20, "their records")
        assert all(one["seq"] < other["seq"] for one, other in pairwise(records()))
        assert_unhurt(daemon)


# ---- init containers ----


def test_an_init_containers_cpus_return_before_its_main_container_comes(node, daemon):
    neighbour = shared(node)
    sandbox = pod(node, "web", "dedicated")
    init = node.run_container(sandbox, ContainerRequest("init", native(4000, 4000)))
    assert (on(node, init), on(node, neighbour)) == ("0-3", "4-7")
    node.runtime.stop(init)
    wait_until(lambda: on(node, neighbour) == "0-7", 20, "its CPUs to come back")
    main = node.run_container(sandbox, ContainerRequest("main", native(4000, 4000)))
    assert (on(node, main), on(node, neighbour)) == ("0-3", "4-7")
    assert_unhurt(daemon)


def test_main_container_gets_late_init_cpus_at_start(node, daemon):
    neighbour = shared(node)
    sandbox = pod(node, "web", "dedicated")
    init = node.run_container(sandbox, ContainerRequest("init", native(6000, 6000)))
    main = node.runtime.create(sandbox, ContainerRequest("main", native(6000, 6000)))
    node.runtime.stop(init)
    node.runtime.start(main)
    assert (on(node, main), on(node, neighbour)) == ("0-5", "6-7")
    assert daemon.audit("container.late", container_id=main) == []
    wait_until(lambda: in_spec(node, main) == "0-5", 20, "the runtime's spec to agree")
    daemon.kill()
    daemon.start()
    served(daemon)
    assert daemon.container(main)["cpus"] == "0-5"
    assert_unhurt(daemon)


@pytest.mark.parametrize(
    "annotations",
    [
        {"coloc.nri.io/qos-class.init": "shared"},
        {"noderesource.dev/resources": '{"initContainers": {"init": {"requests": {"cpu": "2"}}}}'},
    ],
    ids=["our-annotation", "nri-plugins-webhook"],
)
def test_an_init_container_that_is_named_runs_in_share(node, daemon, annotations):
    sandbox = pod(node, "web", "dedicated", annotations)
    init = node.run_container(sandbox, ContainerRequest("init", native(2000, 2000)))
    assert (on(node, init), daemon.container(init)["pool"]) == ("0-7", "share")
    node.runtime.stop(init)
    main = node.run_container(sandbox, ContainerRequest("main", native(2000, 2000)))
    assert on(node, main) == "0-1"


def test_a_sidecar_with_a_class_of_its_own_does_not_follow(node, daemon):
    sandbox = pod(node, "web", "dedicated", {"coloc.nri.io/qos-class.side": "shared"})
    main = node.run_container(sandbox, ContainerRequest("main", native(2000, 2000)))
    side = node.run_container(sandbox, ContainerRequest("side", native(100)))
    assert (on(node, main), on(node, side)) == ("0-1", "2-7")


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
def test_kubelets_write_after_a_resize_is_no_drift(tmp_path: Path, cgroup: int):
    with Node(tmp_path, cgroup=cgroup) as node, daemon_of(node) as daemon:
        served(daemon)
        job = shared(node, "job", 500, qos="reclaimed")
        name, ours = node.tree.weight(2)
        of_pod = node.runtime.containers[job].pod.id
        wait_until(lambda: file(node, of_pod, name) == ours, 20, "our weight")
        resize(node, job, 300)
        node.tree.write(node.runtime.pods[of_pod].cgroup, *node.tree.weight(307))
        wait_until(lambda: file(node, of_pod, name) == ours, 20, "our weight again")
        assert not poll(lambda: daemon.audit("drift.repair"), 1)
        assert_unhurt(daemon)


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
def test_kubelets_write_before_a_resize_is_no_drift(tmp_path: Path, cgroup: int):
    with Node(tmp_path, cgroup=cgroup) as node, daemon_of(node) as daemon:
        served(daemon)
        job = shared(node, "job", 500, qos="reclaimed")
        name, ours = node.tree.weight(2)
        of_pod = node.runtime.containers[job].pod.id
        wait_until(lambda: file(node, of_pod, name) == ours, 20, "our weight")
        node.tree.write(node.runtime.pods[of_pod].cgroup, *node.tree.weight(307))
        wait_until(lambda: file(node, of_pod, name) == ours, 20, "our weight again")
        resize(node, job, 300)
        assert not poll(lambda: daemon.audit("drift.repair"), 1)
        assert_unhurt(daemon)


class TestClassByRequest:
    """The gate admits class dedicated by the pod's CPU request, which a resize changes both ways."""

    def resized(self, node: Node, container_id: str, milli: int) -> None:
        """Resize a pod of one container: the kubelet writes the larger pod's cgroup first, the smaller one last."""
        pod_id = node.runtime.containers[container_id].pod.id
        shares = native(milli).shares or 2
        if milli >= 1000:
            node.tree.write(node.runtime.pods[pod_id].cgroup, *node.tree.weight(shares))
        resize(node, container_id, milli)
        node.resize_pod(pod_id, shares)

    def denied(self, node: Node) -> str:
        """Return a container of a pod that asks for class dedicated and requests half a CPU."""
        pod_id = pod(node, "web", "dedicated", milli=500)
        return node.run_container(pod_id, ContainerRequest("app", native(500)))

    def class_of(self, daemon: Daemon, container_id: str) -> str:
        found: str = next(c["class"] for c in daemon.state()["containers"] if c["id"] == container_id)
        return found

    def test_a_denied_pod_owns_cpus_after_its_resize(self, node, daemon):
        neighbour, web = shared(node), self.denied(node)
        assert (self.class_of(daemon, web), on(node, web)) == ("shared", "0-7")
        self.resized(node, web, 2000)
        assert (self.class_of(daemon, web), on(node, web), in_spec(node, web)) == ("dedicated", "0-1", "0-1")
        assert on(node, neighbour) == "2-7"
        assert_unhurt(daemon)

    @pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
    def test_a_pod_below_the_minimum_returns_its_cpus(self, tmp_path: Path, cgroup: int):
        """Runtimes from 2.2 on report the resize of a pod."""
        with Node(tmp_path, cgroup=cgroup, runtime_version="2.4.0") as node, daemon_of(node) as daemon:
            served(daemon)
            neighbour, web = shared(node), dedicated(node)
            assert on(node, web) == "0-1"
            self.resized(node, web, 500)
            wait_until(lambda: self.class_of(daemon, web) == "shared", 20, "the class without the annotation")
            wait_until(lambda: on(node, web) == on(node, neighbour) == "0-7", 20, "the CPUs to return")
            assert daemon.audited("annotation.denied", container_id=web)["value"] == "dedicated"
            assert_unhurt(daemon)
