"""Fixtures of the tests on a real containerd: one containerd for each version, shared by tests.

The parameter `version` groups tests, so that one containerd runs at a time. `make test` plays the newest version, `make
test-all` every version; a test marked `tests.rig.versions.ON_THE_NEWEST` runs on the newest alone. A test finds its
containerd without pods and leaves it without pods; a wedged containerd is replaced. At the very end no remains may be
left on the machine.
"""

import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from tests.rig import RigError, cleanup, versions
from tests.rig.configuration import NEWEST, VERSIONS, Options, Version
from tests.rig.containerd import Containerd, bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector

LOG = pytest.StashKey[Containerd]()
VERSIONS_FOUND = pytest.StashKey[dict[str, str]]()
_LOG = logging.getLogger(__name__)

PLAYED = [
    pytest.param(
        version, id=f"containerd-{version}", marks=[] if version == NEWEST else [pytest.mark.tier("all")]
    )
    for version in VERSIONS
]


@pytest.fixture(scope="session")
def brought_up() -> Iterator[list[Containerd]]:
    """Yield every containerd of this session; at the end all of them must be gone without remains."""
    made: list[Containerd] = []
    yield made
    for containerd in made:
        for traces in containerd.stopped:
            assert cleanup.leftovers(traces) == []


@pytest.fixture(scope="session", params=PLAYED)
def version(request: pytest.FixtureRequest) -> Version:
    if os.geteuid() != 0:
        pytest.skip("a real containerd needs root")
    found: Version = request.param
    return found


@pytest.fixture(scope="session")
def shared_containerd(
    version: Version, brought_up: list[Containerd], request: pytest.FixtureRequest
) -> Iterator[Containerd]:
    containerd = bring_up(version)
    brought_up.append(containerd)
    request.config.stash.setdefault(VERSIONS_FOUND, {}).update(versions.record(containerd))
    yield containerd
    containerd.stop()


@pytest.fixture
def containerd(shared_containerd: Containerd, request: pytest.FixtureRequest) -> Iterator[Containerd]:
    """Yield the running containerd of this version; a test may kill it and start it again."""
    request.node.stash[LOG] = shared_containerd
    yield shared_containerd
    _without_pods(shared_containerd)


@pytest.fixture
def cri(containerd: Containerd) -> Iterator[Cri]:
    with containerd.cri() as client:
        yield client


@pytest.fixture
def inspector(cri: Cri) -> Iterator[Inspector]:
    """Yield an inspector, which checks the invariants of the containers that it runs."""
    with Inspector(cri) as found:
        yield found


@pytest.fixture
def own_containerd(
    version: Version, brought_up: list[Containerd], request: pytest.FixtureRequest
) -> Iterator[Callable[[Options], Containerd]]:
    """Yield a function from options to a running containerd, for a test with a configuration of its own."""
    with ExitStack() as mine:

        def up(options: Options) -> Containerd:
            containerd = bring_up(version, options)
            mine.callback(containerd.stop)
            brought_up.append(containerd)
            request.node.stash[LOG] = containerd
            return containerd

        yield up


@pytest.fixture(scope="module")
def shared_daemon(shared_containerd: Containerd) -> Iterator[Daemon]:
    daemon = Daemon(shared_containerd)
    yield daemon
    found = daemon.broken_records()
    daemon.close()
    assert found == []


@pytest.fixture
def daemon(containerd: Containerd, shared_daemon: Daemon) -> Daemon:
    """Return a synchronised daemon with the defaults, shared by a module's tests; for kills use `own_daemon`."""
    if not shared_daemon.is_fit:
        shared_daemon.kill()
        shared_daemon.start()
        shared_daemon.wait_synchronised()
    return shared_daemon


@pytest.fixture
def own_daemon(containerd: Containerd, shared_daemon: Daemon) -> Iterator[Callable[..., Daemon]]:
    """Yield a function from Daemon's arguments to a synchronised daemon, for a test with other settings or kills."""
    shared_daemon.kill()  # there is one daemon on a node
    with ExitStack() as stack:

        def up(**settings: Any) -> Daemon:
            daemon = stack.enter_context(Daemon(containerd, **settings))
            daemon.wait_synchronised()
            return daemon

        yield up


def _without_pods(containerd: Containerd) -> None:
    try:
        if containerd.pid is None:
            containerd.start()
        with containerd.cri() as cri:
            cri.remove_all()
    except (RigError, grpc.RpcError) as error:
        _LOG.warning("containerd is replaced, for its pods could not be removed: %s", error)
        containerd.rebuild()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of containerd's log below a failure."""
    report = yield
    containerd = item.stash.get(LOG, None)
    if report.failed and containerd is not None:
        report.sections.append(("containerd's log", containerd.log_tail()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the versions that passed or failed."""
    for name, found in sorted(config.stash.get(VERSIONS_FOUND, {}).items()):
        terminalreporter.write_line(f"{name}: {found}")
