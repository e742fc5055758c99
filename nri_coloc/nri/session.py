"""A plugin's conversation with the runtime over one socket, without I/O.

`TRANSITIONS` is the life of a session as a table: state, input, next state. A missing entry is a protocol error.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NoReturn

from google.protobuf.message import DecodeError, Message

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from nri_coloc.nri import calls, events, multiplexer
from nri_coloc.nri import version as versions
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc.connection import Connection, Request, Response, Role
from nri_coloc.ttrpc.errors import TtrpcError
from nri_coloc.ttrpc.status import Code


# Strings, for these hash themselves; what an Enum does in Python instead, each hook would pay for twice.
class State(StrEnum):
    CONNECTED = "connected"
    REGISTERING = "registering"
    CONFIGURED = "configured"
    SYNCHRONIZING = "synchronizing"
    SERVING = "serving"
    CLOSED = "closed"


class Input(StrEnum):
    REGISTER = "register"  # ours
    REGISTERED = "registered"
    REFUSED = "refused"
    CONFIGURE = "configure"
    SYNCHRONIZE = "synchronize"
    SYNCHRONIZED = "synchronized"  # ours: the answer to its last part
    HOOK = "hook"
    PUSH = "push"  # ours: UpdateContainers


# Registration is answered at any time up to the first hook: Configure overtakes the answer.
# Hooks without a Synchronize: containerd 1.7.24 never synchronises a plugin that it launched itself.
# A second Synchronize is accepted, and hooks beside it, which may have been on their way.
TRANSITIONS: dict[State, dict[Input, State]] = {
    State.CONNECTED: {
        Input.REGISTER: State.REGISTERING,
    },
    State.REGISTERING: {
        Input.REGISTERED: State.REGISTERING,
        Input.REFUSED: State.CLOSED,
        Input.CONFIGURE: State.CONFIGURED,
    },
    State.CONFIGURED: {
        Input.REGISTERED: State.CONFIGURED,
        Input.REFUSED: State.CLOSED,
        Input.CONFIGURE: State.CONFIGURED,
        Input.SYNCHRONIZE: State.SYNCHRONIZING,
        Input.HOOK: State.CONFIGURED,
    },
    State.SYNCHRONIZING: {
        Input.REGISTERED: State.SYNCHRONIZING,
        Input.REFUSED: State.CLOSED,
        Input.SYNCHRONIZE: State.SYNCHRONIZING,
        Input.SYNCHRONIZED: State.SERVING,
        Input.HOOK: State.SYNCHRONIZING,
    },
    State.SERVING: {
        Input.REGISTERED: State.SERVING,
        Input.REFUSED: State.CLOSED,
        Input.SYNCHRONIZE: State.SYNCHRONIZING,
        # Each of two Synchronize calls is answered, and the first answer has led here already.
        Input.SYNCHRONIZED: State.SERVING,
        Input.HOOK: State.SERVING,
        Input.PUSH: State.SERVING,
    },
    State.CLOSED: {},
}

# Automatic answers are short; this many bytes unsent means that the owner stopped sending.
MAX_UNSENT_BYTES = 2 * frames.MESSAGE_LIMIT

# NRI 0.12's own checks; older versions take any name, but ours must pass everywhere.
_NAME = re.compile(r"[A-Za-z0-9._+-]+")
_INDEX = re.compile(r"[0-9]{2}")


_MORE = nri_pb2.SynchronizeResponse(more=True).SerializeToString()


class Session:
    """The plugin's side of NRI on one connection, without I/O.

    Size: one method for each message of the protocol.
    """

    def __init__(self, name: str, index: str) -> None:
        if not _NAME.fullmatch(name) or not _INDEX.fullmatch(index):
            raise LocalProtocolError(f"{index!r} and {name!r} are no index and name of a plugin")
        self.name = name
        self.index = index
        self.state = State.CONNECTED
        self._trunk = multiplexer.Trunk()
        self._server = Connection(Role.SERVER, receive_limit=frames.UNCHECKED_PEER_LIMIT)
        self._client = Connection(Role.CLIENT)
        self._registration = 0
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._cause: ProtocolError | None = None

    # ---- bytes in, events out ----

    def receive_data(self, data: bytes) -> list[events.Event]:
        self._alive()
        found: list[events.Event] = []
        try:
            for connection, part in self._trunk.receive_data(data):
                if connection == multiplexer.PLUGIN_SERVICE:
                    self._serve(part, found)
                else:
                    self._hear(part, found)
                if self.state is State.CLOSED:
                    break
        except RemoteProtocolError as error:
            self._close(error)
            raise
        except TtrpcError as error:
            raise self._close(RemoteProtocolError(str(error))) from error
        return found

    def receive_end(self) -> None:
        """The socket ended; that is a fault if it happened inside a message."""
        if self.state is State.CLOSED:
            return
        try:
            self._trunk.receive_end()
            self._server.receive_end()
            self._client.receive_end()
        except (RemoteProtocolError, TtrpcError) as error:
            raise self._close(RemoteProtocolError(str(error))) from error
        self.state = State.CLOSED

    def data_to_send(self) -> bytes:
        """The automatic answers since the last time. It may be read after the session closed."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        return data

    # ---- calls of ours ----

    def register(self) -> bytes:
        """Has no deadline: the runtime serves one plugin at a time, and our turn may be far off."""
        self._alive()
        self._move_ours(Input.REGISTER)
        request = nri_pb2.RegisterPluginRequest(
            plugin_name=self.name, plugin_idx=self.index, NRI_version=versions.OURS
        )
        self._registration, data = self._request("RegisterPlugin", request, 0)
        return data

    def update_containers(
        self, updates: Iterable[nri_pb2.ContainerUpdate], timeout_nano: int
    ) -> tuple[int, bytes]:
        """The stream of the call, by which RuntimeAnswered refers to it, and its bytes."""
        self._alive()
        self._move_ours(Input.PUSH)
        request = nri_pb2.UpdateContainersRequest(update=updates)
        if not all(update.container_id and update.linux.HasField("resources") for update in request.update):
            raise LocalProtocolError("an update without container id or resources is worse than none")
        return self._request("UpdateContainers", request, timeout_nano)

    # ---- answers of ours ----

    def answer(self, call: events.Call, message: Message | None) -> bytes:
        """None stands for the empty answer: nothing to change."""
        self._alive()
        if call.method == "Configure":
            raise LocalProtocolError("an empty answer to Configure subscribes to everything")
        if message is None:
            return self._respond(call, b"")
        if type(message) is not calls.RESPONSES[call.method]:
            raise LocalProtocolError(f"{type(message).__name__} is no answer to {call.method}")
        return self._respond(call, message.SerializeToString())

    def configure_answer(self, call: events.Call, version: versions.NriVersion) -> bytes:
        self._alive()
        if call.method != "Configure":
            raise LocalProtocolError(f"{call.method} is not Configure")
        response = nri_pb2.ConfigureResponse(events=calls.mask(version))
        return self._respond(call, response.SerializeToString())

    def neutral(self, call: events.Call) -> bytes:
        """The answer that changes nothing, for any call, for the moment when no better one exists."""
        if call.method == "Configure":
            return self.configure_answer(call, versions.OLDEST)
        return self.answer(call, None)

    def refuse(self, call: events.Call, code: int, message: str) -> bytes:
        """Fails the runtime's operation, and keeps later plugins from being asked."""
        self._alive()
        try:
            return multiplexer.frame(
                multiplexer.PLUGIN_SERVICE, self._server.send_error(call.stream, code, message)
            )
        except TtrpcError as error:
            raise LocalProtocolError(str(error)) from error

    def _respond(self, call: events.Call, payload: bytes) -> bytes:
        try:
            message = self._server.send_response(call.stream, payload)
        except TtrpcError as error:
            raise LocalProtocolError(str(error)) from error
        if call.method == "Synchronize":
            self._move_ours(Input.SYNCHRONIZED)
        return multiplexer.frame(multiplexer.PLUGIN_SERVICE, message)

    def _request(self, method: str, request: Message, timeout_nano: int) -> tuple[int, bytes]:
        try:
            stream, message = self._client.send_request(
                calls.RUNTIME, method, request.SerializeToString(), timeout_nano
            )
        except TtrpcError as error:
            raise LocalProtocolError(str(error)) from error
        return stream, multiplexer.frame(multiplexer.RUNTIME_SERVICE, message)

    # ---- the runtime's calls ----

    def _serve(self, part: memoryview, found: list[events.Event]) -> None:
        for request in self._server.receive_data(part):
            assert isinstance(request, Request)  # a server's connection yields nothing else
            self._on_request(request, found)
        for message in self._server.messages_to_send():
            self._queue(message)

    def _on_request(self, request: Request, found: list[events.Event]) -> None:
        method = request.method
        expected = calls.READ_AS.get(method)
        if request.service != calls.PLUGIN:
            self._refuse_unasked(request, Code.UNIMPLEMENTED, f"service {request.service}")
            return
        if expected is None:
            # This very code makes a runtime of 0.12 or later fall back to StateChange.
            self._refuse_unasked(request, Code.UNIMPLEMENTED, f"method {method}")
            return
        try:
            message = expected.FromString(request.payload)
        except DecodeError:
            self._refuse_unasked(request, Code.INTERNAL, f"the payload of {method} cannot be decoded")
            return
        call = events.Call(request.stream, method, request.timeout_nano)
        shape = calls.HOOKS_BY_METHOD.get(method)
        if shape is not None:
            self._on_hook(call, shape, message, found)
        elif method == "StateChange":
            self._on_state_change(call, message, found)
        elif method == "Configure":
            self._on_configure(call, message, found)
        elif method == "Synchronize":
            self._on_synchronize(call, message, found)
        else:
            # Shutdown: no containerd sends it; the end of the socket is the farewell that counts.
            self._queue(self._server.send_response(call.stream, b""))

    def _on_hook(
        self, call: events.Call, shape: calls.HookShape, message: Any, found: list[events.Event]
    ) -> None:
        self._move(Input.HOOK)
        container = message.container if shape.has_container else None
        resources = message.linux_resources if shape.has_resources else None
        found.append(events.Hook(call, shape.kind, message.pod, container, resources))

    def _on_state_change(
        self, call: events.Call, message: told_pb2.StateChange, found: list[events.Event]
    ) -> None:
        shape = calls.HOOKS_BY_EVENT.get(message.event)
        if shape is None:
            self._queue(self._server.send_response(call.stream, b""))
        else:
            self._on_hook(call, shape, message, found)

    def _on_configure(
        self, call: events.Call, message: nri_pb2.ConfigureRequest, found: list[events.Event]
    ) -> None:
        self._move(Input.CONFIGURE)
        configured = events.Configured(
            call=call,
            runtime_name=message.runtime_name,
            runtime_version=message.runtime_version,
            nri_version=versions.infer(message.NRI_version, message.runtime_name, message.runtime_version),
            config=message.config,
            request_timeout_ms=message.request_timeout,
        )
        found.append(configured)

    def _on_synchronize(
        self, call: events.Call, message: told_pb2.Synchronize, found: list[events.Event]
    ) -> None:
        self._move(Input.SYNCHRONIZE)
        if message.more:
            self._queue(self._server.send_response(call.stream, _MORE))
        found.append(events.Synchronize(call, message.pods, message.containers, message.more))

    # ---- the runtime's answers ----

    def _hear(self, part: memoryview, found: list[events.Event]) -> None:
        for response in self._client.receive_data(part):
            assert isinstance(response, Response)  # a client's connection yields nothing else
            if response.stream != self._registration:
                found.append(events.RuntimeAnswered(*response))
            elif response.code == Code.OK:
                self._move(Input.REGISTERED)
                found.append(events.Registered())
            else:
                self._move(Input.REFUSED)
                found.append(events.RegistrationRefused(response.code, response.message))

    # ---- state ----

    def _alive(self) -> None:
        if self.state is State.CLOSED:
            raise LocalProtocolError("the session is closed") from self._cause

    def _move(self, received: Input) -> None:
        after = TRANSITIONS[self.state].get(received)
        if after is None:
            self._blame(f"{received.value} came while {self.state.value}")
        self.state = after

    def _move_ours(self, wanted: Input) -> None:
        after = TRANSITIONS[self.state].get(wanted)
        if after is None:
            raise LocalProtocolError(f"{wanted.value} is not possible while {self.state.value}")
        self.state = after

    def _blame(self, text: str) -> NoReturn:
        raise RemoteProtocolError(text)

    def _close(self, cause: RemoteProtocolError) -> RemoteProtocolError:
        self.state = State.CLOSED
        self._cause = cause
        return cause

    def _refuse_unasked(self, request: Request, code: Code, text: str) -> None:
        self._queue(self._server.send_error(request.stream, code, text))

    def _queue(self, message: bytes) -> None:
        self._unsent_bytes += len(message)
        if self._unsent_bytes > MAX_UNSENT_BYTES:
            self._blame("the peer asks faster than it reads the answers")
        self._unsent.append(multiplexer.frame(multiplexer.PLUGIN_SERVICE, message))
