import pytest

from nri_coloc.ttrpc import connection as connections
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from nri_coloc.ttrpc.connection import Connection, Request, Response, Role
from nri_coloc.ttrpc.errors import ConnectionDead, LocalError, RemoteError
from nri_coloc.ttrpc.status import Code

BAD_ENVELOPE = b"\xff\xff\xff"


def request(stream: int, **fields) -> bytes:
    return frames.frame(stream, frames.REQUEST, ttrpc_pb2.Request(**fields).SerializeToString())


def refusals(server: Connection) -> list[tuple[int, int]]:
    """Return stream and code of the server's automatic answers, as a client reads them."""
    found = []
    for message in server.messages_to_send():
        length, stream, message_type, flags = frames.HEADER.unpack_from(message)
        assert (length, message_type, flags) == (len(message) - frames.HEADER_SIZE, frames.RESPONSE, 0)
        response = ttrpc_pb2.Response.FromString(message[frames.HEADER_SIZE :])
        assert not response.payload
        assert response.status.message
        found.append((stream, response.status.code))
    return found


def codes(found: list[connections.Event]) -> list[tuple[int, int]]:
    return [(event.stream, event.code) for event in found if isinstance(event, Response)]


@pytest.fixture
def client() -> Connection:
    return Connection(Role.CLIENT)


@pytest.fixture
def server() -> Connection:
    return Connection(Role.SERVER)


# ---- a call, there and back ----


def test_a_request_arrives_with_everything_that_was_said(client, server):
    stream, message = client.send_request("Plugin", "Configure", b"payload", 7)
    assert server.receive_data(message) == [Request(stream, "Plugin", "Configure", b"payload", 7)]


def test_an_answer_reaches_the_call_that_it_belongs_to(client, server):
    stream, message = client.send_request("Plugin", "Configure", b"")
    server.receive_data(message)
    assert client.receive_data(server.send_response(stream, b"yes")) == [Response(stream, 0, "", b"yes")]


def test_an_error_carries_code_and_text_and_no_payload(client, server):
    stream, message = client.send_request("Plugin", "Configure", b"")
    server.receive_data(message)
    answer = server.send_error(stream, Code.INTERNAL, "no")
    assert client.receive_data(answer) == [Response(stream, Code.INTERNAL, "no", b"")]


def test_an_empty_answer_is_a_success_of_zero_length(client, server):
    stream, message = client.send_request("Plugin", "Shutdown", b"")
    server.receive_data(message)
    answer = server.send_response(stream, b"")
    assert len(answer) == frames.HEADER_SIZE
    assert client.receive_data(answer) == [Response(stream, 0, "", b"")]


def test_answers_may_come_in_any_order(client, server):
    first, one = client.send_request("Plugin", "A", b"")
    second, two = client.send_request("Plugin", "B", b"")
    server.receive_data(one + two)
    answers = server.send_response(second, b"2") + server.send_response(first, b"1")
    assert [event.stream for event in client.receive_data(answers)] == [second, first]


def test_streams_of_a_client_are_odd_and_increase(client):
    assert [client.send_request("s", "m", b"")[0] for _ in range(4)] == [1, 3, 5, 7]


def test_metadata_of_a_request_is_passed_over(server):
    pairs = [ttrpc_pb2.KeyValue(key="k", value="1"), ttrpc_pb2.KeyValue(key="k", value="2")]
    assert server.receive_data(request(1, metadata=pairs)) == [Request(1, "", "", b"", 0)]


