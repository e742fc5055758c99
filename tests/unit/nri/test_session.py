import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import LocalProtocolError, RemoteProtocolError
from nri_coloc.multiplex import trunk
from nri_coloc.nri import calls, events
from nri_coloc.nri import session as sessions
from nri_coloc.nri.session import Session
from nri_coloc.nri.states import State
from nri_coloc.nri.subscription import HookKind
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from nri_coloc.ttrpc.status import Code
from tests.unit.nri.pair import NEWEST, OLDEST, Pair, containers, pods, raises_alike

POD = nri_pb2.PodSandbox(id="p", name="web", namespace="shop")
CONTAINER = nri_pb2.Container(id="c", pod_sandbox_id="p", name="app")
RESOURCES = nri_pb2.LinuxResources(cpu=nri_pb2.LinuxCPU(cpus="0-3"))


def request(stream: int, method: str, payload: bytes, service: str = calls.PLUGIN) -> bytes:
    envelope = ttrpc_pb2.Request(service=service, method=method, payload=payload)
    message = frames.frame(stream, frames.REQUEST, envelope.SerializeToString())
    return trunk.frame(trunk.PLUGIN_SERVICE, message)


def answers(data: bytes) -> list[tuple[int, int, str]]:
    """Stream, code and text of what the session wrote by itself; each message in frames of its own."""
    found = []
    for _, message in trunk.Trunk().receive_data(data):
        _, stream, _, _ = frames.HEADER.unpack_from(message)
        status = ttrpc_pb2.Response.FromString(bytes(message[frames.HEADER_SIZE :])).status
        found.append((stream, status.code, status.message))
    return found


# ---- handshake ----


@pytest.mark.parametrize(
    ("name", "index"), [("", "50"), ("a,b", "50"), ("ok", "5"), ("ok", "x1"), ("ok", "٣٣")]
)
def test_a_name_that_some_runtime_refuses_is_refused_here(name, index):
    with pytest.raises(LocalProtocolError):
        Session(name, index)


def test_registration_tells_name_index_and_version():
    pair = Pair()
    event = pair.reply(pair.session.register())
    assert (event.name, event.index, event.nri_version) == ("nri-coloc", "50", "v0.12.2")


def test_registration_has_no_deadline():
    ((_, message),) = trunk.Trunk().receive_data(Session("a", "00").register())
    envelope = ttrpc_pb2.Request.FromString(bytes(message[frames.HEADER_SIZE :]))
    assert (envelope.service, envelope.method, envelope.timeout_nano) == (calls.RUNTIME, "RegisterPlugin", 0)


def test_registering_twice_is_our_mistake():
    session = Session("a", "00")
    session.register()
    with pytest.raises(LocalProtocolError):
        session.register()


def test_a_refused_registration_closes_the_session():
    pair = Pair()
    pair.session.register()
    event = pair.call((1, trunk.frame(trunk.RUNTIME_SERVICE, refusal(1, Code.UNKNOWN, "no such index"))))
    assert event == events.RegistrationRefused(Code.UNKNOWN, "no such index")
    assert pair.session.state is State.CLOSED


def refusal(stream: int, code: int, text: str) -> bytes:
    envelope = ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=code, message=text))
    return frames.frame(stream, frames.RESPONSE, envelope.SerializeToString())


def test_nothing_is_read_after_a_refused_registration():
    session = Session("a", "00")
    session.register()
    data = trunk.frame(trunk.RUNTIME_SERVICE, refusal(1, 2, "no")) + request(1, "StopContainer", b"")
    assert session.receive_data(data) == [events.RegistrationRefused(2, "no")]


def test_configure_may_overtake_the_answer_to_the_registration():
    pair = Pair()
    pair.reply(pair.session.register())
    registered = pair.runtime.data_to_send()
    configured = pair.call(pair.runtime.configure())
    assert pair.tell(registered) == [events.Registered()]
    assert pair.reply(pair.session.configure_answer(configured.call, NEWEST)).message.events == 0x1FFF
    assert pair.session.state is State.CONFIGURED


@pytest.mark.parametrize(
    ("version", "release", "timeout_ms"),
    [(OLDEST, "1.7.24", 0), ((0, 8, 0), "v2.1.5", 2000), (NEWEST, "x", 2000)],
)
def test_configure_tells_what_the_runtime_is(version, release, timeout_ms):
    pair = Pair(version, release).register()
    event = pair.call(pair.runtime.configure("text"))
    assert event == events.Configured(event.call, "containerd", release, version, "text", timeout_ms)
    assert event.call == events.Call(1, "Configure", 2_000_000_000)


