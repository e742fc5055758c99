"""A runtime's NRI socket on which the test decides every byte: it sends bytes that no correct runtime would send.

The plugin's bytes are read as Go reads them (`go_reader`), so a framing that would hurt containerd fails the test here.
Nothing answers by itself: the test sends each handshake, call or piece of garbage.
"""

import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from google.protobuf.message import Message as Protobuf

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls, multiplexer
from nri_coloc.sim.adaptation import ENVELOPE_ROOM, split
from nri_coloc.sim.go_reader import GoReader, Message
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from tests.rig.waiting import PATIENCE_SECONDS

TIMEOUT_S: Final = 180
"""What the plugin is told that a request may take. containerd says 2 s, and after a quarter of them, which a machine
that stands still may take, a plugin answers neutrally."""


READ_SIZE: Final = 1 << 13
"""Small, for Go's queue holds 256 frames, and the reader takes all frames of one read for queued."""


class Reply(NamedTuple):
    """Hold the plugin's answer to one call."""

    stream: int
    code: int
    text: str
    payload: bytes


class RawPlugin:
    """Hold one connection of the plugin, seen from the runtime."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.replies: dict[int, Reply] = {}
        self.asked: list[ttrpc_pb2.Request] = []
        self._registration = 0
        self._reader = GoReader()
        self._next = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # ---- sending ----

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def request(
        self,
        method: str,
        payload: bytes = b"",
        *,
        service: str = calls.PLUGIN,
        timeout_nano: int = TIMEOUT_S * 1_000_000_000,
        stream: int = 0,
    ) -> tuple[int, bytes]:
        """Return a call's stream and its framed bytes, which are not sent yet."""
        if not stream:
            stream, self._next = self._next, self._next + 2
        envelope = ttrpc_pb2.Request(
            service=service, method=method, payload=payload, timeout_nano=timeout_nano
        )
        message = frames.frame(stream, frames.REQUEST, envelope.SerializeToString())
        return stream, multiplexer.frame(multiplexer.PLUGIN_SERVICE, message)

    def call(self, method: str, message: Protobuf | bytes = b"", **options: Any) -> Reply:
        """Return the answer to one call."""
        payload = message if isinstance(message, bytes) else message.SerializeToString()
        stream, data = self.request(method, payload, **options)
        self.send(data)
        return self.reply(stream)

    def hook(self, method: str, **parts: Any) -> Any:
        """Return the decoded answer to a hook's own call, which must not be an error."""
        reply = self.call(method, calls.REQUESTS[method](**parts))
        assert reply.code == 0, f"{method} was refused: {reply.text}"
        return calls.RESPONSES[method].FromString(reply.payload)

    def take_registration(self) -> nri_pb2.RegisterPluginRequest:
        """Return the plugin's RegisterPlugin request, which is not answered yet."""
        while not self.asked:
            self._read(PATIENCE_SECONDS)
        request = self.asked[-1]
        assert request.method == "RegisterPlugin"
        return nri_pb2.RegisterPluginRequest.FromString(request.payload)

    def answer_registration(self, code: int = 0, text: str = "") -> None:
        """Answer RegisterPlugin, with an error if a code is given."""
        response = ttrpc_pb2.Response()
        if code:
            response.status.code, response.status.message = code, text
        message = frames.frame(self._registration, frames.RESPONSE, response.SerializeToString())
        self.send(multiplexer.frame(multiplexer.RUNTIME_SERVICE, message))

    def configure(
        self, runtime_version: str = "v2.4.0", nri_version: str = "v0.12.1", config: str = ""
    ) -> nri_pb2.ConfigureResponse:
        """Return the answer to Configure, after taking the registration."""
        self.take_registration()
        self.answer_registration()
        request = nri_pb2.ConfigureRequest(
            config=config,
            runtime_name="containerd",
            runtime_version=runtime_version,
            NRI_version=nri_version,
            request_timeout=TIMEOUT_S * 1000,
            registration_timeout=TIMEOUT_S * 1000,
        )
        reply = self.call("Configure", request)
        assert reply.code == 0, reply.text
        return nri_pb2.ConfigureResponse.FromString(reply.payload)

    def synchronize(
        self, pods: Sequence[nri_pb2.PodSandbox] = (), containers: Sequence[nri_pb2.Container] = ()
    ) -> nri_pb2.SynchronizeResponse:
        """Return the plugin's answer to all existing pods and containers, which are sent in parts as a runtime does."""
        parts = split(pods, containers, frames.MESSAGE_LIMIT - ENVELOPE_ROOM)
        for part in parts:
            reply = self.call("Synchronize", part)
            assert reply.code == 0, reply.text
        self.is_done()
        return nri_pb2.SynchronizeResponse.FromString(reply.payload)

    def is_done(self) -> None:
        """Wait until the plugin has finished: it answers one call after the other."""
        self.call("StateChange", nri_pb2.StateChangeEvent())

    def welcome(self, **version: str) -> Self:
        """Do the whole handshake on an empty node."""
        self.configure(**version)
        self.synchronize()
        return self

    # ---- receiving ----

    def reply(self, stream: int, seconds: float = PATIENCE_SECONDS) -> Reply:
        """Return the answer on a stream."""
        while True:
            if stream in self.replies:
                return self.replies[stream]
            self._read(seconds)

    def ends(self, seconds: float = PATIENCE_SECONDS) -> bool:
        """Return whether the plugin closes this connection in time; bytes that it still sends are read."""
        try:
            while True:
                self._read(seconds)
        except (EOFError, ConnectionError):
            return True
        except TimeoutError:
            return False

    def quiet(self, seconds: float = 0.3) -> bool:
        """Return whether the plugin sends nothing for `seconds`, and does not close."""
        try:
            self._read(seconds)
        except TimeoutError:
            return True
        return False

    def _read(self, seconds: float) -> None:
        self.socket.settimeout(seconds)
        data = self.socket.recv(READ_SIZE)
        if not data:
            raise EOFError("the plugin closed the connection")
        for message in self._reader.receive_data(data):
            self._take(message)

    def _take(self, message: Message) -> None:
        if message.connection == multiplexer.PLUGIN_SERVICE:
            response = ttrpc_pb2.Response.FromString(message.body)
            reply = Reply(message.stream, response.status.code, response.status.message, response.payload)
            assert reply.stream not in self.replies, "a stream was answered twice"
            self.replies[reply.stream] = reply
        else:
            self._registration = message.stream
            self.asked.append(ttrpc_pb2.Request.FromString(message.body))


class RawRuntime:
    """Listen on the socket; `accept` returns one connection of the plugin after the other."""

    def __init__(self, path: Path, backlog: int = 8) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(backlog)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def accept(self, seconds: float = PATIENCE_SECONDS) -> RawPlugin:
        """Return the plugin's next connection; TimeoutError if it does not connect."""
        self._listener.settimeout(seconds)
        connection, _ = self._listener.accept()
        return RawPlugin(connection)

    def close(self) -> None:
        """Close and remove the socket."""
        self._listener.close()
        self._path.unlink(missing_ok=True)


def mux(connection: int, payload: bytes, length: int | None = None) -> bytes:
    """Return one frame of the trunk, with any length in its head."""
    return struct.pack(">II", connection, len(payload) if length is None else length) + payload
