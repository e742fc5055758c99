"""One ttrpc connection, either side of it, without I/O: bytes in, events out, calls in, bytes out.

It knows frames, envelopes and the rules of stream ids; of services and payloads it knows nothing.
Streaming is left out, for our only peer makes unary calls. A request's metadata is left out: no caller needs it.

The subtle thing: each message that a verb returns, and each one in the outbox, must reach the layer
below on its own. Joining two is legal in ttrpc and fatal below it (see multiplex). A fault that a
server answers by itself, as Go's does, goes to the outbox; the connection lives on.
"""

from enum import Enum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from nri_coloc.ttrpc.errors import ConnectionDead, LocalError, RemoteError
from nri_coloc.ttrpc.status import Code

# A runtime has a handful of calls in flight: it makes most of them under one lock.
MAX_OPEN_STREAMS = 1024
# Answers to faults are tens of bytes each. A peer that provokes more than one largest message of
# them between two looks at the outbox is not mistaken, it is hostile.
MAX_OUTBOX_BYTES = frames.MESSAGE_LIMIT
# An error must always fit into a frame; four KiB is more than a log line holds.
MAX_STATUS_MESSAGE = 4096


class Role(Enum):
    CLIENT = "client"
    SERVER = "server"


# Named tuples, not dataclasses: they are built on the path of each hook, at a third of the cost.
class Request(NamedTuple):
    stream: int
    service: str
    method: str
    payload: bytes
    timeout_nano: int


class Response(NamedTuple):
    stream: int
    code: int
    message: str
    payload: bytes


Event = Request | Response