def test_configure_is_never_answered_empty():
    pair = Pair().register()
    call = pair.call(pair.runtime.configure()).call
    with pytest.raises(LocalProtocolError, match="subscribes to everything"):
        pair.session.answer(call, None)
    assert pair.reply(pair.session.neutral(call)).message.events == 0x07FF


def test_only_configure_is_answered_with_a_mask():
    pair = Pair().configure()
    call = pair.call(pair.runtime.hook(HookKind.STOP_POD_SANDBOX, POD)).call
    with pytest.raises(LocalProtocolError):
        pair.session.configure_answer(call, NEWEST)


# ---- Synchronize ----


def test_synchronize_brings_everything_at_once():
    pair = Pair().configure()
    (sent,) = pair.runtime.synchronize(pods(3), containers(5))
    event = pair.call(sent)
    assert (list(event.pods), list(event.containers)) == (pods(3), containers(5))
    assert pair.reply(pair.session.answer(event.call, None)).message == nri_pb2.SynchronizeResponse()


def test_serving_begins_with_the_answer_to_synchronize():
    pair = Pair().configure()
    event = pair.call(next(pair.runtime.synchronize([], [])))
    before = pair.session.state
    pair.session.answer(event.call, None)
    assert (before, pair.session.state) == (State.SYNCHRONIZING, State.SERVING)


def test_synchronize_in_parts_is_one_event_and_each_early_part_is_echoed():
    pair = Pair(message_limit=20_000).configure()
    parts, found = 0, []
    for _, data in pair.runtime.synchronize(pods(100, 300), containers(100, 300)):
        parts += 1
        found += pair.tell(data)
    (event,) = found
    assert parts > 2
    assert (list(event.pods), list(event.containers)) == (pods(100, 300), containers(100, 300))
    echoes = [heard.message for heard in pair.heard]
    assert echoes == [nri_pb2.SynchronizeResponse(more=True)] * (parts - 1)
    assert not pair.reply(pair.session.answer(event.call, None)).message.more


def test_one_synchronize_of_more_than_four_mebibytes_is_taken_from_an_old_runtime():
    pair = Pair(OLDEST, "1.7.24").configure()
    ((_, data),) = pair.runtime.synchronize(pods(10), containers(600, 10_000))
    assert len(data) > frames.MESSAGE_LIMIT
    (event,) = pair.tell(data)
    assert len(event.containers) == 600


def test_a_second_synchronize_is_accepted_and_begins_from_nothing():
    pair = Pair(message_limit=5_000).configure()
    for count in (60, 2):
        found = [event for _, data in pair.runtime.synchronize(pods(count), []) for event in pair.tell(data)]
        assert len(found[0].pods) == count
        pair.reply(pair.session.answer(found[0].call, None))
    assert pair.session.state is State.SERVING


def test_two_synchronizes_at_once_are_both_answered():
    pair = Pair().configure()
    first = pair.call(next(pair.runtime.synchronize([], [])))
    second = pair.call(next(pair.runtime.synchronize([], [])))
    pair.reply(pair.session.answer(first.call, None))
    pair.reply(pair.session.answer(second.call, None))
    assert pair.session.state is State.SERVING


