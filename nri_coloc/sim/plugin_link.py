"""The runtime's connection to one plugin: a reading thread, and calls that wait for their answer.

Every call has a deadline. If a plugin misses it, its connection is closed, and the caller continues without an answer.
`adaptation` encodes and decodes the messages; the runtime uses the answers.
"""

import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from threading import Lock, Thread
from time import monotonic
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import RuntimeRefused
from nri_coloc.host import sockets
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.adaptation import Adaptation, Answered, Event, PluginRegistered, UpdatesAsked
from nri_coloc.sim.go_reader import GoFailure
from nri_coloc.ttrpc.errors import TtrpcError
from nri_coloc.ttrpc.status import Code

_RECEIVE_BYTES: Final = 65536

Updates = Sequence[nri_pb2.ContainerUpdate]
Pods = Sequence[nri_pb2.PodSandbox]
Containers = Sequence[nri_pb2.Container]
OnUpdates = Callable[[Updates], list[nri_pb2.ContainerUpdate]]
"""Apply the updates of a plugin's own call, and return the updates that failed."""


class PluginLink:
    """One plugin's connection. After it is closed, `why` is the reason."""

    def __init__(
        self, connection: socket.socket, adaptation: Adaptation, timeout: float, on_updates: OnUpdates
    ) -> None:
        self.name = ""
        self.index = ""
        self.mask = 0
        self.closed = False
        self.why = ""
        self._socket = connection
        self._adaptation = adaptation
        self._timeout = timeout
        self._on_updates = on_updates
        self._lock = Lock()
        self._waiting: dict[int, Future[Answered]] = {}
        self._registered: Future[PluginRegistered] = Future()
        # a plugin that does not read must not hold the runtime: a send has the same limit as an answer
        limit = struct.pack("ll", int(timeout), int(timeout % 1 * 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._thread = Thread(target=self._read, name="sim-plugin", daemon=True)
        self._thread.start()

    @property
    def full_name(self) -> str:
        return f"{self.index}-{self.name}"

    # ---- the handshake ----

    def register(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the plugin's registration; return False if there was none."""
        try:
            event = self._registered.result(timeout)
        except (TimeoutError, CancelledError):
            self.close(f"did not register within {timeout:g} s")
            return False
        self.name, self.index = event.name, event.index
        return True

    def configure(self) -> bool:
        """Ask the plugin for the events it subscribes to; return False if the link was closed."""
        answer = self._call(self._adaptation.configure, self._timeout)
        if answer is None or answer.code:
            self.close("did not take its configuration")
            return False
        self.mask = answer.message.events or ~0
        return True

    def synchronize(self, pods: Pods, containers: Containers) -> Updates | None:
        """Send all pods and containers under one deadline for all parts; return the plugin's updates, None on failure.

        After a failure the caller closes the link or abandons it.
        """
        end = monotonic() + self._timeout
        parts = self._adaptation.synchronize(pods, containers)
        while True:
            try:
                answer = self._exchange(lambda: next(parts, None), end - monotonic())
            except TimeoutError:
                return None
            if answer is None or answer.code:
                return None
            if not answer.message.more:
                updates: Updates = answer.message.update
                # else the plugin answered before the last part
                return updates if next(parts, None) is None else None

    # ---- hooks ----

    def hook(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> Any | None:
        """Return the plugin's answer, None if there is none; raise RuntimeRefused if it refuses the hook."""
        if not self.mask & 1 << (kind.event - 1):
            return None
        answer = self._ask(kind, pod, container, resources)
        if answer is not None and answer.code == Code.UNIMPLEMENTED and answer.method != "StateChange":
            # the adaptation now uses StateChange
            answer = self._ask(kind, pod, container, resources)
        if answer is not None and answer.code:
            raise RuntimeRefused(f"{self.full_name} refused {kind}: {answer.text}")
        return None if answer is None else answer.message

    def _ask(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None,
        resources: nri_pb2.LinuxResources | None,
    ) -> Answered | None:
        return self._call(lambda: self._adaptation.hook(kind, pod, container, resources), self._timeout)

    def _call(self, ask: Callable[[], tuple[int, bytes]], timeout: float) -> Answered | None:
        """Send a call and return its answer. After `timeout` seconds without an answer, close the link."""
        try:
            return self._exchange(ask, timeout)
        except TimeoutError:
            self.close(f"did not answer within {self._timeout:g} s")
            return None

    def _exchange(self, ask: Callable[[], tuple[int, bytes] | None], timeout: float) -> Answered | None:
        """Send a call and return its answer; None if the link is closed or there is nothing to send."""
        waiting: Future[Answered] = Future()
        try:
            with self._lock:
                asked = None if self.closed else ask()
                if asked is None:
                    return None
                self._waiting[asked[0]] = waiting
                self._socket.sendall(asked[1])
        except (OSError, TtrpcError) as error:
            self.close(f"cannot be written to: {error}")
            return None
        try:
            return waiting.result(max(0.0, timeout))
        except CancelledError:  # the reader closed the link with its reason
            return None

    # ---- received messages ----

    def _read(self) -> None:
        try:
            while data := self._socket.recv(_RECEIVE_BYTES):
                with self._lock:
                    events = self._adaptation.receive_data(data)
                    if answer := self._adaptation.data_to_send():
                        self._socket.sendall(answer)
                for event in events:
                    self._dispatch(event)
            self.close("closed its connection")
        except (OSError, TtrpcError, GoFailure) as error:
            self.close(f"failed: {type(error).__name__}: {error}")

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Answered):
            waiting = self._waiting.pop(event.stream, None)
            if waiting is not None and not waiting.cancelled():
                waiting.set_result(event)
        elif isinstance(event, PluginRegistered):
            if not self._registered.done():
                self._registered.set_result(event)
        else:
            # its own thread: the reader must be free for the answers to the runtime's hooks
            Thread(target=self._serve, args=(event,), name="sim-updates", daemon=True).start()

    def _serve(self, asked: UpdatesAsked) -> None:
        failed = self._on_updates(asked.updates)
        try:
            with self._lock:
                if self.closed:
                    return
                if failed:
                    text = "NRI update of some containers failed"
                    answer = self._adaptation.refuse(asked.stream, Code.UNKNOWN, text)
                else:
                    answer = self._adaptation.updated(asked.stream)
                self._socket.sendall(answer)
        except (OSError, TtrpcError) as error:
            self.close(f"cannot be written to: {error}")

    def close(self, why: str) -> None:
        """Close the connection; only the first reason is kept."""
        if self.closed:
            return
        self.closed, self.why = True, why
        sockets.shut_down(self._socket)
        self._socket.close()
        self._registered.cancel()
        for waiting in list(self._waiting.values()):
            waiting.cancel()