class Connection:
    """A client numbers its calls 1, 3, 5, …; a server answers each open stream exactly once."""

    def __init__(
        self,
        role: Role,
        *,
        receive_limit: int = frames.MESSAGE_LIMIT,
        send_limit: int = frames.MESSAGE_LIMIT,
    ) -> None:
        self.role = role
        self._receive_limit = receive_limit
        self._send_limit = send_limit
        self._buffer = bytearray()
        self._wanted = frames.HEADER_SIZE
        self._discarding = 0
        self._oversized: tuple[int, int] = (0, 0)
        self._open: set[int] = set()
        self._last_stream = 0
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._ignored = 0
        self._dead = False
        self._cause: Exception | None = None

    # ---- bytes in ----

    def receive_data(self, data: bytes | memoryview) -> list[Event]:
        """Return the events that these bytes complete, in the order of the wire; at most one message is kept back."""
        self._alive()
        events: list[Event] = []
        if self._discarding:
            data = self._discard(data, events)
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return events
            data = bytes(self._buffer)
            self._buffer.clear()
        taken = self._read_messages(data, events)
        if taken < len(data):
            self._buffer += data[taken:]
        return events

    def receive_end(self) -> None:
        """The stream below ended. Between two messages that is a farewell, inside one a fault."""
        self._alive()
        if self._buffer or self._discarding:
            raise self._fail("the connection ended inside a message")
        self._dead = True

    def messages_to_send(self) -> list[bytes]:
        """Answers that are owed to the peer's faults; each element is one message."""
        outbox, self._outbox = self._outbox, []
        self._outbox_bytes = 0
        return outbox

    def ignored_messages(self) -> int:
        """Return the number of messages of reserved types since the last call."""
        ignored, self._ignored = self._ignored, 0
        return ignored

    # ---- calls in, bytes out ----

    def send_request(
        self, service: str, method: str, payload: bytes, timeout_nano: int = 0
    ) -> tuple[int, bytes]:
        self._alive()
        stream = self._last_stream + 2 if self._last_stream else 1
        if self.role is not Role.CLIENT:
            raise LocalError("a server makes no requests")
        if stream > frames.LAST_STREAM:
            raise LocalError("the stream ids of this connection are used up")
        if len(self._open) >= MAX_OPEN_STREAMS:
            raise LocalError(f"{MAX_OPEN_STREAMS} requests wait for an answer already")
        envelope = ttrpc_pb2.Request(
            service=service, method=method, payload=payload, timeout_nano=timeout_nano
        )
        message = self._message(stream, frames.REQUEST, envelope.SerializeToString())
        self._last_stream = stream
        self._open.add(stream)
        return stream, message

    def send_response(self, stream: int, payload: bytes) -> bytes:
        self._answerable(stream)
        envelope = ttrpc_pb2.Response(payload=payload)
        message = self._message(stream, frames.RESPONSE, envelope.SerializeToString())
        self._open.remove(stream)
        return message

    def send_error(self, stream: int, code: int, message: str) -> bytes:
        self._answerable(stream)
        if code == Code.OK:
            raise LocalError("an error needs a code other than OK")
        self._open.remove(stream)
        return _failure(stream, code, message)

    def forget(self, stream: int) -> None:
        """Gives up waiting for a call of ours; its late answer will be dropped without a word."""
        self._open.discard(stream)

    # ---- reading ----

    def _read_messages(self, data: bytes | memoryview, events: list[Event]) -> int:
        """Reads every whole message; returns how many bytes are done with."""
        at, size = 0, len(data)
        while size - at >= frames.HEADER_SIZE:
            length, stream, message_type, _flags = frames.HEADER.unpack_from(data, at)
            body = at + frames.HEADER_SIZE
            end = body + length
            if length > self._receive_limit:
                self._discarding, self._oversized = length, (stream, length)
                at = size - len(self._discard(data[body:], events))
                continue
            if end > size:
                self._wanted = end - at
                return at
            self._dispatch(stream, message_type, data[body:end], events)
            at = end
        self._wanted = frames.HEADER_SIZE
        return at

    def _discard(self, data: bytes | memoryview, events: list[Event]) -> bytes | memoryview:
        """Skips bytes of an oversized message, and refuses it once the last of them has passed."""
        skipped = min(self._discarding, len(data))
        self._discarding -= skipped
        if not self._discarding:
            stream, length = self._oversized
            text = f"message length {length} exceeds the limit of {self._receive_limit}"
            if self.role is Role.SERVER:
                self._refuse(stream, Code.RESOURCE_EXHAUSTED, text)
            elif stream in self._open:
                self._open.remove(stream)
                events.append(Response(stream, Code.RESOURCE_EXHAUSTED, text, b""))
        return data[skipped:]

    def _dispatch(
        self, stream: int, message_type: int, body: bytes | memoryview, events: list[Event]
    ) -> None:
        if self.role is Role.CLIENT:
            self._on_answer(stream, message_type, body, events)
        elif stream % 2 == 0:
            self._refuse(stream, Code.INVALID_ARGUMENT, "stream ids of a client must be odd")
        elif message_type == frames.REQUEST:
            self._on_request(stream, body, events)
        elif message_type == frames.DATA:
            self._refuse(stream, Code.INVALID_ARGUMENT, "no such stream is open")
        else:  # reserved for later versions; Go ignores them, and so do we
            self._ignored += 1

    def _on_request(self, stream: int, body: bytes | memoryview, events: list[Event]) -> None:
        if stream <= self._last_stream:
            self._refuse(stream, Code.INVALID_ARGUMENT, "stream ids must increase")
            return
        self._last_stream = stream
        try:
            envelope = ttrpc_pb2.Request.FromString(body)  # type: ignore[arg-type]  # memoryview: allowed, not declared
        except DecodeError:
            self._refuse(stream, Code.INVALID_ARGUMENT, "the request envelope cannot be decoded")
            return
        if len(self._open) >= MAX_OPEN_STREAMS:
            self._refuse(stream, Code.RESOURCE_EXHAUSTED, "too many requests are unanswered")
            return
        self._open.add(stream)
        request = Request(stream, envelope.service, envelope.method, envelope.payload, envelope.timeout_nano)
        events.append(request)

    def _on_answer(
        self, stream: int, message_type: int, body: bytes | memoryview, events: list[Event]
    ) -> None:
        if stream not in self._open:
            return  # late, for a call that was given up; Go logs it and goes on
        if message_type != frames.RESPONSE:
            raise self._fail(f"message type {message_type} where a response is due")
        self._open.remove(stream)
        try:
            envelope = ttrpc_pb2.Response.FromString(body)  # type: ignore[arg-type]  # as in _on_request
        except DecodeError:
            events.append(Response(stream, Code.INTERNAL, "the response envelope cannot be decoded", b""))
            return
        status = envelope.status
        events.append(Response(stream, status.code, status.message, envelope.payload))

    # ---- guards ----

    def _alive(self) -> None:
        if self._dead:
            raise ConnectionDead("the connection is dead") from self._cause

    def _answerable(self, stream: int) -> None:
        self._alive()
        if self.role is not Role.SERVER:
            raise LocalError("a client answers no requests")
        if stream not in self._open:
            raise LocalError(f"stream {stream} is not waiting for an answer")

    def _message(self, stream: int, message_type: int, body: bytes) -> bytes:
        if len(body) > self._send_limit:
            raise LocalError(f"a message of {len(body)} bytes exceeds the limit of {self._send_limit}")
        return frames.frame(stream, message_type, body)

    def _refuse(self, stream: int, code: Code, text: str) -> None:
        message = _failure(stream, code, text)
        self._outbox_bytes += len(message)
        if self._outbox_bytes > MAX_OUTBOX_BYTES:
            raise self._fail("the peer makes faults faster than they can be answered")
        self._outbox.append(message)

    def _fail(self, text: str) -> RemoteError:
        """Ends the connection; the caller raises what this returns."""
        self._dead = True
        self._cause = RemoteError(text)
        self._buffer.clear()
        return self._cause


def _failure(stream: int, code: int, text: str) -> bytes:
    # Text from anywhere: a lone surrogate must not turn an error into an exception.
    clean = text[:MAX_STATUS_MESSAGE].encode("utf-8", "replace").decode()
    envelope = ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=code, message=clean))
    return frames.frame(stream, frames.RESPONSE, envelope.SerializeToString())
