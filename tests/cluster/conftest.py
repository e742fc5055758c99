"""Fixtures of the tests on a real Kubernetes node: one cluster for each pair of versions, shared by all modules."""

import os
from collections.abc import Generator, Iterator

import pytest

from tests.cluster import programs
from tests.cluster.binaries import MATRIX, PAIRS, Pair, in_time
from tests.cluster.cluster import Cluster, bring_up
from tests.cluster.colocation import COMPANION, CONTROLLER, LAVISH, Colocation
from tests.cluster.product import NAME, NAMESPACE, Product, missing_capabilities
from tests.cluster.running import Pods

LOG_LINES = 100
LEFT_OUT = pytest.StashKey[tuple[Pair, ...]]()


def pair_of(item: pytest.Item) -> Pair | None:
    """Return the pair of versions that a test is played on; None if it is another test."""
    call = getattr(item, "callspec", None)
    found = call.params.get("pair") if call else None
    return found if isinstance(found, Pair) else None


def wanted(config: pytest.Config) -> tuple[Pair, ...]:
    """Return the pairs to test: all combinations with MATRIX=full, in a tier the pairs of `in_time`."""
    if os.environ.get("MATRIX") == "full":
        return MATRIX
    return in_time() if config.getoption("--tier") else PAIRS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the pairs that it is played on.

    A module with `ONLY_NEWEST` is played on the newest alone. So is a module with `NEWEST_IN_A_TIER` by the commands of
    tiers: it is about plugin and runtime, not about the kubelet's version. `make test-cluster` plays it on all pairs.
    """
    if "pair" in metafunc.fixturenames:
        pairs = wanted(metafunc.config)
        is_short = metafunc.config.getoption("--tier") and getattr(metafunc.module, "NEWEST_IN_A_TIER", False)
        if is_short or getattr(metafunc.module, "ONLY_NEWEST", False):
            pairs = pairs[-1:]
        metafunc.parametrize("pair", pairs, ids=str, indirect=True, scope="session")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to compile what the chosen tests need, and note the pairs of versions that are left out."""
    chosen = {pair for item in session.items if (pair := pair_of(item))}
    if not chosen or os.geteuid() != 0 or session.config.option.collectonly:
        return
    pairs = wanted(session.config)
    session.config.stash[LEFT_OUT] = tuple(pair for pair in PAIRS if pair not in pairs)
    ahead = programs.Ahead(tuple(pair for pair in pairs if pair in chosen))
    session.config.pluginmanager.register(ahead, "cluster-ahead")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the pairs of versions that were left out, and the capabilities that the DaemonSet has not here."""
    left_out = config.stash.get(LEFT_OUT, None)
    if left_out is None:
        return
    for pair in left_out:
        terminalreporter.write_line(f"left out: {pair}, not compiled yet: `make test-cluster` compiles it")
    for name in missing_capabilities():
        terminalreporter.write_line(f"not granted to the DaemonSet: {name}, which root lacks on this machine")


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest) -> Pair:
    if os.geteuid() != 0:
        pytest.skip("a real Kubernetes node needs root")
    found: Pair = request.param
    programs.prepare(found)
    return found


@pytest.fixture(scope="session")
def shared_cluster(pair: Pair) -> Iterator[Cluster]:
    cluster = bring_up(pair)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def shared_product(shared_cluster: Cluster) -> Product:
    product = Product(shared_cluster)
    product.install()
    return product


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Return the running cluster of this pair, with the DaemonSet if a test also asks for `product`."""
    return shared_cluster


@pytest.fixture
def product(shared_product: Product, cluster: Cluster) -> Product:
    """Return the daemon as the DaemonSet of deploy/daemonset.yaml alone, ready."""
    shared_product.stand_alone()
    return shared_product


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, shared_cluster: Cluster, shared_product: Product) -> Colocation:
    found = Colocation(shared_cluster, shared_product, getattr(request.module, "DAEMON_PROGRAM", LAVISH))
    found.install()
    return found


@pytest.fixture
def colocation(installed: Colocation, cluster: Cluster) -> Colocation:
    """Return daemon, companion and controller, ready, on an open node; a failed test may have switched lending off."""
    installed.lend()
    installed.wait_ready()
    return installed


@pytest.fixture
def pods(cluster: Cluster) -> Iterator[Pods]:
    """Yield the pods of this test; they are deleted when it ends."""
    found = Pods(cluster)
    yield found
    found.remove_all()


def logs_of(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield a title and the end of the log of each of the product's pods, with that of the process before it."""
    for workload in (f"daemonset/{NAME}", f"daemonset/{COMPANION}", f"deployment/{CONTROLLER}"):
        for which in ((), ("--previous",)):
            words = ("logs", f"--namespace={NAMESPACE}", workload, f"--tail={LOG_LINES}", *which)
            if text := cluster.told(*words):
                yield " ".join((workload, *which)), text


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show below a failure the pods, events, answers of the daemon and the end of every program's log, as they are now.

    The fixtures that were made are in `funcargs`, also where a later one failed.
    """
    report = yield
    cluster = (getattr(item, "funcargs", None) or {}).get("shared_cluster")
    if report.failed and isinstance(cluster, Cluster):
        report.sections.append(("the node's logs", cluster.words()))
        report.sections.append(("pods, events and node", cluster.scene()))
        report.sections.append(("the daemon's answers", Product(cluster).answers()))
        report.sections += [(f"the log of {title}", text) for title, text in logs_of(cluster)]
    return report