def test_an_endless_synchronize_is_the_peers_fault(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SYNCHRONIZE_BYTES", 10_000)
    pair = Pair().configure()
    part = nri_pb2.SynchronizeRequest(pods=pods(10, 1000), more=True)
    with pytest.raises(RemoteProtocolError, match="Synchronize is over"):
        pair.session.receive_data(pair.runtime.call("Synchronize", part)[1])


# ---- hooks ----


@pytest.mark.parametrize("kind", HookKind)
@pytest.mark.parametrize("version", [NEWEST, OLDEST], ids=["own call", "StateChange"])
def test_a_hook_is_the_same_event_however_it_comes(kind, version):
    pair = Pair(version).serve()
    container = None if kind.about_pod else CONTAINER
    resources = RESOURCES if kind.carries_resources else None
    event = pair.call(pair.runtime.hook(kind, POD, container, resources))
    assert event == events.Hook(event.call, kind, POD, container, resources)
    dedicated = version == NEWEST or not kind.by_state_change
    assert event.call.method == (str(kind) if dedicated else "StateChange")
    assert pair.reply(pair.session.answer(event.call, None)).code == Code.OK


@pytest.mark.parametrize("kind", HookKind)
def test_a_hook_without_messages_reads_as_empty_ones(kind):
    pair = Pair().serve()
    (event,) = pair.tell(request(101, str(kind), b""))
    assert event.pod == nri_pb2.PodSandbox()
    assert event.container == (None if kind.about_pod else nri_pb2.Container())
    assert event.resources == (nri_pb2.LinuxResources() if kind.carries_resources else None)


@pytest.mark.parametrize("number", [0, 4, 8, 10, 12, 14, 99, -1])
def test_a_state_change_that_means_no_hook_is_answered_empty(number):
    pair = Pair().serve()
    payload = nri_pb2.StateChangeEvent(event=number).SerializeToString()
    assert pair.session.receive_data(request(101, "StateChange", payload)) == []
    assert answers(pair.session.data_to_send()) == [(101, Code.OK, "")]


def test_an_answer_carries_its_message():
    pair = Pair().serve()
    call = pair.call(pair.runtime.hook(HookKind.CREATE_CONTAINER, POD, CONTAINER)).call
    response = nri_pb2.CreateContainerResponse()
    response.adjust.linux.resources.cpu.cpus = "0-1"
    assert pair.reply(pair.session.answer(call, response)).message == response


def test_a_refusal_carries_code_and_text():
    pair = Pair().serve()
    call = pair.call(pair.runtime.hook(HookKind.CREATE_CONTAINER, POD, CONTAINER)).call
    answered = pair.reply(pair.session.refuse(call, Code.INVALID_ARGUMENT, "strict"))
    assert (answered.code, answered.text) == (Code.INVALID_ARGUMENT, "strict")


def test_a_neutral_answer_is_an_empty_one():
    pair = Pair().serve()
    call = pair.call(pair.runtime.hook(HookKind.STOP_CONTAINER, POD, CONTAINER)).call
    assert pair.reply(pair.session.neutral(call)).message == nri_pb2.StopContainerResponse()


def test_a_stream_is_answered_once_whoever_comes_first():
    pair = Pair().serve()
    call = pair.call(pair.runtime.hook(HookKind.STOP_CONTAINER, POD, CONTAINER)).call
    pair.session.neutral(call)
    raises_alike(
        LocalProtocolError,
        lambda: pair.session.answer(call, None),
        lambda: pair.session.refuse(call, Code.INTERNAL, "late"),
        lambda: pair.session.neutral(call),
    )


def test_the_answer_to_another_call_is_our_mistake():
    pair = Pair().serve()
    call = pair.call(pair.runtime.hook(HookKind.STOP_CONTAINER, POD, CONTAINER)).call
    with pytest.raises(LocalProtocolError, match="is no answer to"):
        pair.session.answer(call, nri_pb2.CreateContainerResponse())


def test_an_answer_that_is_too_large_leaves_the_stream_for_another():
    pair = Pair().serve()
    call = pair.call(pair.runtime.hook(HookKind.CREATE_CONTAINER, POD, CONTAINER)).call
    response = nri_pb2.CreateContainerResponse()
    response.adjust.annotations["k"] = "x" * (4 << 20)
    with pytest.raises(LocalProtocolError, match="exceeds the limit"):
        pair.session.answer(call, response)
    assert pair.reply(pair.session.neutral(call)).code == Code.OK


def test_hooks_come_to_a_plugin_that_was_never_synchronised():
    pair = Pair(OLDEST).configure()
    assert isinstance(pair.call(pair.runtime.hook(HookKind.START_CONTAINER, POD, CONTAINER)), events.Hook)


# ---- what the session answers by itself ----


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


def test_hooks_are_served_while_an_update_hangs_and_its_late_answer_is_dropped():
    pair = Pair().serve()
    stream, data = pair.session.update_containers([], 1)
    asked = pair.reply(data)
    assert isinstance(pair.call(pair.runtime.hook(HookKind.START_CONTAINER, POD, CONTAINER)), events.Hook)
    pair.session.give_up(stream)
    assert pair.tell(pair.runtime.updated(asked.stream)) == []


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


def test_a_hook_before_configure_is_the_peers_fault_and_closes_the_session():
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
        pair.session.receive_data(trunk.frame(trunk.RUNTIME_SERVICE, frames.frame(1, frames.DATA, b"")))
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


def test_an_end_inside_a_message_is_seen_when_the_frame_was_whole():
    pair = Pair().serve()
    pair.session.receive_data(trunk.frame(trunk.PLUGIN_SERVICE, b"\x00\x00"))
    with pytest.raises(RemoteProtocolError, match="inside a message"):
        pair.session.receive_end()
