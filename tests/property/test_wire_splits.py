"""Any way of cutting the bytes gives the same events; nothing that follows a message is touched."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls, multiplexer
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import Session
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from nri_coloc.ttrpc.connection import Connection, Role
from tests.rig import examples

LIMIT = 300


def envelope(stream: int, message_type: int, size: int) -> bytes:
    body = ttrpc_pb2.Request(service="s", method="m", payload=bytes(size)).SerializeToString()
    return frames.frame(stream, message_type, body)


# Good calls, and every fault that a server answers by itself.
MESSAGES = st.one_of(
    st.builds(envelope, st.integers(0, 20), st.sampled_from([1, 1, 1, 2, 3, 9]), st.integers(0, 2 * LIMIT)),
    st.builds(lambda stream: frames.frame(stream, 1, b"\xff"), st.integers(0, 20)),
    st.just(frames.frame(1, 1, b"")),
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


def read(pieces: list[bytes]) -> tuple[list[object], list[bytes]]:
    server = Connection(Role.SERVER, receive_limit=LIMIT)
    found: list[object] = []
    for piece in pieces:
        found += server.receive_data(piece)
    return found, server.messages_to_send()


@given(st.lists(MESSAGES, max_size=12), st.lists(st.integers(0), max_size=12))
def test_a_ttrpc_stream_reads_the_same_however_it_is_cut(messages, places):
    data = b"".join(messages)
    whole = read([data])
    assert read(cut(data, places)) == whole
    assert read([bytes([byte]) for byte in data]) == whole
    assert read(messages) == whole


@given(st.lists(MESSAGES, max_size=5), st.binary(max_size=frames.HEADER_SIZE - 1))
def test_trailing_bytes_of_a_ttrpc_stream_are_kept_and_change_nothing(messages, trailing):
    data = b"".join(messages)
    assert read([data + trailing]) == read([data])


FRAMES = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 0xFFFFFFFF]), st.binary(max_size=60)), max_size=12)


def streams(pieces: list[bytes]) -> dict[int, bytes]:
    reader, found = multiplexer.Trunk(), {1: b"", 2: b""}
    for piece in pieces:
        for connection, part in reader.receive_data(piece):
            found[connection] += part
    return found


@given(FRAMES, st.lists(st.integers(0), max_size=12))
def test_a_trunk_yields_the_same_streams_however_it_is_cut(sent, places):
    data = b"".join(multiplexer.HEADER.pack(connection, len(part)) + part for connection, part in sent)
    expected = {
        wanted: b"".join(part for connection, part in sent if connection == wanted) for wanted in (1, 2)
    }
    assert streams([data]) == expected
    assert streams(cut(data, places)) == expected
    assert streams([bytes([byte]) for byte in data]) == expected


def conversation(kinds: list[HookKind]) -> list[bytes]:
    """ttrpc messages of a runtime, from Configure on."""
    client = Connection(Role.CLIENT)
    container = nri_pb2.Container(id="c", annotations={"filler": "x" * 5000})
    bodies = [("Configure", b""), ("Synchronize", nri_pb2.SynchronizeRequest(more=True).SerializeToString())]
    bodies += [("Synchronize", nri_pb2.SynchronizeRequest(containers=[container]).SerializeToString())]
    bodies += [
        (str(kind), nri_pb2.CreateContainerRequest(container=container).SerializeToString()) for kind in kinds
    ]
    return [client.send_request(calls.PLUGIN, method, body)[1] for method, body in bodies]


def session_reads(pieces: list[bytes]) -> tuple[list[object], bytes]:
    session = Session("a", "00")
    session.register()
    found: list[object] = []
    for piece in pieces:
        found += session.receive_data(piece)
    return found, session.data_to_send()


@settings(max_examples=examples.times(0.5))
@given(
    st.lists(st.sampled_from(HookKind), max_size=4),
    st.lists(st.integers(0), max_size=20),
    st.lists(st.integers(0), max_size=20),
)
def test_a_session_sees_the_same_however_frames_and_reads_are_cut(kinds, frame_places, read_places):
    messages = conversation(kinds)
    whole = session_reads([multiplexer.frame(1, message) for message in messages])
    slices = cut(b"".join(messages), frame_places)
    noisy = b"".join(
        multiplexer.HEADER.pack(connection, len(part)) + part
        for piece in slices
        for connection, part in ((1, piece), (7, b"?"), (1, b""))
    )
    assert session_reads(cut(noisy, read_places)) == whole


@pytest.mark.parametrize("step", [1, 3, 4096, 1 << 20])
def test_any_frame_size_reads_the_same_large_message(step):
    size = 5 << 20 if step > 3 else 50_000
    message = envelope(1, 1, size)
    connection = Connection(Role.SERVER, receive_limit=frames.UNCHECKED_PEER_LIMIT)
    reader, found = multiplexer.Trunk(), []
    for at in range(0, len(message), step):
        part = message[at : at + step]
        for _, piece in reader.receive_data(multiplexer.HEADER.pack(1, len(part)) + part):
            found += connection.receive_data(piece)
    assert [len(request.payload) for request in found] == [size]
