"""The daemon beside a kubelet that pins containers too, and the commands that ask it (issue B, parts 8 and 9)."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import Resources
from nri_coloc.host import kubelet
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import (
    ON_V2,
    assert_unhurt,
    daemon_of,
    dedicated,
    pod,
    reclaimed,
    served,
    shared,
)
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

PRESERVE = "node: {kubeletCPUManager: preserve-kubelet}\n"
Entries = Mapping[str, Mapping[str, str]]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=request.param) as node:
        yield node


def keep(node: Node, entries: Entries, policy: str = "static") -> None:
    """Replace the state file whole, as the kubelet does."""
    write(node, json.dumps({"policyName": policy, "defaultCpuSet": "0", "entries": entries, "checksum": 1}))


def write(node: Node, text: str) -> None:
    path = Path(kubelet.files(str(node.host_root))[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").replace(path)


def pools(daemon: Daemon) -> dict[str, str]:
    return {name: pool["cpus"] for name, pool in daemon.state()["pools"].items()}


def share_is(daemon: Daemon, cpus: str) -> None:
    wait_until(lambda: pools(daemon)["share"] == cpus, 20, f"share to be {cpus}")


def pinned(node: Node, cpus: str = "2-3", name: str = "guaranteed") -> str:
    """Run a pod that the kubelet has pinned: it names the CPUs at creation."""
    sandbox = node.run_pod(PodRequest(name, "shop"))
    keep(node, {node.runtime.pods[sandbox].uid: {"app": cpus}})
    return sandbox


@ON_V2
def test_a_static_manager_is_refused_until_it_is_mended(node):
    keep(node, {})
    with daemon_of(node) as daemon:
        served(daemon)
        said = daemon.check("config")
        assert said["ok"] is False
        assert "--cpu-manager-policy=none" in said["detail"]
        assert "preserve-kubelet" in said["detail"]
        keep(node, {}, policy="none")
        daemon.wait_ready()
        assert_unhurt(daemon)


def test_under_refusal_its_pins_are_left_alone(node):
    with daemon_of(node) as daemon:
        served(daemon)
        neighbour = shared(node)
        sandbox = pinned(node)
        container = node.run_container(sandbox, ContainerRequest("app", PINNED))
        assert node.cpus(container) == cpuset.parse("2-3")
        assert spec_cpus(node, container) == "2-3"
        assert pools(daemon)["share"] == "0-1,4-7"
        wait_until(lambda: node.cpus(neighbour) == cpuset.parse("0-1,4-7"), 20, "the neighbour to leave")
        assert daemon.check("config")["ok"] is False
        assert_unhurt(daemon)


def test_a_reload_to_preserve_takes_its_cpus_out_of_every_pool(node):
    keep(node, {"uid": {"app": "2-3"}})
    with daemon_of(node) as daemon:
        served(daemon)
        neighbour, batch = shared(node), reclaimed(node)
        daemon.config.write(PRESERVE)
        share_is(daemon, "0-1,4-7")
        assert set(pools(daemon).values()) == {"", "0-1,4-7"}
        assert daemon.state()["node"]["kept_by_kubelet"] == "2-3"
        wait_until(lambda: node.cpus(neighbour) == cpuset.parse("0-1,4-7"), 20, "the neighbour to leave")
        wait_until(lambda: node.cpus(batch) == cpuset.parse("0-1,4-7"), 20, "the reclaim pool to leave")
        daemon.wait_ready()
        assert_unhurt(daemon)


def test_a_dedicated_container_makes_room_and_keeps_away(node):
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        web = dedicated(node, "web")
        assert node.cpus(web) == cpuset.parse("0-1")
        keep(node, {"uid": {"app": "0-1"}})
        wait_until(lambda: node.cpus(web) == cpuset.parse("2-3"), 20, "the dedicated container to make room")
        second = dedicated(node, "second")
        assert node.cpus(second) == cpuset.parse("4-5")
        keep(node, {})
        share_is(daemon, "0-1,6-7")
        assert node.cpus(web) == cpuset.parse("2-3")
        assert_unhurt(daemon)


def test_what_the_kubelet_has_pinned_is_left_where_it_is(node):
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        sandbox = pinned(node)
        share_is(daemon, "0-1,4-7")
        resources = Resources(shares=2048, quota=200_000, period=100_000, cpus="2-3")
        container = node.run_container(sandbox, ContainerRequest("app", resources))
        assert node.cpus(container) == cpuset.parse("2-3")
        daemon.audited("container.admit", container="app", reason="hands_off")
        assert daemon.container(container)["cpus"] == "2-3"
        node.runtime.update(container, Resources(cpus="2-3"))
        assert node.cpus(container) == cpuset.parse("2-3")
        assert_unhurt(daemon)


@ON_V2
def test_a_torn_state_file_takes_nothing_back_and_is_told(node):
    keep(node, {"uid": {"app": "2-3"}})
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        write(node, "{")
        wait_until(lambda: not daemon.check("config").get("ok", True), 20, "the problem to be reported")
        assert "CPUs 2-3" in daemon.check("config")["detail"]
        assert pools(daemon)["share"] == "0-1,4-7"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "nri_coloc", *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)


@ON_V2
def test_the_commands_show_what_the_daemon_knows(node):
    with daemon_of(node) as daemon:
        served(daemon)
        dedicated(node, "web", 2000, **{"coloc.nri.io/io-weight": "heavy"})
        daemon.audited("container.admit", pod="web")
        daemon.audited("annotation.invalid", pod="web")
        http = f"127.0.0.1:{daemon._port}"

        told = command("explain", "shop/web", "--http", http)
        assert told.returncode == 0, told.stderr
        assert "shop/web/app  class dedicated, pool dedicated, CPUs 0-1 (its own)" in told.stdout
        assert "       0     4            2  chosen\n" in told.stdout
        assert "coloc.nri.io/io-weight='heavy' cannot be read" in told.stdout

        drawn = command("topology", "--host-root", str(node.host_root), "--http", http)
        assert "shop/web/app  0-1\n" in drawn.stdout

        daemon.wait_ready()
        sockets = ["--nri-socket", str(node.nri_socket), "--cri-socket", str(node.cri_socket)]
        flags = [*sockets, "--host-root", str(node.host_root), "--state-dir", str(daemon.state_dir)]
        seen = command("doctor", "--http", http, *flags)
        assert seen.returncode == 0, seen.stdout
        assert "it is ready" in seen.stdout
        keep(node, {})
        wait_until(lambda: not daemon.check("config").get("ok", True), 20, "the problem to be reported")
        assert command("doctor", "--http", http, *flags).returncode == 1


@ON_V2
def test_a_request_that_could_not_be_met_has_its_candidates_too(node):
    with daemon_of(node) as daemon:
        served(daemon)
        sandbox = pod(node, "huge", "dedicated")
        node.run_container(sandbox, ContainerRequest("app", native(8000, 8000)))
        admitted = daemon.audited("container.admit", pod="huge")
        assert admitted["reason"] == "no_free_cpus"
        assert [c["verdict"] for c in admitted["candidates"]] == ["4 CPUs are free, 8 are asked for"] * 2


PINNED = Resources(shares=2048, quota=200_000, period=100_000, cpus="2-3")


def spec_cpus(node: Node, container: str) -> str:
    return node.runtime.containers[container].resources.cpu.cpus


@pytest.mark.parametrize("reconciled", [False, True], ids=["at once", "after a reconcile"])
def test_a_pin_that_was_overwritten_is_given_back(node, reconciled):
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        sandbox = node.run_pod(PodRequest("guaranteed", "shop"))
        container = node.run_container(sandbox, ContainerRequest("app", PINNED))
        assert spec_cpus(node, container) == "0-7"
        if reconciled:
            node.runtime.update(container, Resources(cpus="2-3"))
        keep(node, {node.runtime.pods[sandbox].uid: {"app": "2-3"}})
        wait_until(lambda: node.cpus(container) == cpuset.parse("2-3"), 20, "its file to have the pin")
        wait_until(lambda: spec_cpus(node, container) == "2-3", 20, "its specification to have the pin")
        assert_unhurt(daemon)


@ON_V2
def test_a_pin_that_was_given_back_yields_to_the_next(node):
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        sandbox = node.run_pod(PodRequest("guaranteed", "shop"))
        container = node.run_container(sandbox, ContainerRequest("app", PINNED))
        keep(node, {node.runtime.pods[sandbox].uid: {"app": "2-3"}})
        wait_until(lambda: spec_cpus(node, container) == "2-3", 20, "its specification to have the pin")
        node.runtime.update(container, Resources(cpus="4-5"))
        keep(node, {node.runtime.pods[sandbox].uid: {"app": "4-5"}})
        share_is(daemon, "0-3,6-7")
        assert node.cpus(container) == cpuset.parse("4-5")
        assert spec_cpus(node, container) == "4-5"


@ON_V2
def test_a_state_file_counts_from_its_pods_start(node):
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        request = PodRequest("guaranteed", "shop")
        node.tree.make(request.cgroup_parent("uid").lstrip("/"))
        keep(node, {"uid": {"app": "2-3"}})
        node.runtime.run_pod(request, "uid")
        assert pools(daemon)["share"] == "0-1,4-7"


@ON_V2
def test_a_state_file_counts_from_a_creation_that_names_cpus(node):
    with daemon_of(node, config=PRESERVE) as daemon:
        served(daemon)
        sandbox = pinned(node)
        container = node.run_container(sandbox, ContainerRequest("app", PINNED))
        assert spec_cpus(node, container) == "2-3"
        assert node.cpus(container) == cpuset.parse("2-3")
        assert_unhurt(daemon)
