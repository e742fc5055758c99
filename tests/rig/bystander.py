"""Another NRI plugin that changes nothing: it counts every event, and notices when the runtime drops it."""

import socket
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import ProtocolError
from nri_coloc.nri import events
from nri_coloc.nri.session import Session

TAKEN_IN_SECONDS: Final = 180


class Bystander:
    """Run one plugin in a `with` block.

    `heard`: the number of hooks by kind.
    `index`: its place among plugins; the product's is 50.
    """

    def __init__(self, path: Path, index: str, name: str = "bystander") -> None:
        self.heard: Counter[str] = Counter()
        self.dropped = Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._session = Session(name, index)
        self._welcome = Event()
        self._thread = Thread(target=self._serve, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._socket.sendall(self._session.register())
        self._thread.start()
        assert self._welcome.wait(TAKEN_IN_SECONDS), f"the runtime did not take {self._thread.name} in"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            self.dropped.set()  # the runtime closed the connection first
        self._thread.join(TAKEN_IN_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        try:
            while data := self._socket.recv(1 << 16):
                found = self._session.receive_data(data)
                self._socket.sendall(self._session.data_to_send())
                for event in found:
                    self._take(event)
        except (OSError, ProtocolError):
            pass  # the runtime sends no message when it drops a plugin, in most cases because the plugin is too slow
        self.dropped.set()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Configured():
                self._socket.sendall(self._session.configure_answer(event.call, event.nri_version))
            case events.Synchronize(more=False):
                self._socket.sendall(self._session.answer(event.call, nri_pb2.SynchronizeResponse()))
                self._welcome.set()
            case events.Hook():
                self.heard[event.kind.value] += 1
                self._socket.sendall(self._session.answer(event.call, self.answer(event)))

    def answer(self, hook: events.Hook) -> nri_pb2.CreateContainerResponse | None:
        """Return no change; a subclass returns its own answer."""
