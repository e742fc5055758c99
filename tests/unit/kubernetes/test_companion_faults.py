"""Faults around a companion: a second one, another version, a node made again, set clocks, a storm of 429."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from nri_coloc.kubernetes.companion import Companion, Own
from nri_coloc.kubernetes.event_writer import EventWriter
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.kubernetes.session import Refusal, Session
from nri_coloc.ttrpc.status import Code
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.kubernetes.fake_api import Asked, FakeApi, Reply, serving
from tests.unit.kubernetes.test_companion import SOON_S, STATE, Node, running, serve, told, whole
from tests.unit.kubernetes.test_stores import node

HOUR_S = 3600.0


@pytest.fixture
def found(tmp_path):
    return Node(tmp_path)


@contextmanager
def companion_of(api: FakeApi, found: Node, name: str = "a") -> Iterator[Companion]:
    """Run a companion of a node whose socket is served."""
    companion = Companion(api.connect(), str(found.path), Own(name, "0.1.0"), log=found.log)
    thread = Thread(target=companion.run)
    thread.start()
    try:
        yield companion
    finally:
        companion.stop()
        thread.join()


def test_an_ended_thread_ends_the_companion(found, tmp_path, monkeypatch):
    monkeypatch.setattr(EventWriter, "run", lambda *_: None)
    with running(found, tmp_path) as run:
        run.thread.join(SOON_S)
        assert not run.thread.is_alive()
    assert "the thread events has ended" in str(found.log.lines)


def test_a_second_companion_takes_the_place_of_the_first(found, tmp_path):
    with running(found, tmp_path) as first:
        wait_until(lambda: found.patches, SOON_S, "a report")
        with companion_of(first.api, found) as second:
            wait_until(lambda: "another companion" in second.problem(), SOON_S, "a problem")
            wait_until(lambda: first.companion.problem() == "", SOON_S, "no problem of the first")
            first.companion.stop()
            wait_until(lambda: second.problem() == "", SOON_S, "a report of the second")


def test_another_protocol_is_told_until_it_fits(found, tmp_path, monkeypatch):
    def refused(*_args):
        raise Refusal(Code.FAILED_PRECONDITION, "protocol 2 is another one; run both from one image")

    monkeypatch.setattr(Session, "_hello", refused)
    with running(found, tmp_path) as run:
        wait_until(lambda: "run both from one image" in run.companion.problem(), SOON_S, "a problem")
        assert found.patches == []
        monkeypatch.undo()
        wait_until(lambda: found.patches, SOON_S, "a report")


class Watched(Node):
    """A node whose watch sends the lines that the test puts into `told`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told = Queue[tuple[Any, ...]]()

    def answers(self, asked: Asked) -> Reply:
        """Answer a watch of nodes with the next lines."""
        if asked.path.endswith("nodes") and "watch" in asked.query:
            return Reply(lines=self.told.get(timeout=PATIENCE_SECONDS))
        reply: Reply = super().answers(asked)
        return reply


@pytest.fixture
def watched(tmp_path):
    found = Watched(tmp_path)
    yield found
    found.told.put(())  # ends the last watch


def test_a_node_made_again_is_reported_again(watched, tmp_path):
    found = watched
    with running(found, tmp_path) as run:
        wait_until(lambda: found.patches, SOON_S, "a report")
        found.told.put(({"type": "DELETED", "object": node()},))
        wait_until(lambda: "no Node" in run.companion.problem(), SOON_S, "the missing node")
        reports = len(found.patches)
        found.object = node("n2")
        found.told.put(({"type": "ADDED", "object": found.object},))
        wait_until(lambda: len(found.patches) > reports, SOON_S, "another report")
        wait_until(lambda: run.companion.problem() == "", SOON_S, "no problem")


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])
def test_a_set_clock_delays_no_report(found, tmp_path, monkeypatch, step_s):
    now, step = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: now() + step[0])
    with running(found, tmp_path) as run:
        wait_until(lambda: found.patches and run.companion.problem() == "", SOON_S, "a report")
        step[0] = step_s
        found.state = STATE._replace(lending=Lending.OFF)
        wait_until(lambda: None in found.gates(), SOON_S, "a closed node")
        wait_until(lambda: run.companion.problem() == "", SOON_S, "no problem")


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S], ids=["forward", "back"])
def test_a_set_clock_moves_no_deletion(found, tmp_path, step_s):
    ends = datetime.fromtimestamp(time.time() - step_s + 60, UTC).isoformat(timespec="seconds")
    found.pods = [whole("a")]
    found.pods[0]["metadata"] |= {"deletionTimestamp": ends, "deletionGracePeriodSeconds": 600}
    with serving(tmp_path, found.answers) as api, ExitStack() as closes:
        closes.callback(serve(found).close)
        api.set_clock(-step_s)
        closes.enter_context(companion_of(api, found))
        wait_until(lambda: told(found, "a"), SOON_S, "facts")
        assert 60 - SOON_S < told(found, "a").killed_at - time.monotonic() < 65


class Cluster:
    """An API server of several nodes, which is busy at first. `refused`: the nodes whose companions it refused."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {f"n{number}": Node(folder / f"n{number}") for number in range(10)}
        self.is_busy = True
        self.refused: set[str] = set()

    def __call__(self, asked: Asked) -> Reply:
        [name] = set(
            re.findall(r"\bn[0-9]\b", f"{asked.path} {asked.query.get('fieldSelector')} {asked.body}")
        )
        if self.is_busy:
            self.refused.add(name)
            return Reply(429, {"message": "too many requests"}, headers=(("Retry-After", "1"),))
        reply: Reply = self.nodes[name].answers(asked)
        return reply


def test_ten_companions_outlast_a_storm_of_429(tmp_path):
    cluster = Cluster(tmp_path)
    with serving(tmp_path, cluster) as api, ExitStack() as ends:
        companions = []
        for name, each in cluster.nodes.items():
            ends.callback(serve(each).close)
            companions.append(ends.enter_context(companion_of(api, each, name)))
        wait_until(lambda: len(cluster.refused) == 10, SOON_S, "a refusal of each")
        cluster.is_busy = False
        wait_until(lambda: all(each.patches for each in cluster.nodes.values()), SOON_S, "all reports")
        wait_until(lambda: not any(each.problem() for each in companions), SOON_S, "no problem")
