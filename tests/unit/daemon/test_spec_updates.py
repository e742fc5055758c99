"""Which call changes a spec: the relay where NRI's own could wedge the runtime, else NRI's own."""

from threading import Thread
from typing import Any

import pytest

from nri_coloc.daemon import own_calls
from nri_coloc.daemon.own_calls import OwnCalls
from nri_coloc.daemon.spec_updates import SpecUpdates
from nri_coloc.errors import RuntimeRefused, TransportLost
from nri_coloc.model.knobs import Knobs
from nri_coloc.nri.events import RuntimeAnswered

CHANGES = Knobs(cpus="0-3", quota=50_000, memory_limit=1 << 20)


class Both:
    """Stands for CRI and for NRI's connection."""

    def __init__(self, *, safe: bool) -> None:
        self.updates_are_safe = safe
        self.relayed: list[tuple[str, Knobs]] = []
        self.updated: list[Any] = []

    def push(self, container_id: str, changes: Knobs) -> None:
        self.relayed.append((container_id, changes))

    def update_container(self, update) -> None:
        self.updated.append(update)


def pushed(both: Both) -> Both:
    updates = SpecUpdates(both)
    updates.native = both
    updates.push("app", CHANGES)
    return both


def test_where_native_updates_could_wedge_the_runtime_the_relay_is_taken():
    both = pushed(Both(safe=False))
    assert (both.relayed, both.updated) == ([("app", CHANGES)], [])


def test_where_they_are_safe_they_are_taken_and_a_failure_is_told():
    both = pushed(Both(safe=True))
    (update,) = both.updated
    assert both.relayed == []
    assert (update.container_id, update.ignore_failure) == ("app", False)
    assert update.linux.resources.cpu.cpus == "0-3"
    assert update.linux.resources.cpu.quota.value == 50_000
    assert update.linux.resources.memory.limit.value == 1 << 20


def test_before_there_is_a_connection_the_relay_serves():
    both = Both(safe=True)
    SpecUpdates(both).push("app", CHANGES)
    assert both.relayed == [("app", CHANGES)]


class TestWaitingForTheAnswer:
    def wait(self, calls: OwnCalls, answer) -> BaseException | None:
        waiting = calls.expect(3)
        heard: list[BaseException | None] = []

        def run() -> None:
            try:
                own_calls.outcome(waiting)
            except (RuntimeRefused, TransportLost) as error:
                heard.append(error)
            else:
                heard.append(None)

        thread = Thread(target=run)
        thread.start()
        answer()
        thread.join(30)
        return heard[0]

    def test_a_yes_ends_it(self):
        calls = OwnCalls()
        assert self.wait(calls, lambda: calls.answered(RuntimeAnswered(3, 0, "", b""))) is None

    def test_a_no_is_the_runtimes_refusal(self):
        calls = OwnCalls()
        error = self.wait(calls, lambda: calls.answered(RuntimeAnswered(3, 2, "some failed", b"")))
        assert isinstance(error, RuntimeRefused)
        assert "some failed" in str(error)

    def test_the_end_of_the_connection_ends_it(self):
        calls = OwnCalls()
        assert isinstance(self.wait(calls, calls.lost), TransportLost)

    def test_an_answer_that_nobody_waits_for_is_dropped(self):
        calls = OwnCalls()
        waiting = calls.expect(3)
        calls.answered(RuntimeAnswered(5, 0, "", b""))
        assert not waiting.done()
        calls.lost()
        with pytest.raises(TransportLost):
            own_calls.outcome(waiting)
