"""A machine on which a test plays the runtime through its socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of
from tests.integration.hostile.kit import Lasting
from tests.rig.daemon import Daemon
from tests.rig.raw_runtime import RawPlugin, RawRuntime


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return the machine's files; its runtime is never started."""
    return Node(tmp_path, cgroup=1)


@pytest.fixture
def runtime(node: Node) -> Iterator[RawRuntime]:
    with RawRuntime(node.nri_socket) as runtime:
        yield runtime


@pytest.fixture
def daemon(node: Node, runtime: RawRuntime) -> Iterator[Daemon]:
    with daemon_of(node) as daemon:
        yield daemon


@pytest.fixture
def plugin(runtime: RawRuntime, daemon: Daemon) -> Iterator[RawPlugin]:
    with runtime.accept() as plugin:
        yield plugin.welcome()


@pytest.fixture(scope="module")
def the_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    node = Node(tmp_path_factory.mktemp("one"), cgroup=1)
    with (
        RawRuntime(node.nri_socket) as runtime,
        daemon_of(node) as daemon,
        runtime.accept() as plugin,
    ):
        yield Lasting(node, daemon, plugin.welcome())


@pytest.fixture
def lasting(the_one: Lasting) -> Lasting:
    """Return the one daemon, with an empty node."""
    the_one.plugin.synchronize()
    assert the_one.daemon.state()["containers"] == []
    return the_one
