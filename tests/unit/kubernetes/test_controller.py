"""The controller's parts: the end of a thread, and a limited log."""

from threading import Event, Thread
from typing import Any

import pytest

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.settings import Tuning
from nri_coloc.kubernetes.controller import Controller
from nri_coloc.kubernetes.eviction import EVICTED, Order, Rules
from nri_coloc.kubernetes.presets import DEFAULT
from tests.rig.waiting import wait_until
from tests.unit.kubernetes.fake_api import Reply, serving
from tests.unit.kubernetes.kit import running_threads
from tests.unit.kubernetes.test_api import items
from tests.unit.kubernetes.test_serving import Lines

ORDER = Order("o1", "jobs", "render", "u1", 0.0)
EXPIRED = Result("o1", Outcome.UNREACHABLE, "expired")
ACCEPTED = Result("o1", Outcome.ACCEPTED, EVICTED)


@pytest.fixture
def log() -> Any:
    return Lines()


@pytest.fixture
def controller(tmp_path, log):
    with serving(tmp_path, lambda _: Reply()) as server:
        yield a_controller(server, log)


def a_controller(server, log):
    return Controller(
        server.connect(),
        identity="a",
        rules=lambda: Rules(may_evict=True, tuning=Tuning()),
        preset=lambda: DEFAULT,
        log=log,
    )


def test_an_ended_thread_ends_the_controller(controller, log, monkeypatch):
    stop = Event()
    for part in (controller._watch, controller._executor, controller._leadership):
        monkeypatch.setattr(part, "run", Event.wait)
    monkeypatch.setattr(controller._reaper, "run", lambda _: None)
    thread = Thread(target=controller.run, args=(stop,))
    thread.start()
    thread.join(5)
    has_ended = stop.is_set()
    stop.set()
    thread.join()
    assert has_ended
    assert "the thread reaper has ended" in controller.problem()
    assert "ends to start again" in str(log.lines)


def test_no_thread_outlives_the_controller(tmp_path, log):
    def answers(asked):
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
        held = Reply(lines=(bookmark,), holds=True)
        return held if "watch" in asked.query else Reply(body=items("a"))

    stop = Event()
    with serving(tmp_path, answers) as server:
        controller = a_controller(server, log)
        thread = Thread(target=controller.run, args=(stop,))
        thread.start()
        wait_until(lambda: controller._watch._version == "8", 5, "a change of the watch")
        stop.set()
        thread.join()
        wait_until(lambda: not running_threads({"watch", "executor", "reaper"}), 5, "no thread")
    assert "failed" not in str(log.lines)


def test_a_flood_of_orders_is_not_logged(controller, log):
    for _ in range(200):
        controller._carried("a", ORDER, EXPIRED)
    assert len(log.lines) < 20


@pytest.mark.parametrize("part", ["_executor", "_reaper"])
def test_a_flood_of_problems_is_not_logged(controller, log, part):
    for _ in range(200):
        getattr(controller, part)._problems.broken("no answer")
    assert 0 < len(log.lines) < 20


def test_each_eviction_is_logged(controller, log):
    for _ in range(200):
        controller._carried("a", ORDER, EXPIRED)
    log.lines.clear()
    controller._carried("a", ORDER, ACCEPTED)
    assert len(log.lines) == 1


@pytest.mark.parametrize(
    ("problem", "because"),
    [("PUT: no answer", "PUT: no answer"), ("", "another replica")],
    ids=["away", "taken"],
)
def test_a_lost_lease_is_logged_with_its_cause(controller, log, problem, because):
    controller._leadership.problem = problem
    controller._led(False)
    assert because in log.lines[-1][1]["because"]