def test_an_error_text_of_any_length_and_alphabet_fits(client, server):
    stream, message = client.send_request("s", "m", b"")
    server.receive_data(message)
    answer = server.send_error(stream, Code.UNKNOWN, "\udc80é" * 5_000_000)
    text = "?é" * (connections.MAX_STATUS_MESSAGE // 2)
    assert client.receive_data(answer) == [Response(stream, Code.UNKNOWN, text, b"")]


@pytest.mark.parametrize("step", [1, 7, 10, 11], ids=lambda step: f"{step} bytes at a time")
def test_messages_may_come_in_pieces(server, step):
    data = request(1, method="one") + request(3, payload=b"x" * 50) + request(5, method="three")
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert [event.stream for piece in pieces for event in server.receive_data(piece)] == [1, 3, 5]


# ---- automatic answers of a server ----


def test_an_even_stream_is_refused_and_the_connection_lives(server):
    assert server.receive_data(request(2)) == []
    assert refusals(server) == [(2, Code.INVALID_ARGUMENT)]
    assert len(server.receive_data(request(1))) == 1


def test_stream_zero_is_even(server):
    server.receive_data(request(0))
    assert refusals(server) == [(0, Code.INVALID_ARGUMENT)]


@pytest.mark.parametrize("stream", [5, 3], ids=["used again", "lower"])
def test_a_stream_that_does_not_increase_is_refused(server, stream):
    server.receive_data(request(5))
    assert server.receive_data(request(stream)) == []
    assert refusals(server) == [(stream, Code.INVALID_ARGUMENT)]


def test_an_undecodable_envelope_is_refused_and_uses_its_stream_up(server):
    server.receive_data(frames.frame(1, frames.REQUEST, BAD_ENVELOPE))
    server.receive_data(request(1))
    assert refusals(server) == [(1, Code.INVALID_ARGUMENT), (1, Code.INVALID_ARGUMENT)]


def test_data_for_a_stream_that_is_not_open_is_refused(server):
    server.receive_data(frames.frame(1, frames.DATA, b"x"))
    assert refusals(server) == [(1, Code.INVALID_ARGUMENT)]


@pytest.mark.parametrize("message_type", [0, frames.RESPONSE, 4, 255])
def test_a_type_that_means_nothing_to_a_server_is_ignored(server, message_type):
    assert server.receive_data(frames.frame(1, message_type, b"x")) == []
    assert refusals(server) == []
    assert len(server.receive_data(request(1))) == 1


def test_an_oversized_message_is_skipped_to_the_byte_and_refused():
    server = Connection(Role.SERVER, receive_limit=100)
    oversized = frames.frame(1, frames.REQUEST, bytes(101))
    assert server.receive_data(oversized[:60]) == []
    assert refusals(server) == []
    assert server.receive_data(oversized[60:] + request(3)) == [Request(3, "", "", b"", 0)]
    assert refusals(server) == [(1, Code.RESOURCE_EXHAUSTED)]


def test_an_oversized_message_may_begin_and_end_inside_one_read():
    server = Connection(Role.SERVER, receive_limit=100)
    data = request(1) + frames.frame(3, frames.REQUEST, bytes(5000)) + request(5)
    assert [event.stream for event in server.receive_data(data)] == [1, 5]
    assert refusals(server) == [(3, Code.RESOURCE_EXHAUSTED)]


def test_a_message_of_exactly_the_limit_is_taken():
    server = Connection(Role.SERVER, receive_limit=100)
    body = ttrpc_pb2.Request(payload=bytes(98)).SerializeToString()
    assert len(body) == 100
    assert len(server.receive_data(frames.frame(1, frames.REQUEST, body))) == 1


def test_skipping_four_gigabytes_keeps_nothing(server):
    server.receive_data(frames.HEADER.pack(0xFFFFFFFF, 1, frames.REQUEST, 0))
    for _ in range(64):
        server.receive_data(bytes(1 << 16))
    assert not server._buffer


def test_a_peer_that_is_never_answered_is_refused_after_a_bound(server):
    for index in range(connections.MAX_OPEN_STREAMS + 1):
        server.receive_data(request(2 * index + 1))
    assert refusals(server) == [(2 * connections.MAX_OPEN_STREAMS + 1, Code.RESOURCE_EXHAUSTED)]


def test_a_flood_of_faults_kills_the_connection(server, monkeypatch):
    monkeypatch.setattr(connections, "MAX_OUTBOX_BYTES", 10_000)
    with pytest.raises(RemoteError, match="faster than they can be answered"):
        server.receive_data(request(2) * 1000)


def test_faults_that_are_answered_in_between_are_no_flood(server, monkeypatch):
    monkeypatch.setattr(connections, "MAX_OUTBOX_BYTES", 100)
    for _ in range(1000):
        server.receive_data(request(2))
        assert len(server.messages_to_send()) == 1


# ---- how a client reads answers ----


def test_an_answer_to_a_call_that_was_given_up_is_dropped(client, server):
    stream, message = client.send_request("s", "m", b"")
    server.receive_data(message)
    client.forget(stream)
    assert client.receive_data(server.send_response(stream, b"late")) == []


def test_an_answer_to_nothing_is_dropped(client):
    assert client.receive_data(frames.frame(9, frames.RESPONSE, b"")) == []


def test_an_undecodable_answer_fails_its_call_only(client):
    stream, _ = client.send_request("s", "m", b"")
    found = client.receive_data(frames.frame(stream, frames.RESPONSE, BAD_ENVELOPE))
    assert codes(found) == [(stream, Code.INTERNAL)]


def test_an_oversized_answer_fails_its_call_only():
    client = Connection(Role.CLIENT, receive_limit=100)
    stream, _ = client.send_request("s", "m", b"")
    other, _ = client.send_request("s", "m", b"")
    data = frames.frame(stream, frames.RESPONSE, bytes(101)) + frames.frame(other, frames.RESPONSE, b"")
    assert codes(client.receive_data(data)) == [(stream, Code.RESOURCE_EXHAUSTED), (other, Code.OK)]


def test_an_oversized_answer_to_nothing_is_dropped():
    client = Connection(Role.CLIENT, receive_limit=100)
    assert client.receive_data(frames.frame(7, frames.RESPONSE, bytes(101))) == []
    assert client.messages_to_send() == []


def test_anything_but_a_response_on_a_waiting_stream_kills_the_connection(client):
    stream, _ = client.send_request("s", "m", b"")
    with pytest.raises(RemoteError, match="where a response is due"):
        client.receive_data(frames.frame(stream, frames.DATA, b""))


# ---- forbidden calls ----


def test_a_server_makes_no_requests(server):
    with pytest.raises(LocalError):
        server.send_request("s", "m", b"")


def test_a_client_answers_nothing(client):
    stream, _ = client.send_request("s", "m", b"")
    with pytest.raises(LocalError):
        client.send_response(stream, b"")


def test_a_stream_is_answered_once(server):
    server.receive_data(request(1))
    server.send_response(1, b"")
    with pytest.raises(LocalError, match="not waiting"):
        server.send_error(1, Code.INTERNAL, "again")


def test_success_is_no_error(server):
    server.receive_data(request(1))
    with pytest.raises(LocalError):
        server.send_error(1, Code.OK, "")


def test_an_oversized_answer_leaves_its_stream_open(server):
    server.receive_data(request(1))
    with pytest.raises(LocalError, match="exceeds the limit"):
        server.send_response(1, bytes(frames.MESSAGE_LIMIT))
    assert server.send_response(1, b"")


def test_the_largest_message_that_may_be_sent_is_four_mebibytes(client):
    overhead = len(ttrpc_pb2.Request(service="s", method="m", payload=bytes(1 << 21)).SerializeToString()) - (
        1 << 21
    )
    _, message = client.send_request("s", "m", bytes(frames.MESSAGE_LIMIT - overhead))
    assert len(message) == frames.MESSAGE_LIMIT + frames.HEADER_SIZE
    with pytest.raises(LocalError):
        client.send_request("s", "m", bytes(frames.MESSAGE_LIMIT - overhead + 1))


def test_a_refused_request_uses_no_stream(client):
    with pytest.raises(LocalError):
        client.send_request("s", "m", bytes(frames.MESSAGE_LIMIT))
    assert client.send_request("s", "m", b"")[0] == 1


def test_unanswered_calls_are_bounded(client):
    for _ in range(connections.MAX_OPEN_STREAMS):
        client.send_request("s", "m", b"")
    with pytest.raises(LocalError, match="wait for an answer"):
        client.send_request("s", "m", b"")


def test_stream_ids_do_not_wrap_round(client):
    client._last_stream = frames.LAST_STREAM
    with pytest.raises(LocalError, match="used up"):
        client.send_request("s", "m", b"")


# ---- the end ----


def test_after_a_failure_every_verb_says_dead_and_why(client):
    stream, _ = client.send_request("s", "m", b"")
    with pytest.raises(RemoteError) as first:
        client.receive_data(frames.frame(stream, frames.DATA, b""))
    for verb in (
        lambda: client.receive_data(b""),
        lambda: client.send_request("s", "m", b""),
        lambda: client.send_response(1, b""),
        client.receive_end,
    ):
        with pytest.raises(ConnectionDead) as dead:
            verb()
        assert dead.value.__cause__ is first.value


def test_an_end_between_messages_is_a_farewell(server):
    server.receive_data(request(1))
    server.receive_end()
    with pytest.raises(ConnectionDead):
        server.receive_data(request(3))


@pytest.mark.parametrize("kept", [4, 15], ids=["inside a header", "inside a payload"])
def test_an_end_inside_a_message_is_a_fault(server, kept):
    server.receive_data(request(1, method="a long enough method")[:kept])
    with pytest.raises(RemoteError, match="inside a message"):
        server.receive_end()


def test_an_end_while_skipping_is_a_fault(server):
    server.receive_data(frames.HEADER.pack(0xFFFFFFFF, 1, frames.REQUEST, 0))
    with pytest.raises(RemoteError):
        server.receive_end()
