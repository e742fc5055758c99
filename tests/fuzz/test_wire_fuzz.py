"""Hostile bytes are accepted, or refused with a documented error; never another exception or unbounded memory.

Inputs are seeded, so a failure names the number that brings it back. Most are valid conversations with a few bytes
changed: pure noise rarely gets past the first header.
"""

import random
from pathlib import Path
from typing import Final, TypeGuard

import pytest
from google.protobuf.message import Message

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import ProtocolError
from nri_coloc.nri import calls, events, multiplexer
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import MAX_UNSENT_BYTES, Session, State
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc.connection import Connection, Role
from nri_coloc.ttrpc.errors import TtrpcError
from tests.fuzz import corpus

NOUN: Final = "wire"
POD = nri_pb2.PodSandbox(id="p", name="web", namespace="shop", annotations={"k": "v"})
CONTAINER = nri_pb2.Container(id="c", pod_sandbox_id="p", name="app", args=["run"])
CONTAINER.linux.resources.cpu.shares.value = 1024


def messages() -> list[bytes]:
    """Return the ttrpc messages of one valid conversation, from Configure to every hook."""
    client = Connection(Role.CLIENT)
    requests: list[tuple[str, Message]] = [
        ("Configure", nri_pb2.ConfigureRequest(runtime_name="containerd", runtime_version="v2.1.5")),
        ("Synchronize", nri_pb2.SynchronizeRequest(pods=[POD], more=True)),
        ("Synchronize", nri_pb2.SynchronizeRequest(containers=[CONTAINER])),
        ("StateChange", nri_pb2.StateChangeEvent(event="POST_START_CONTAINER", pod=POD, container=CONTAINER)),
        ("Shutdown", nri_pb2.Empty()),
        *((str(kind), nri_pb2.StopContainerRequest(pod=POD, container=CONTAINER)) for kind in HookKind),
    ]
    sent = [client.send_request(calls.PLUGIN, method, body.SerializeToString()) for method, body in requests]
    return [message for _, message in sent]


ANSWER = multiplexer.frame(multiplexer.RUNTIME_SERVICE, frames.frame(1, frames.RESPONSE, b""))
MESSAGES = messages()
HANDSHAKE = 2  # the answer to the registration, and Configure
FRAMED = [ANSWER, *(multiplexer.frame(multiplexer.PLUGIN_SERVICE, message) for message in MESSAGES)]


def noise(source: random.Random, most: int) -> bytes:
    return source.randbytes(source.randrange(most))


def mutated(source: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice((0, 1, 1, 2, 5))):
        at = source.randrange(len(changed) + 1)
        match source.randrange(4):
            case 0:
                changed[at : at + 1] = source.randbytes(1)
            case 1:
                changed[at:at] = noise(source, 12)
            case 2:
                del changed[at : at + source.randrange(1, 20)]
            case _:
                changed[at : at + 4] = source.choice((b"\xff" * 4, bytes(4), b"\x00\x40\x00\x01"))
    return bytes(changed)


def stream(source: random.Random, parts: list[bytes]) -> bytes:
    """Return a few parts of a conversation with one damaged part, mostly in order; or noise."""
    if source.random() < 0.1:
        return noise(source, 200)
    begun = source.random() < 0.7  # most things are only possible after the handshake
    chosen = [part for at, part in enumerate(parts) if (begun and at < HANDSHAKE) or source.random() < 0.4]
    if source.random() < 0.2:
        source.shuffle(chosen)
    if chosen:
        at = source.randrange(max(0, len(chosen) - 5), len(chosen))
        chosen[at] = mutated(source, chosen[at])
    return b"".join(chosen)


def pieces(source: random.Random, data: bytes) -> list[bytes]:
    if source.random() < 0.5:
        return [data]
    at = source.randrange(len(data) + 1)
    return [data[:at], data[at:]]


def kept_bytes(connection: Connection) -> int:
    return len(connection._buffer) + sum(map(len, connection._outbox))


def feed_connection(source: random.Random, role: Role) -> None:
    connection = Connection(role)
    if role is Role.CLIENT:
        for _ in range(10):
            connection.send_request("s", "m", b"")
    data = stream(source, MESSAGES)
    try:
        for piece in pieces(source, data):
            for event in connection.receive_data(piece):
                if role is Role.SERVER:
                    connection.send_response(event.stream, b"")
            assert kept_bytes(connection) <= len(data) + 200 * (1 + len(data) // frames.HEADER_SIZE)
        connection.receive_end()
    except TtrpcError:
        pass


def answer(source: random.Random, session: Session, event: events.Event) -> None:
    if is_asked(event) and source.random() < 0.8:
        session.neutral(event.call)


def is_asked(event: events.Event) -> TypeGuard[events.Hook | events.Synchronize | events.Configured]:
    """Return whether an event waits for an answer; an early part of Synchronize has got one."""
    if isinstance(event, events.Synchronize):
        return not event.more
    return isinstance(event, events.Hook | events.Configured)


def feed_session(source: random.Random) -> None:
    session = Session("fuzz", "00")
    session.register()
    data = stream(source, FRAMED)
    try:
        for piece in pieces(source, data):
            for event in session.receive_data(piece):
                answer(source, session, event)
            assert kept_bytes(session._server) <= len(data)
            assert len(session.data_to_send()) <= MAX_UNSENT_BYTES
        session.receive_end()
    except ProtocolError:
        # only a fault of the peer ends the session here, and it is ended then
        assert session.state is State.CLOSED


def check(data: bytes) -> None:
    """Feed the bytes to a session that has registered, whole and byte by byte, and to both ends of a connection."""
    for size in (max(1, len(data)), 1):
        session = Session("fuzz", "00")
        session.register()
        try:
            for at in range(0, len(data), size):
                _hear(session, data[at : at + size])
            session.receive_end()
        except ProtocolError:
            pass  # a fault of the peer, which ends it as the end of the stream does
        assert session.state is State.CLOSED
    for role in Role:
        _feed(Connection(role), data)


def _hear(session: Session, data: bytes) -> None:
    for event in session.receive_data(data):
        if is_asked(event):
            session.neutral(event.call)
    assert len(session.data_to_send()) <= MAX_UNSENT_BYTES


def _feed(connection: Connection, data: bytes) -> None:
    try:
        connection.receive_data(data)
        assert kept_bytes(connection) <= len(data) + 200 * (1 + len(data) // frames.HEADER_SIZE)
        connection.receive_end()
    except TtrpcError:
        pass


@corpus.replayed(NOUN)
def test_a_kept_conversation_is_taken_or_refused(seed: Path):
    check(seed.read_bytes())


def test_any_conversation_near_a_kept_one_is_taken_or_refused(fuzz_inputs: int):
    corpus.made_up(NOUN, check, fuzz_inputs)


def test_the_kept_conversations_are_not_all_refused():
    session = Session("fuzz", "00")
    session.register()
    heard = session.receive_data((corpus.CORPUS / NOUN / "good-conversation").read_bytes())
    assert len(heard) >= len(MESSAGES) - 2  # the registration is answered, and chunks are joined


@pytest.fixture
def inputs(request) -> range:
    return range(request.config.getoption("--fuzz-inputs"))


@pytest.mark.parametrize("role", Role)
def test_a_connection_takes_or_refuses_anything(inputs, role):
    for seed in inputs:
        try:
            feed_connection(random.Random(seed), role)
        except Exception as error:
            raise AssertionError(f"input {seed} for a {role.value}: {error!r}") from error


def test_a_session_takes_or_refuses_anything(inputs):
    for seed in inputs:
        try:
            feed_session(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"input {seed}: {error!r}") from error
