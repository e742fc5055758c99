"""The session answers some calls by itself, sends calls of its own, and ends in order."""

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import LocalProtocolError, RemoteProtocolError
from nri_coloc.nri import calls, events, multiplexer
from nri_coloc.nri import session as sessions
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import State
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc.status import Code
from tests.unit.nri.pair import (
    CONTAINER,
    NEWEST,
    POD,
    RESOURCES,
    Pair,
    answers,
    raises_alike,
    request,
)

# ---- automatic answers ----


def test_an_unknown_method_is_unimplemented_by_name():
    pair = Pair().serve()
    assert pair.session.receive_data(request(101, "ValidateContainerAdjustment", b"")) == []
    refused = (101, Code.UNIMPLEMENTED, "method ValidateContainerAdjustment")
    assert answers(pair.session.data_to_send()) == [refused]


def test_an_unknown_service_is_unimplemented_by_name():
    pair = Pair().serve()
    assert pair.session.receive_data(request(101, "Configure", b"", service="grpc.health")) == []
    assert answers(pair.session.data_to_send()) == [(101, Code.UNIMPLEMENTED, "service grpc.health")]


@pytest.mark.parametrize("method", sorted(calls.REQUESTS))
def test_an_undecodable_payload_is_an_internal_error(method):
    pair = Pair().serve()
    assert pair.session.receive_data(request(101, method, b"\xff\xff")) == []
    ((stream, code, _),) = answers(pair.session.data_to_send())
    assert (stream, code) == (101, Code.INTERNAL)


def test_shutdown_is_answered_and_changes_nothing():
    pair = Pair().serve()
    assert pair.session.receive_data(request(101, "Shutdown", b"")) == []
    assert answers(pair.session.data_to_send()) == [(101, Code.OK, "")]
    assert pair.session.state is State.SERVING


def test_each_automatic_answer_is_a_frame_of_its_own():
    pair = Pair().serve()
    data = request(2, "Configure", b"") + request(101, "Nothing", b"") + request(4, "Configure", b"")
    pair.session.receive_data(data)
    sent = pair.session.data_to_send()
    assert sorted(stream for stream, _, _ in answers(sent)) == [2, 4, 101]
    assert pair.session.data_to_send() == b""


def test_answers_that_nobody_sends_are_bounded(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_UNSENT_BYTES", 1000)
    pair = Pair().serve()
    flood = b"".join(request(stream, "Nothing", b"") for stream in range(101, 301, 2))
    with pytest.raises(RemoteProtocolError, match="faster than it reads"):
        pair.session.receive_data(flood)


# ---- calls of ours ----


def test_updates_go_out_and_their_answer_comes_back():
    pair = Pair().serve()
    update = nri_pb2.ContainerUpdate(
        container_id="c", linux=nri_pb2.LinuxContainerUpdate(resources=RESOURCES)
    )
    stream, data = pair.session.update_containers([update], 120_000_000_000)
    asked = pair.reply(data)
    assert (list(asked.updates), asked.timeout_nano) == ([update], 120_000_000_000)
    (event,) = pair.tell(pair.runtime.updated(asked.stream, [update]))
    assert (event.stream, event.code) == (stream, Code.OK)
    assert list(nri_pb2.UpdateContainersResponse.FromString(event.payload).failed) == [update]


def test_a_refused_update_comes_back_with_code_and_text():
    pair = Pair().serve()
    stream, data = pair.session.update_containers([], 0)
    (event,) = pair.tell(pair.runtime.refuse(pair.reply(data).stream, Code.UNKNOWN, "busy"))
    assert event == events.RuntimeAnswered(stream, Code.UNKNOWN, "busy", b"")


def test_hooks_are_served_while_an_update_hangs():
    pair = Pair().serve()
    _, data = pair.session.update_containers([], 1)
    pair.reply(data)
    assert isinstance(pair.call(pair.runtime.hook(HookKind.START_CONTAINER, POD, CONTAINER)), events.Hook)


@pytest.mark.parametrize(
    "update",
    [
        nri_pb2.ContainerUpdate(container_id="c"),
        nri_pb2.ContainerUpdate(linux=nri_pb2.LinuxContainerUpdate(resources=RESOURCES)),
    ],
    ids=["no resources", "no id"],
)
def test_an_update_that_would_do_harm_is_not_sent(update):
    pair = Pair().serve()
    with pytest.raises(LocalProtocolError, match="worse than none"):
        pair.session.update_containers([update], 0)


def test_updates_wait_for_the_end_of_synchronize():
    pair = Pair().configure()
    with pytest.raises(LocalProtocolError, match="not possible while configured"):
        pair.session.update_containers([], 0)


def test_too_many_updates_are_not_sent():
    pair = Pair().serve()
    resources = nri_pb2.LinuxResources(unified={"k": "x" * (4 << 20)})
    update = nri_pb2.ContainerUpdate(
        container_id="c", linux=nri_pb2.LinuxContainerUpdate(resources=resources)
    )
    with pytest.raises(LocalProtocolError, match="exceeds the limit"):
        pair.session.update_containers([update], 0)


# ---- the end ----


def test_a_hook_before_configure_closes_the_session():
    pair = Pair().register()
    with pytest.raises(RemoteProtocolError, match="hook came while registering") as first:
        pair.session.receive_data(request(1, "StartContainer", b""))
    call = events.Call(1, "StartContainer", 0)
    for error in raises_alike(
        LocalProtocolError,
        lambda: pair.session.receive_data(b""),
        lambda: pair.session.answer(call, None),
        lambda: pair.session.configure_answer(call, NEWEST),
        lambda: pair.session.refuse(call, 2, ""),
        lambda: pair.session.update_containers([], 0),
        pair.session.register,
    ):
        assert error.__cause__ is first.value


def test_a_broken_trunk_closes_the_session():
    pair = Pair().serve()
    with pytest.raises(RemoteProtocolError):
        pair.session.receive_data(b"\xff" * 8)
    assert pair.session.state is State.CLOSED


def test_a_broken_ttrpc_closes_the_session_and_keeps_the_foreign_cause():
    pair = Pair()
    pair.session.register()
    with pytest.raises(RemoteProtocolError) as error:
        pair.session.receive_data(
            multiplexer.frame(multiplexer.RUNTIME_SERVICE, frames.frame(1, frames.DATA, b""))
        )
    assert type(error.value.__cause__).__module__ == "nri_coloc.ttrpc.errors"


def test_an_end_between_messages_closes_quietly_and_may_come_twice():
    pair = Pair().serve()
    pair.session.receive_end()
    pair.session.receive_end()
    assert pair.session.state is State.CLOSED


@pytest.mark.parametrize("kept", [5, 12, 40], ids=["trunk header", "ttrpc header", "payload"])
def test_an_end_inside_a_message_is_a_fault(kept):
    pair = Pair().serve()
    pair.session.receive_data(request(101, "StartContainer", b"")[:kept])
    with pytest.raises(RemoteProtocolError, match="inside a"):
        pair.session.receive_end()


def test_an_end_inside_a_message_is_seen():
    pair = Pair().serve()
    pair.session.receive_data(multiplexer.frame(multiplexer.PLUGIN_SERVICE, b"\x00\x00"))
    with pytest.raises(RemoteProtocolError, match="inside a message"):
        pair.session.receive_end()
