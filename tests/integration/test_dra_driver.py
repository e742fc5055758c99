"""The daemon beside a plugin that sets the CPUs of every container, as the DRA CPU driver does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.workload import Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Hook
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import assert_unhurt, daemon_of, dedicated, pod, reclaimed, served, shared
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until
from tests.unit.sim.scripted_plugin import ScriptedPlugin

DRIVER = "runtime: {draCPUDriver: true}\n"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=request.param) as node:
        yield node


def all_cpus(_hook: Hook) -> Any:
    answer = nri_pb2.CreateContainerResponse()
    answer.adjust.linux.resources.cpu.cpus = "0-7"
    return answer


def pinning(node: Node, index: str) -> ScriptedPlugin:
    """Connect a plugin that gives every new container the CPUs 0-7."""
    plugin = ScriptedPlugin(node.nri_socket, {HookKind.CREATE_CONTAINER: all_cpus}, index=index)
    wait_until(lambda: f"{index}-scripted" in node.runtime.plugins.names, 20, "the plugin to be asked")
    return plugin


def _spec(node: Node, container: str) -> str:
    return node.runtime.containers[container].resources.cpu.cpus


@pytest.mark.parametrize("index", ["00", "90"])
def test_every_class_starts_and_has_its_cpus(node, index):
    with daemon_of(node, config=DRIVER) as daemon, pinning(node, index):
        served(daemon)
        web, neighbour, batch = dedicated(node), shared(node), reclaimed(node)
        assert node.cpus(web) == cpuset.parse("0-1")
        assert node.cpus(neighbour) == cpuset.parse("2-7")
        assert node.cpus(batch) == cpuset.parse("2-7")
        wait_until(lambda: _spec(node, web) == "0-1", 20, "the specification to follow")
        assert daemon.audit("drift.repair") == []
        assert daemon.audit("container.late") == []
        assert_unhurt(daemon)


def test_a_later_update_keeps_its_cpus(node):
    with daemon_of(node, config=DRIVER) as daemon, pinning(node, "00"):
        served(daemon)
        web = dedicated(node)
        node.runtime.update(web, Resources(shares=2048))
        assert node.cpus(web) == cpuset.parse("0-1")
        assert_unhurt(daemon)


def refused(node: Node, daemon: Daemon) -> str:
    served(daemon)
    with pytest.raises(RuntimeRefused, match="both tried to set CPU pinning"):
        dedicated(node)
    wait_until(lambda: not daemon.check("neighbours")["ok"], 20, "readiness to tell")
    return str(daemon.check("neighbours")["detail"])


@pytest.mark.parametrize("index", ["00", "90"])
def test_a_refusal_is_found_out_without_the_setting(node, index):
    with daemon_of(node) as daemon, pinning(node, index):
        assert "runtime.draCPUDriver: true" in refused(node, daemon)


def test_an_attempt_that_is_made_shows_another_cause(node):
    request = ContainerRequest("app", native(2000, 2000))
    with daemon_of(node) as daemon:
        served(daemon)
        sandbox = pod(node, "web", "dedicated")
        with pinning(node, "90"), pytest.raises(RuntimeRefused, match="both tried to set CPU pinning"):
            node.run_container(sandbox, request)
        wait_until(lambda: not daemon.check("neighbours")["ok"], 60, "readiness to tell")
        wait_until(lambda: "90-scripted" not in node.runtime.plugins.names, 60, "the other plugin to be gone")
        node.run_container(sandbox, request)
        wait_until(lambda: daemon.check("neighbours")["ok"], 60, "the check to pass again")


def test_an_unknown_class_shows_no_neighbour(node):
    with daemon_of(node) as daemon:
        served(daemon)
        sandbox = pod(node, "web", "dedicated", {"coloc.nri.io/blockio-class": "no-such-class"})
        with pinning(node, "90"), pytest.raises(RuntimeRefused, match="both tried to set CPU pinning"):
            node.run_container(sandbox, ContainerRequest("app", native(2000, 2000)))
        daemon.audited("container.release")
        assert daemon.check("neighbours")["ok"]


def test_a_registered_driver_is_found_out_without_the_setting(node):
    socket = node.host_root / "var/lib/kubelet/plugins_registry/dra.cpu-reg.sock"
    socket.parent.mkdir(parents=True)
    with daemon_of(node) as daemon:
        served(daemon)
        assert daemon.check("neighbours")["ok"] is True
        socket.touch()
        assert daemon.check("neighbours")["ok"] is False
        assert "runtime.draCPUDriver: true" in daemon.check("neighbours")["detail"]
        daemon.config.write(DRIVER)
        wait_until(lambda: daemon.check("neighbours")["ok"], 20, "the setting to be enough")
