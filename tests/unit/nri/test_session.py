from typing import Any

import pytest

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.errors import LocalProtocolError
from nri_coloc.nri import calls, events, multiplexer
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import Session, State
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from nri_coloc.ttrpc.status import Code
from tests.rig import told
from tests.unit.nri.pair import (
    CONTAINER,
    NEWEST,
    OLDEST,
    POD,
    RESOURCES,
    Pair,
    answers,
    containers,
    pods,
    raises_alike,
    refusal,
    request,
)

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
    ((_, message),) = multiplexer.Trunk().receive_data(Session("a", "00").register())
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
    event = pair.call(
        (1, multiplexer.frame(multiplexer.RUNTIME_SERVICE, refusal(1, Code.UNKNOWN, "no such index")))
    )
    assert event == events.RegistrationRefused(Code.UNKNOWN, "no such index")
    assert pair.session.state is State.CLOSED


def test_nothing_is_read_after_a_refused_registration():
    session = Session("a", "00")
    session.register()
    data = multiplexer.frame(multiplexer.RUNTIME_SERVICE, refusal(1, 2, "no")) + request(
        1, "StopContainer", b""
    )
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
    assert event == events.Configured(
        call=event.call,
        runtime_name="containerd",
        runtime_version=release,
        nri_version=version,
        config="text",
        request_timeout_ms=timeout_ms,
    )
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
    assert (list(event.pods), list(event.containers)) == as_told(3, 5)
    assert not event.more
    assert pair.reply(pair.session.answer(event.call, None)).message == nri_pb2.SynchronizeResponse()


def as_told(of_pods: int, of_containers: int, size: int = 100) -> tuple[list[Any], list[Any]]:
    """Return `of_pods` pods and `of_containers` containers as a plugin reads them."""
    return list(map(told.pod, pods(of_pods, size))), list(
        map(told.container, containers(of_containers, size))
    )


def test_serving_begins_with_the_answer_to_synchronize():
    pair = Pair().configure()
    event = pair.call(next(pair.runtime.synchronize([], [])))
    before = pair.session.state
    pair.session.answer(event.call, None)
    assert (before, pair.session.state) == (State.SYNCHRONIZING, State.SERVING)


def test_each_part_of_synchronize_is_an_event_and_echoed():
    pair = Pair(message_limit=20_000).configure()
    parts = [pair.call(sent) for sent in pair.runtime.synchronize(pods(100, 300), containers(100, 300))]
    assert len(parts) > 2
    everything = (
        [pod for part in parts for pod in part.pods],
        [c for part in parts for c in part.containers],
    )
    assert everything == as_told(100, 100, 300)
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    echoes = [heard.message for heard in pair.heard]
    assert echoes == [nri_pb2.SynchronizeResponse(more=True)] * (len(parts) - 1)
    assert not pair.reply(pair.session.answer(parts[-1].call, None)).message.more


def test_an_old_runtimes_5_mebibyte_synchronize_is_read():
    pair = Pair(OLDEST, "1.7.24").configure()
    ((_, data),) = pair.runtime.synchronize(pods(10), containers(600, 10_000))
    assert len(data) > frames.MESSAGE_LIMIT
    (event,) = pair.tell(data)
    assert len(event.containers) == 600


def test_a_second_synchronize_is_accepted():
    pair = Pair(message_limit=5_000).configure()
    for count in (60, 2):
        parts = [pair.call(sent) for sent in pair.runtime.synchronize(pods(count), [])]
        assert sum(len(part.pods) for part in parts) == count
        pair.reply(pair.session.answer(parts[-1].call, None))
    assert pair.session.state is State.SERVING


def test_two_synchronizes_at_once_are_both_answered():
    pair = Pair().configure()
    first = pair.call(next(pair.runtime.synchronize([], [])))
    second = pair.call(next(pair.runtime.synchronize([], [])))
    pair.reply(pair.session.answer(first.call, None))
    pair.reply(pair.session.answer(second.call, None))
    assert pair.session.state is State.SERVING


# ---- hooks ----


@pytest.mark.parametrize("kind", HookKind)
@pytest.mark.parametrize("version", [NEWEST, OLDEST], ids=["own call", "StateChange"])
def test_a_hook_is_the_same_event_however_it_comes(kind, version):
    pair = Pair(version).serve()
    container = None if kind.about_pod else CONTAINER
    resources = RESOURCES if kind.carries_resources else None
    event = pair.call(pair.runtime.hook(kind, POD, container, resources))
    of_container = None if container is None else told.container(container)
    of_resources = None if resources is None else told.resources(resources)
    assert event == events.Hook(event.call, kind, told.pod(POD), of_container, of_resources)
    dedicated = version == NEWEST or not kind.by_state_change
    assert event.call.method == (str(kind) if dedicated else "StateChange")
    assert pair.reply(pair.session.answer(event.call, None)).code == Code.OK


@pytest.mark.parametrize("kind", HookKind)
def test_a_hook_without_messages_reads_as_empty_ones(kind):
    pair = Pair().serve()
    (event,) = pair.tell(request(101, str(kind), b""))
    assert event.pod == told_pb2.PodSandbox()
    assert event.container == (None if kind.about_pod else told_pb2.Container())
    assert event.resources == (told_pb2.LinuxResources() if kind.carries_resources else None)


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
