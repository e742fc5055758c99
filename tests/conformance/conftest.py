"""Every NRI version: one node and one daemon for each, shared by its tests, whose runtime is the Go program.

Where no Go compiler can be had the tests are named as left out; under CI=true that is a failure.
"""

from collections.abc import Iterator

import pytest

from tests.integration.harness import Lasting, daemon_of, served
from tests.rig import RigError, go_programs
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.go_programs import EDITIONS, Edition


@pytest.fixture(scope="session", params=EDITIONS, ids=[f"nri-{edition.nri}" for edition in EDITIONS])
def edition(request: pytest.FixtureRequest) -> Edition:
    """A version whose programs are there."""
    found: Edition = request.param
    try:
        go_programs.built(found)
    except RigError as error:
        pytest.skip(f"NRI {found.nri} through Go: {error}")
    return found


@pytest.fixture(scope="session")
def lasting(edition: Edition, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    folder = tmp_path_factory.mktemp(f"nri-{edition.nri}")
    with GoNode(folder, edition) as node, daemon_of(node) as daemon:
        yield Lasting(node, served(daemon))


@pytest.fixture
def node(lasting: Lasting) -> GoNode:
    """An empty node whose daemon serves."""
    found = lasting.emptied()
    assert isinstance(found, GoNode)
    return found


@pytest.fixture
def daemon(node: GoNode, lasting: Lasting) -> Daemon:
    return lasting.daemon
