"""Every NRI version has one node and one daemon, shared by its tests; the node's runtime is the Go program.

On a fresh machine the compiler needs three minutes for all versions. It begins beside the first test that allows a
compiler. If no Go compiler can be had, the tests are skipped with the reason; under CI=true that is a failure.
"""

from collections.abc import Iterator
from threading import Thread

import pytest

from tests.integration.harness import Lasting, daemon_of, served
from tests.rig import RigError, go_programs
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.go_programs import EDITIONS, Edition
from tests.rig.order import bears_a_machine


class Ahead:
    """Compile beside the first test that allows it, as a plugin of pytest."""

    def __init__(self) -> None:
        self._compiling = Thread(target=go_programs.build_all, name="go-build", daemon=True)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Start the compiler; a test whose program is not built yet waits for the lock of the cache."""
        if bears_a_machine(item) and self._compiling.ident is None:
            self._compiling.start()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Register the compiler if any chosen test needs a version."""
    if any("edition" in getattr(item, "fixturenames", ()) for item in session.items):
        session.config.pluginmanager.register(Ahead(), "conformance-ahead")


@pytest.fixture(scope="session", params=EDITIONS, ids=[f"nri-{edition.nri}" for edition in EDITIONS])
def edition(request: pytest.FixtureRequest) -> Edition:
    """Return a version whose programs are built."""
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
    """Return an empty node whose daemon serves."""
    found = lasting.emptied()
    assert isinstance(found, GoNode)
    return found


@pytest.fixture
def daemon(node: GoNode, lasting: Lasting) -> Daemon:
    return lasting.daemon
