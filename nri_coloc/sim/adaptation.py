"""Simulate the runtime's side of NRI without I/O (containerd calls it the adaptation).

It registers one plugin, configures and synchronises it, sends it hooks and takes its updates, as a chosen NRI version
does. The plugin's bytes go through `go_reader`, so a framing that would break containerd fails here too. The caller
does the I/O, and decides order and time.

From NRI 0.12 on each event has a call of its own. If a plugin answers one with "unimplemented", it gets StateChange
from then on, and the caller sends that event again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message as ProtobufMessage

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls, multiplexer
from nri_coloc.nri import version as versions
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.go_reader import GoReader, Message
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc.connection import Connection, Request, Response, Role
from nri_coloc.ttrpc.status import Code

# containerd's default plugin_request_timeout.
REQUEST_TIMEOUT_MS = 2000
REGISTRATION_TIMEOUT_MS = 5000
# With fewer objects a runtime stops shrinking a Synchronize that is still too large.
FEWEST_OBJECTS = 8
# Bytes that the envelope adds to a part: service, method and deadline.
ENVELOPE_ROOM = 128


@dataclass(frozen=True, slots=True)
class PluginRegistered:
    name: str
    index: str
    nri_version: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The plugin's answer; `message` is empty if the status is an error."""

    stream: int
    method: str
    code: int
    text: str
    message: Any  # the response of `method`: these classes share no base that knows their fields


@dataclass(frozen=True, slots=True)
class UpdatesAsked:
    """The plugin called UpdateContainers; answer with `updated`."""

    stream: int
    updates: Sequence[nri_pb2.ContainerUpdate]
    timeout_nano: int


Event = PluginRegistered | Answered | UpdatesAsked


