"""Bytes that mean nothing: some end a connection, none ends the daemon."""

import random
from collections.abc import Callable

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls, multiplexer
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc.status import Code
from tests.integration.harness import QOS, assert_unhurt
from tests.integration.hostile.kit import a_container, a_pod, is_served, tries_at_once
from tests.rig.raw_runtime import RawPlugin, mux

# ---- garbage that ends a connection ----

ENDING: dict[str, Callable[[], bytes]] = {
    "random bytes": lambda: random.Random(1).randbytes(4096),
    "text": lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a frame of four gigabytes": lambda: mux(multiplexer.PLUGIN_SERVICE, b"", 0xFFFFFFFF),
}


@pytest.mark.parametrize("garbage", ENDING.values(), ids=ENDING.keys())
def test_garbage_before_the_handshake_ends_that_connection_alone(garbage, runtime, daemon):
    with runtime.accept() as plugin:
        plugin.take_registration()
        plugin.send(garbage())
        assert plugin.ends()
    with runtime.accept() as again:
        is_served(daemon, again.welcome())
    assert tries_at_once(daemon)


@pytest.mark.parametrize(
    "garbage", [ENDING["random bytes"], ENDING["a frame of four gigabytes"]], ids=["random", "length"]
)
def test_garbage_between_hooks_ends_the_connection_and_the_state_is_kept(garbage, runtime, daemon, plugin):
    pod = a_pod(annotations={QOS: "dedicated"})
    plugin.hook("CreateContainer", pod=pod, container=a_container())
    plugin.send(garbage())
    assert plugin.ends()
    with runtime.accept() as again:
        again.configure()
        container = a_container()
        again.synchronize([pod], [container])
        (kept,) = assert_unhurt(daemon)["containers"]
        assert (kept["id"], kept["cpus"], kept["exclusive"]) == ("web-app", "0-1", True)
    assert tries_at_once(daemon)


# ---- garbage that a connection survives ----


def oversized(plugin: RawPlugin) -> tuple[int, int]:
    """Send a message of 17 MiB, in frames as Go's; return the stream and the expected code."""
    stream, _ = plugin.request("Synchronize")
    size = 17 << 20
    plugin.send(mux(multiplexer.PLUGIN_SERVICE, frames.HEADER.pack(size, stream, frames.REQUEST, 0)))
    piece = bytes(1 << 20)
    for _ in range(17):
        plugin.send(mux(multiplexer.PLUGIN_SERVICE, piece))
    return stream, Code.RESOURCE_EXHAUSTED


def even_stream(plugin: RawPlugin) -> tuple[int, int]:
    stream, data = plugin.request("CreateContainer", stream=4242)
    plugin.send(data)
    return stream, Code.INVALID_ARGUMENT


def used_stream(plugin: RawPlugin) -> tuple[int, int]:
    plugin.replies.clear()
    stream, data = plugin.request("CreateContainer", stream=1)
    plugin.send(data)
    return stream, Code.INVALID_ARGUMENT


def no_envelope(plugin: RawPlugin) -> tuple[int, int]:
    stream, _ = plugin.request("CreateContainer")
    plugin.send(mux(multiplexer.PLUGIN_SERVICE, frames.frame(stream, frames.REQUEST, b"\xff\xff\xff")))
    return stream, Code.INVALID_ARGUMENT


def data_frame(plugin: RawPlugin) -> tuple[int, int]:
    stream, _ = plugin.request("CreateContainer")
    plugin.send(mux(multiplexer.PLUGIN_SERVICE, frames.frame(stream, frames.DATA, b"x")))
    return stream, Code.INVALID_ARGUMENT


def bad_text(plugin: RawPlugin) -> tuple[int, int]:
    """Send a pod whose id is not UTF-8, which protobuf refuses."""
    stream, data = plugin.request("RunPodSandbox", b"\x0a\x04\x0a\x02\xff\xfe")
    plugin.send(data)
    return stream, Code.INTERNAL


def calling(
    method: str, payload: bytes, code: Code, **options: str
) -> Callable[[RawPlugin], tuple[int, int]]:
    def send(plugin: RawPlugin) -> tuple[int, int]:
        stream, data = plugin.request(method, payload, **options)  # type: ignore[arg-type]  # options are of mixed kinds here
        plugin.send(data)
        return stream, code

    return send


SURVIVED: dict[str, Callable[[RawPlugin], tuple[int, int]]] = {
    "an unknown method": calling("BrewCoffee", b"", Code.UNIMPLEMENTED),
    "an unknown service": calling("CreateContainer", b"", Code.UNIMPLEMENTED, service="other.Service"),
    "validation": calling("ValidateContainerAdjustment", b"", Code.UNIMPLEMENTED),
    "an empty method": calling("", b"", Code.UNIMPLEMENTED),
    "an undecodable creation": calling("CreateContainer", b"\xff" * 7, Code.INTERNAL),
    "an undecodable synchronisation": calling("Synchronize", b"\x0a\xff", Code.INTERNAL),
    "an undecodable configuration": calling("Configure", b"\x0a\x05x", Code.INTERNAL),
    "an undecodable state change": calling("StateChange", b"\xff", Code.INTERNAL),
    "a message over 16 MiB": oversized,
    "an even stream": even_stream,
    "a stream that was used": used_stream,
    "an undecodable envelope": no_envelope,
    "data for no stream": data_frame,
    "a text that is no text": bad_text,
}


@pytest.mark.parametrize("attack", SURVIVED.values(), ids=SURVIVED.keys())
def test_a_faulty_call_gets_a_code_and_no_end(attack, lasting):
    _, daemon, plugin = lasting
    stream, code = attack(plugin)
    assert plugin.reply(stream).code == code
    is_served(daemon, plugin)
    assert daemon.metric("nri_coloc_reconnects_total") == 0


def test_frames_of_unknown_connections_and_empty_ones_are_passed_over(lasting):
    _, daemon, plugin = lasting
    plugin.send(mux(0, b"zero") + mux(3, b"x" * 70000) + mux(0xFFFFFFFF, b"y") + mux(1, b"") + mux(2, b""))
    is_served(daemon, plugin)


def test_unknown_message_types_are_passed_over(lasting):
    _, daemon, plugin = lasting
    plugin.send(mux(multiplexer.PLUGIN_SERVICE, frames.frame(99, 77, b"from the future")))
    is_served(daemon, plugin)


def test_a_message_that_comes_byte_by_byte_is_one_message(lasting):
    _, daemon, plugin = lasting
    request = calls.REQUESTS["CreateContainer"](pod=a_pod(), container=a_container(milli=100))
    stream, data = plugin.request("CreateContainer", request.SerializeToString())
    message = data[multiplexer.HEADER.size :]
    for number in range(len(message)):
        plugin.send(mux(multiplexer.PLUGIN_SERVICE, message[number : number + 1]))
    assert plugin.reply(stream).code == Code.OK
    assert_unhurt(daemon)


@pytest.mark.parametrize("event", [0, 12, 14, 15, 4711, -1])
def test_an_unknown_state_change_is_answered_without_effect(event, lasting):
    _, daemon, plugin = lasting
    message = nri_pb2.StateChangeEvent(pod=a_pod(), container=a_container())
    # an enum of proto3 takes any number, but Python's setter only known ones: field 1, varint
    payload = b"\x08" + _varint(event) + message.SerializeToString()
    reply = plugin.call("StateChange", payload)
    assert (reply.code, reply.payload) == (Code.OK, b"")
    assert assert_unhurt(daemon)["containers"] == []


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
