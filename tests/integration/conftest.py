"""A node and its daemon for many tests, on both versions of cgroups; a module that needs others makes its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_coloc.sim.node import Node
from tests.integration.harness import Lasting, daemon_of, served
from tests.rig.daemon import Daemon


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def lasting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    folder = tmp_path_factory.mktemp("lasting")
    with Node(folder, cgroup=request.param) as node, daemon_of(node) as daemon:
        yield Lasting(node, served(daemon))


@pytest.fixture
def node(lasting: Lasting) -> Node:
    """Return an empty node whose daemon serves; both are used by many tests."""
    return lasting.emptied()


@pytest.fixture
def daemon(node: Node, lasting: Lasting) -> Daemon:
    return lasting.daemon


@pytest.fixture
def node_v2(tmp_path: Path) -> Iterator[Node]:
    """Yield a node for one test, without a daemon."""
    with Node(tmp_path, cgroup=2) as node:
        yield node
