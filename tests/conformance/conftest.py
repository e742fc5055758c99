"""Every NRI version: one node and one daemon for each, shared by its tests, whose runtime is the Go program.

On a fresh machine the compiler needs three minutes for all versions: it has them beside the soak, if that is run too.
Where no Go compiler can be had the tests are named as left out; under CI=true that is a failure.
"""

from collections.abc import Iterator
from threading import Thread

import pytest

from tests.integration.harness import Lasting, daemon_of, served
from tests.rig import RigError, go_programs
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.go_programs import EDITIONS, Edition
from tests.rig.order import is_lasting


class Ahead:
    """A plugin of pytest: compiles beside the first test that lasts."""

    def __init__(self) -> None:
        self._compiling = Thread(target=go_programs.build_all, name="go-build", daemon=True)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before each test; whoever needs a program that is not built yet waits for the lock of the cache."""
        if is_lasting(item) and self._compiling.ident is None:
            self._compiling.start()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Only now is it known whether any version is played."""
    if any("edition" in getattr(item, "fixturenames", ()) for item in session.items):
        session.config.pluginmanager.register(Ahead(), "conformance-ahead")


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
