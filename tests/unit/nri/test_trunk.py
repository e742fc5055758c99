import pytest

from nri_coloc.errors import LocalProtocolError, RemoteProtocolError
from nri_coloc.nri.multiplexer import FRAME_LIMIT, HEADER, Trunk, frame


def raw(connection: int, payload: bytes) -> bytes:
    return HEADER.pack(connection, len(payload)) + payload


def received(trunk: Trunk, data: bytes) -> list[tuple[int, bytes]]:
    return [(connection, bytes(part)) for connection, part in trunk.receive_data(data)]


def test_frames_of_two_connections_keep_their_order():
    data = raw(1, b"a") + raw(2, b"b") + raw(1, b"c")
    assert received(Trunk(), data) == [(1, b"a"), (2, b"b"), (1, b"c")]


@pytest.mark.parametrize("connection", [0, 3, 0xFFFFFFFF])
def test_a_connection_that_is_not_open_is_read_and_dropped(connection):
    assert received(Trunk(), raw(connection, b"x" * 100) + raw(1, b"a")) == [(1, b"a")]


def test_an_empty_frame_means_nothing():
    assert received(Trunk(), raw(1, b"") + raw(1, b"a")) == [(1, b"a")]


def test_a_torn_header_waits_for_its_rest():
    trunk = Trunk()
    data = raw(2, b"payload")
    assert received(trunk, data[:3]) == []
    assert received(trunk, data[3:]) == [(2, b"payload")]


def test_a_torn_payload_is_handed_on_as_it_comes():
    trunk = Trunk()
    data = raw(2, b"payload")
    assert received(trunk, data[:10]) == [(2, b"pa")]
    assert received(trunk, data[10:]) == [(2, b"yload")]


def test_the_largest_frame_of_the_oldest_sender_is_believed():
    assert received(Trunk(), HEADER.pack(1, FRAME_LIMIT) + b"x") == [(1, b"x")]


def test_a_longer_frame_is_refused_before_allocation_for_good():
    trunk = Trunk()
    with pytest.raises(RemoteProtocolError) as first:
        trunk.receive_data(HEADER.pack(1, FRAME_LIMIT + 1))
    with pytest.raises(RemoteProtocolError) as later:
        trunk.receive_data(raw(1, b"a"))
    assert later.value.__cause__ is first.value


def test_an_end_between_frames_is_a_farewell():
    trunk = Trunk()
    assert received(trunk, raw(1, b"a")) == [(1, b"a")]
    trunk.receive_end()


@pytest.mark.parametrize("kept", [3, 9], ids=["inside a header", "inside a payload"])
def test_an_end_inside_a_frame_is_a_fault(kept):
    trunk = Trunk()
    trunk.receive_data(raw(1, b"abc")[:kept])
    with pytest.raises(RemoteProtocolError):
        trunk.receive_end()


def test_a_short_message_is_one_frame():
    assert frame(2, b"m" * 4096) == raw(2, b"m" * 4096)


def test_a_long_message_is_4096_bytes_and_the_rest():
    message = bytes(range(256)) * 100
    assert frame(2, message) == raw(2, message[:4096]) + raw(2, message[4096:])


def test_a_message_that_no_frame_takes_is_refused():
    with pytest.raises(LocalProtocolError):
        frame(1, bytes(FRAME_LIMIT + 4097))
