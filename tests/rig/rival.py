"""Another NRI plugin on the same containerd: slow, or with a will of its own about a container's CPUs.

It is a plain loop over the project's own session; what it shares with the product is the wire and nothing else.
"""

import socket
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import ProtocolError
from nri_coloc.nri import events
from nri_coloc.nri.session import Session
from nri_coloc.nri.subscription import HookKind

TAKEN_IN_SECONDS: Final = 20
PIN: Final = "rig.test/rival-pins"
"""The annotation by which a pod asks the rival for CPUs; it keeps its hands off all others."""

SLOW: Final = "rig.test/rival-thinks"
"""The annotation by which a pod makes the rival think so many seconds about each of its containers."""


class Rival:
    """One plugin, used with `with`; `index` is its place among the plugins, ours is 50."""

    def __init__(self, path: Path, index: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._session = Session("rival", index)
        self._welcome, self.dropped = Event(), Event()
        self._thread = Thread(target=self._serve, name="rival", daemon=True)

    def __enter__(self) -> Self:
        self._socket.sendall(self._session.register())
        self._thread.start()
        assert self._welcome.wait(TAKEN_IN_SECONDS), "the runtime did not take the rival in"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            self.dropped.set()  # the runtime was first
        self._thread.join(TAKEN_IN_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        try:
            while data := self._socket.recv(1 << 15):
                found = self._session.receive_data(data)
                self._socket.sendall(self._session.data_to_send())
                for event in found:
                    self._take(event)
        except (OSError, ProtocolError):
            pass  # whoever drops a plugin that is too slow says nothing
        self.dropped.set()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Configured():
                self._socket.sendall(self._session.configure_answer(event.call, event.nri_version))
            case events.Synchronize():
                self._socket.sendall(self._session.answer(event.call, nri_pb2.SynchronizeResponse()))
                self._welcome.set()
            case events.Hook():
                self._socket.sendall(self._session.answer(event.call, _answer(event)))


def _answer(hook: events.Hook) -> nri_pb2.CreateContainerResponse | None:
    if hook.kind is not HookKind.CREATE_CONTAINER:
        return None
    Event().wait(float(hook.pod.annotations.get(SLOW, "0")))
    if PIN not in hook.pod.annotations:
        return None
    answer = nri_pb2.CreateContainerResponse()
    answer.adjust.linux.resources.cpu.cpus = hook.pod.annotations[PIN]
    return answer
