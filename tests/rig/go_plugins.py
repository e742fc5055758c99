"""node_sim's runtime with NRI's own adaptation: every request to a plugin goes through the Go program.

Pods, cgroups, CRI and the kubelet stay node_sim's. Registration, the wire, deadlines, the merging of answers and the
conflicts between plugins come from the public module, in the version that was compiled.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Self

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import RuntimeRefused
from nri_coloc.nri import calls
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.node import Node
from nri_coloc.sim.plugins import Plugins
from tests.rig import go_programs
from tests.rig.go_peer import GoError, Peer
from tests.rig.go_programs import Edition
from tests.rig.waiting import wait_until

SETTLE_SECONDS: Final = 180

Answer = Callable[[Any], Message]
"""From a companion's request to its answer."""


class GoNode(Node):
    """Simulate a node whose runtime speaks one version of NRI with the public module's own code."""

    def __init__(self, folder: Path, edition: Edition, machine: str = "8cpu") -> None:
        super().__init__(folder, machine, runtime_version=edition.containerd)
        runtime = self.runtime
        arguments = (self.nri_socket, edition.containerd, runtime.lock)
        self.nri = GoPlugins(edition, *arguments, runtime._snapshot, runtime._apply_asked)
        runtime.plugins = self.nri


class GoPlugins(Plugins):
    """Replace node_sim's own plugins; each start of the runtime is a process of its own."""

    def __init__(self, edition: Edition, path: Path, *others: Any) -> None:
        super().__init__(path, *others)
        self.edition = edition
        self.synchronised = 0
        self.told_bytes = 0
        self.pushed: list[nri_pb2.ContainerUpdate] = []
        self.log = path.parent / "go-runtime.log"
        self._answers: dict[str, Answer] = {}
        self._settling: Future[Any] = Future()
        self._done = Event()
        self._peer: Peer | None = None

    @property
    def peer(self) -> Peer:
        """Return the conversation with the running program."""
        assert self._peer is not None, "the runtime does not run"
        return self._peer

    @property
    def pid(self) -> int:
        """Return the pid of the runtime's process."""
        return self.peer.pid

    @property
    def names(self) -> list[str]:
        """Raise NotImplementedError: the adaptation does not report the names of its plugins."""
        raise NotImplementedError

    def listen(self) -> None:
        """Start the program; it makes the socket."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        runtime = str(go_programs.built(self.edition).runtime)
        command = [runtime, f"-socket={self._path}", f"-version=v{self._runtime_version}"]
        self._peer = Peer(command, self.log, self._question)
        self.peer.ask("listen")
        self.limit(self.request_timeout)

    def close(self) -> None:
        """End the program, and with it the connections of all plugins."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self._path.unlink(missing_ok=True)

    def ask(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> Iterator[Any]:
        """Yield the one answer that the adaptation merged from all plugins' answers."""
        request = calls.REQUESTS[kind](pod=pod)
        if container is not None:
            request.container.CopyFrom(container)
        if resources is not None:
            request.linux_resources.CopyFrom(resources)
        try:
            body = self.peer.ask(kind.value, to_json(request))
        except GoError as error:
            raise RuntimeRefused(str(error)) from error
        yield from_json(body, calls.RESPONSES[kind]())

    def limit(self, seconds: float) -> None:
        """Set how long a plugin may take for one request, in seconds; a slower plugin is dropped."""
        self.peer.ask("limit", int(seconds * 1000))

    # ---- the Go side's questions ----

    def _question(self, op: str, body: Any) -> Any:
        if op == "snapshot":
            return self._begin()
        if op == "settled":
            self._settling.set_result(body)
            self._done.wait(SETTLE_SECONDS)
            return {}
        if op == "UpdateContainers":
            asked = from_json(body, nri_pb2.UpdateContainersRequest()).update
            self.pushed += asked
            return to_json(nri_pb2.UpdateContainersResponse(failed=self._apply(asked)))
        _name, _, hook = op.partition(".")
        request = from_json(body, getattr(nri_pb2, f"{hook}Request")())
        answer = self._answers.get(op)
        return to_json(answer(request)) if answer else {}

    def _begin(self) -> Any:
        """Return what exists, and hold the runtime's lock until the new plugin is registered."""
        content: Future[Any] = Future()
        self._settling, self._done = Future(), Event()
        Thread(target=self._take_in, args=(content,), name="go-synchronise", daemon=True).start()
        return content.result(SETTLE_SECONDS)

    def _take_in(self, content: Future[Any]) -> None:
        # a lock belongs to a thread, so one thread holds it from the snapshot to the end
        with self._lock:
            pods, containers = self._snapshot()
            told = nri_pb2.SynchronizeRequest(pods=pods, containers=containers)
            self.told_bytes = told.ByteSize()
            content.set_result(to_json(told))
            try:
                settled = self._settling.result(SETTLE_SECONDS)
                if "error" in settled:
                    self.farewells.append(settled["error"])
                else:
                    self._apply(from_json(settled, nri_pb2.SynchronizeResponse()).update)
                    self.synchronised += 1
            finally:
                self._done.set()

    # ---- other plugins ----

    def companion(self, name: str, index: str, **answers: Answer) -> "Companion":
        """Return a plugin made with the official stub, for a `with` block; `answers` are by hook."""
        return Companion(self, name, index, answers)


class Companion:
    """Run another plugin on the runtime's socket, inside the Go program."""

    def __init__(self, plugins: GoPlugins, name: str, index: str, answers: dict[str, Answer]) -> None:
        self._plugins = plugins
        self._name = name
        self._index = index
        self._answers = answers

    def __enter__(self) -> Self:
        before = self._plugins.synchronised
        for hook, answer in self._answers.items():
            self._plugins._answers[f"{self._name}.{hook}"] = answer
        wanted = {"name": self._name, "index": self._index}
        validate = "ValidateContainerAdjustment" in self._answers
        self._plugins.peer.ask("join", {**wanted, "validate": validate})
        wait_until(
            lambda: self._plugins.synchronised > before, SETTLE_SECONDS, f"{self._name} to be taken in"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._plugins.peer.ask("leave", {"name": self._name})
        for hook in self._answers:
            del self._plugins._answers[f"{self._name}.{hook}"]

    def push(self, *updates: nri_pb2.ContainerUpdate) -> None:
        """Send updates by NRI's own call."""
        request = to_json(nri_pb2.UpdateContainersRequest(update=updates))
        self._plugins.peer.ask("push", {"name": self._name, "request": request})


def to_json(message: Message) -> dict[str, Any]:
    """Return a message in the form that the Go program reads."""
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found


def from_json(body: Any, message: Any) -> Any:
    """Return a message from JSON; fields that only a newer NRI has are ignored, as on the wire."""
    return ParseDict(body or {}, message, ignore_unknown_fields=True)