class Adaptation:
    """One plugin's connection, as a runtime of `version` holds it."""

    def __init__(
        self,
        version: versions.NriVersion = (0, 12, 1),
        runtime_version: str = "v2.4.0",
        *,
        message_limit: int = frames.MESSAGE_LIMIT,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.version = version
        self.runtime_version = runtime_version
        self.state_change_only = not versions.has_dedicated_calls(version)
        self._timeout_ms = timeout_ms
        self._message_limit = message_limit
        # NRI 0.6 sends messages of any size; later versions check the size first.
        limit = message_limit if versions.splits_synchronize(version) else frames.UNCHECKED_PEER_LIMIT
        self._client = Connection(Role.CLIENT, send_limit=limit)
        self._server = Connection(Role.SERVER)
        self._reader = GoReader()
        self._methods: dict[int, str] = {}
        self._unsent: list[bytes] = []

    def receive_data(self, data: bytes) -> list[Event]:
        found: list[Event] = []
        for message in self._reader.receive_data(data):
            connection = self._client if message.connection == multiplexer.PLUGIN_SERVICE else self._server
            for event in connection.receive_data(_again(message)):
                found += self._on_answer(event) if isinstance(event, Response) else self._on_call(event)
        self._unsent += [
            multiplexer.frame(multiplexer.RUNTIME_SERVICE, message)
            for message in self._server.messages_to_send()
        ]
        return found

    def data_to_send(self) -> bytes:
        data = b"".join(self._unsent)
        self._unsent.clear()
        return data

    # ---- calls to the plugin: (stream, bytes) ----

    def configure(self, config: str = "") -> tuple[int, bytes]:
        request = nri_pb2.ConfigureRequest(
            config=config, runtime_name="containerd", runtime_version=self.runtime_version
        )
        if versions.splits_synchronize(self.version):  # the same version added the time limits
            request.registration_timeout = REGISTRATION_TIMEOUT_MS
            request.request_timeout = self._timeout_ms
        if versions.has_dedicated_calls(self.version):  # the version that added these calls added NRI_version
            request.NRI_version = "v{}.{}.{}".format(*self.version)
        return self.call("Configure", request)

    def synchronize(
        self, pods: Sequence[nri_pb2.PodSandbox], containers: Sequence[nri_pb2.Container]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the parts as (stream, bytes). Take the next part after the plugin has answered the previous one."""
        if not versions.splits_synchronize(self.version):
            yield self.call("Synchronize", nri_pb2.SynchronizeRequest(pods=pods, containers=containers))
            return
        for part in split(pods, containers, self._message_limit - ENVELOPE_ROOM):
            yield self.call("Synchronize", part)

    def hook(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> tuple[int, bytes]:
        if self.state_change_only and kind.by_state_change:
            event = nri_pb2.StateChangeEvent(event=kind.name, pod=pod, container=container)
            return self.call("StateChange", event)
        request = calls.REQUESTS[kind](pod=pod)
        if container is not None:
            request.container.CopyFrom(container)
        if resources is not None:
            request.linux_resources.CopyFrom(resources)
        return self.call(kind, request)

    def call(self, method: str, request: ProtobufMessage) -> tuple[int, bytes]:
        stream, message = self._client.send_request(
            calls.PLUGIN, method, request.SerializeToString(), self._timeout_ms * 1_000_000
        )
        self._methods[stream] = str(method)
        return stream, multiplexer.frame(multiplexer.PLUGIN_SERVICE, message)

    # ---- answers to the plugin ----

    def updated(self, stream: int, failed: Sequence[nri_pb2.ContainerUpdate] = ()) -> bytes:
        response = nri_pb2.UpdateContainersResponse(failed=failed)
        message = self._server.send_response(stream, response.SerializeToString())
        return multiplexer.frame(multiplexer.RUNTIME_SERVICE, message)

    def refuse(self, stream: int, code: int, text: str) -> bytes:
        return multiplexer.frame(multiplexer.RUNTIME_SERVICE, self._server.send_error(stream, code, text))

    # ---- messages from the plugin ----

    def _on_answer(self, response: Response) -> list[Event]:
        method = self._methods.pop(response.stream)
        if response.code == Code.UNIMPLEMENTED and method in calls.HOOKS_BY_METHOD:
            self.state_change_only = True
        message = calls.RESPONSES[method].FromString(response.payload)
        return [Answered(response.stream, method, response.code, response.message, message)]

    def _on_call(self, request: Request) -> list[Event]:
        if request.method == "RegisterPlugin":
            asked = nri_pb2.RegisterPluginRequest.FromString(request.payload)
            answer = self._server.send_response(request.stream, b"")
            self._unsent.append(multiplexer.frame(multiplexer.RUNTIME_SERVICE, answer))
            return [PluginRegistered(asked.plugin_name, asked.plugin_idx, asked.NRI_version)]
        if request.method == "UpdateContainers":
            update = nri_pb2.UpdateContainersRequest.FromString(request.payload).update
            return [UpdatesAsked(request.stream, update, request.timeout_nano)]
        self._unsent.append(self.refuse(request.stream, Code.UNIMPLEMENTED, f"method {request.method}"))
        return []


def split(
    pods: Sequence[nri_pb2.PodSandbox], containers: Sequence[nri_pb2.Container], limit: int
) -> list[nri_pb2.SynchronizeRequest]:
    """Return parts of at most `limit` bytes, shrunk as a runtime does: by the ratio, at least by a tenth."""
    parts = []
    left, right = len(pods), len(containers)
    while True:
        part = nri_pb2.SynchronizeRequest(pods=pods[:left], containers=containers[:right])
        part.more = left < len(pods) or right < len(containers)
        size = part.ByteSize()
        if size > limit and left + right > FEWEST_OBJECTS:
            ratio = min(0.9, limit / size)
            left, right = int(left * ratio), int(right * ratio)
            if left + right < FEWEST_OBJECTS:
                left, right = min(len(pods), FEWEST_OBJECTS // 2), min(len(containers), FEWEST_OBJECTS // 2)
            continue
        parts.append(part)
        if not part.more:
            return parts
        pods, containers = pods[left:], containers[right:]
        left, right = min(left, len(pods)), min(right, len(containers))


def _again(message: Message) -> bytes:
    """Return the message as on the wire, for our decoder; discarded bytes are zeros."""
    if message.oversized:
        header = frames.HEADER.pack(message.oversized, message.stream, message.message_type, 0)
        return header + bytes(message.oversized)
    return frames.frame(message.stream, message.message_type, message.body)
