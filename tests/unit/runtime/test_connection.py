"""runtime/connection.py: a call to the runtime waits for its answer, or for the end of the connection."""

import socket
from threading import Thread
from typing import cast

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import RuntimeRefused, TransportLost
from nri_coloc.nri.events import RuntimeAnswered
from nri_coloc.nri.session import Session
from nri_coloc.runtime.connection import Connection
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.parts import a_node, a_report

UPDATE = nri_pb2.ContainerUpdate(container_id="app")


class Registered:
    """Fake session that the runtime has registered; its calls have stream 3."""

    def register(self) -> bytes:
        return b""

    def update_containers(self, _updates: object, _timeout_nano: int) -> tuple[int, bytes]:
        return 3, b"update"


class Call:
    """An update of a container that a thread of its own has sent."""

    def __init__(self) -> None:
        self.connection = Connection(a_report(a_node())[0], once=False)
        self.sockets = socket.socketpair()
        self.connection.open(self.sockets[1], cast("Session", Registered()))
        self.outcome: list[BaseException | None] = []
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_until(lambda: self.connection._calls, PATIENCE_SECONDS, "the call")
        (self.stream,) = self.connection._calls

    def _run(self) -> None:
        try:
            self.connection.update_container(UPDATE)
        except (RuntimeRefused, TransportLost) as error:
            self.outcome.append(error)
        else:
            self.outcome.append(None)

    def ended(self) -> BaseException | None:
        self.thread.join(PATIENCE_SECONDS)
        for each in self.sockets:
            each.close()
        (found,) = self.outcome
        return found


def test_a_yes_ends_a_call():
    call = Call()
    call.connection.answered(RuntimeAnswered(call.stream, 0, "", b""))
    assert call.ended() is None


def test_a_no_is_the_runtimes_refusal():
    call = Call()
    call.connection.answered(RuntimeAnswered(call.stream, 2, "some failed", b""))
    error = call.ended()
    assert isinstance(error, RuntimeRefused)
    assert "some failed" in str(error)


def test_the_end_of_the_connection_ends_a_call():
    call = Call()
    call.connection.close()
    assert isinstance(call.ended(), TransportLost)


def test_an_unexpected_answer_is_dropped():
    call = Call()
    call.connection.answered(RuntimeAnswered(call.stream + 2, 0, "", b""))
    assert not call.outcome
    call.connection.close()
    assert isinstance(call.ended(), TransportLost)


def test_without_a_connection_a_call_fails():
    connection = Connection(a_report(a_node())[0], once=False)
    with pytest.raises(TransportLost, match="not connected"):
        connection.update_container(UPDATE)


@pytest.mark.parametrize(("once", "has"), [(False, True), (True, False)])
def test_a_launched_plugin_gets_no_second_list(once, has):
    connection = Connection(a_report(a_node())[0], once=once)
    theirs, ours = socket.socketpair()
    with theirs, ours:
        connection.open(ours, Session("coloc", "10"))
        assert connection.relist("a test") is has
