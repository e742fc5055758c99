"""A plugin whose answers a test has written: the real session on a thread of its own."""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import events
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import Session

Answer = Callable[[events.Hook], Any]


class Refusal(Exception):
    """An answer raises it to refuse the hook."""


class ScriptedPlugin:
    def __init__(
        self,
        path: Path,
        answers: Mapping[HookKind, Answer] | None = None,
        *,
        index: str = "50",
        on_synchronize: Callable[[events.Synchronize], Any] = lambda _: None,
    ) -> None:
        self.answers = dict(answers or {})
        self.hooks: list[events.Hook] = []
        self.synchronized: list[events.Synchronize] = []
        self.answered: list[events.RuntimeAnswered] = []
        self.ended = False
        self._on_synchronize = on_synchronize
        self.session = Session("scripted", index)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._thread = Thread(target=self._run, daemon=True)
        self._socket.sendall(self.session.register())
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kinds(self) -> list[HookKind]:
        return [hook.kind for hook in self.hooks]

    def push(self, *updates: nri_pb2.ContainerUpdate) -> None:
        self._socket.sendall(self.session.update_containers(updates, 0)[1])

    def close(self) -> None:
        with suppress(OSError):  # the runtime may have closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        self._socket.close()

    def _run(self) -> None:
        try:
            while data := self._socket.recv(1 << 16):
                found = self.session.receive_data(data)
                self._socket.sendall(self.session.data_to_send())
                for event in found:
                    self._serve(event)
        except OSError:
            pass
        self.ended = True

    def _serve(self, event: events.Event) -> None:
        match event:
            case events.Configured():
                self._socket.sendall(self.session.configure_answer(event.call, event.nri_version))
            case events.Synchronize():
                self.synchronized.append(event)
                if not event.more:
                    self._socket.sendall(self.session.answer(event.call, self._on_synchronize(event)))
            case events.Hook():
                self.hooks.append(event)
                self._answer(event)
            case events.RuntimeAnswered():
                self.answered.append(event)

    def _answer(self, hook: events.Hook) -> None:
        answer = self.answers.get(hook.kind, _nothing)
        try:
            self._socket.sendall(self.session.answer(hook.call, answer(hook)))
        except Refusal as refusal:
            self._socket.sendall(self.session.refuse(hook.call, 2, str(refusal)))


def _nothing(_hook: events.Hook) -> None:
    """Answer without changes."""


def adjustment(
    cpus: str = "", annotations: Mapping[str, str] | None = None
) -> nri_pb2.CreateContainerResponse:
    response = nri_pb2.CreateContainerResponse()
    response.adjust.annotations.update(annotations or {})
    response.adjust.linux.resources.cpu.cpus = cpus
    return response


def update_of(container_id: str, cpus: str = "") -> nri_pb2.ContainerUpdate:
    update = nri_pb2.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.cpus = cpus
    return update
