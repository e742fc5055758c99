"""Eviction orders of the daemon as its own process, beside a simulated node and a companion that a test plays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.cli.main import main
from nri_coloc.kubernetes.client import DaemonLink
from tests.integration.harness import reclaimed, served
from tests.integration.test_companion_socket import CONFIG, HELLO, LENDING, SOON_S, daemon
from tests.rig.daemon import Daemon
from tests.rig.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cluster" / "cluster.sock"


@contextmanager
def controlled(path: Path, result: pb.Result) -> Iterator[list[pb.Order]]:
    """Run a companion whose controller gives each order the same result; yield the orders."""
    wait_until(path.exists, SOON_S, "the socket")
    orders: list[pb.Order] = []
    ended = Event()

    def carry() -> None:
        link = DaemonLink(str(path), PATIENCE_SECONDS)
        link.call("Hello", HELLO, pb.HelloResponse, PATIENCE_SECONDS)
        while not ended.is_set():
            found = link.call("Next", pb.NextRequest(), pb.NextResponse, PATIENCE_SECONDS).orders
            orders.extend(found)
            results = [
                pb.Result(order_id=each.id, outcome=result.outcome, detail=result.detail) for each in found
            ]
            if results:
                link.call(
                    "ReportResults",
                    pb.ReportResultsRequest(results=results),
                    pb.ReportResultsResponse,
                    PATIENCE_SECONDS,
                )
        link.close()

    thread = Thread(target=carry)
    thread.start()
    try:
        yield orders
    finally:
        ended.set()
        thread.join(SOON_S)


def admin(running: Daemon, *arguments: str) -> int:
    return main(["admin", *arguments, "--admin-socket", str(running.folder / "admin" / "admin.sock")], {})


BUDGET = pb.Result(outcome=pb.OUTCOME_BUDGET, detail="The disruption budget needs 1 healthy pod")
ACCEPTED = pb.Result(outcome=pb.OUTCOME_ACCEPTED, detail="the API server accepted the eviction")


def test_an_operator_reads_the_budgets_words(node_v2, path, capsys):
    with daemon(node_v2, path, CONFIG + LENDING) as running, controlled(path, BUDGET) as orders:
        served(running)
        reclaimed(node_v2, "batch")
        wait_until(
            lambda: admin(running, "evict", "shop/batch", "--reason", "why") == 1 and orders,
            SOON_S,
            "a result",
        )
    assert "shop/batch was not evicted: The disruption budget needs 1 healthy pod" in capsys.readouterr().err
    assert [(each.eviction.pod, each.eviction.text) for each in orders] == [("batch", "why")]


def test_a_drain_orders_evictions(node_v2, path, capsys):
    with daemon(node_v2, path, CONFIG + LENDING) as running, controlled(path, ACCEPTED) as orders:
        served(running)
        reclaimed(node_v2, "batch")
        drain = ("lending", "off", "--drain", "--grace", "0s")
        wait_until(lambda: admin(running, *drain) == 1 and orders, SOON_S, "an order")
        wait_until(lambda: said(admin(running, *drain), capsys), SOON_S, "the end of the order")
    assert [each.eviction.by_operator for each in orders] == [True]


def said(_code: int, capsys: pytest.CaptureFixture[str]) -> bool:
    return "shop/batch: the pod's eviction was accepted; its grace period runs" in capsys.readouterr().out
