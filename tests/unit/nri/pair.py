"""A session and a runtime that exchange their bytes; both are the real code.

Events come back as Any: a test knows the event that it caused, and a wrong event fails its next line.
"""

from collections.abc import Callable
from typing import Any

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls, events, multiplexer
from nri_coloc.nri.session import Session
from nri_coloc.nri.version import NriVersion
from nri_coloc.sim import adaptation
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2

NEWEST = (0, 12, 1)
OLDEST = (0, 6, 1)
POD = nri_pb2.PodSandbox(id="p", name="web", namespace="shop")
CONTAINER = nri_pb2.Container(id="c", pod_sandbox_id="p", name="app")
RESOURCES = nri_pb2.LinuxResources(cpu=nri_pb2.LinuxCPU(cpus="0-3"))


class Pair:
    def __init__(
        self, version: NriVersion = NEWEST, release: str = "v2.4.0", message_limit: int = 4 << 20
    ) -> None:
        self.runtime = adaptation.Adaptation(version, release, message_limit=message_limit)
        self.session = Session("nri-coloc", "50")
        # Events of the runtime after automatic answers.
        self.heard: list[Any] = []

    def tell(self, data: bytes) -> list[Any]:
        """Give the runtime's bytes to the session and its automatic answers back; return the session's events."""
        found: list[Any] = list(self.session.receive_data(data))
        self.heard += self.runtime.receive_data(self.session.data_to_send())
        return found

    def reply(self, data: bytes) -> Any:
        """Give the session's bytes to the runtime; return the one event that they make."""
        (event,) = self.runtime.receive_data(data)
        return event

    def call(self, sent: tuple[int, bytes]) -> Any:
        (event,) = self.tell(sent[1])
        return event

    def register(self) -> "Pair":
        self.reply(self.session.register())
        assert self.tell(self.runtime.data_to_send()) == [events.Registered()]
        return self

    def configure(self) -> "Pair":
        self.register()
        event = self.call(self.runtime.configure())
        assert isinstance(event, events.Configured)
        self.reply(self.session.configure_answer(event.call, event.nri_version))
        return self

    def serve(self) -> "Pair":
        self.configure()
        for sent in self.runtime.synchronize([], []):
            event = self.call(sent)
            self.reply(self.session.answer(event.call, None))
        return self


def pods(count: int, size: int = 100) -> list[nri_pb2.PodSandbox]:
    return [nri_pb2.PodSandbox(id=f"pod-{i}", annotations={"filler": "x" * size}) for i in range(count)]


def containers(count: int, size: int = 100) -> list[nri_pb2.Container]:
    return [nri_pb2.Container(id=f"ctr-{i}", annotations={"filler": "x" * size}) for i in range(count)]


def raises_alike(error: type[Exception], *verbs: Callable[[], object]) -> list[Exception]:
    """Call every verb, which must raise `error`; return the errors."""
    raised: list[Exception] = []
    for verb in verbs:
        try:
            verb()
        except error as found:
            raised.append(found)
        else:
            raise AssertionError(f"{verb} raised nothing")
    return raised


def request(stream: int, method: str, payload: bytes, service: str = calls.PLUGIN) -> bytes:
    envelope = ttrpc_pb2.Request(service=service, method=method, payload=payload)
    message = frames.frame(stream, frames.REQUEST, envelope.SerializeToString())
    return multiplexer.frame(multiplexer.PLUGIN_SERVICE, message)


def answers(data: bytes) -> list[tuple[int, int, str]]:
    """Return (stream, code, text) of the session's automatic answers; each message has frames of its own."""
    found = []
    for _, message in multiplexer.Trunk().receive_data(data):
        _, stream, _, _ = frames.HEADER.unpack_from(message)
        status = ttrpc_pb2.Response.FromString(bytes(message[frames.HEADER_SIZE :])).status
        found.append((stream, status.code, status.message))
    return found


def refusal(stream: int, code: int, text: str) -> bytes:
    envelope = ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=code, message=text))
    return frames.frame(stream, frames.RESPONSE, envelope.SerializeToString())
