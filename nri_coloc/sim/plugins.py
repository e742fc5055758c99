"""The runtime's NRI socket: takes plugins, one at a time, and asks those that are there.

A plugin is registered, configured and synchronised under the runtime's lock before it gets its first hook.
On NRI 0.6 one that fails to synchronise in time stays connected and is never asked again: the zombie of
nri-protocol §3.4. The caller of `ask` holds the lock.
"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import RLock, Thread
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import version as versions
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.adaptation import Adaptation
from nri_coloc.sim.plugin_link import Containers, OnUpdates, PluginLink, Pods

REGISTRATION_TIMEOUT: Final = 180.0
REQUEST_TIMEOUT: Final = 180.0
"""containerd gives a plugin 5 s and 2 s. The machine below may stand still for longer, and a plugin that is dropped for
that, or hurries and answers neutrally, shows nothing; a test of either sets the times itself."""

Snapshot = Callable[[], tuple[Pods, Containers]]


class Plugins:
    """`listen` makes the socket anew each time, as a runtime does when it starts.

    `request_timeout`, of whoever connects from now on: how long an answer is waited for. `told_timeout`: what plugins
    are told instead of it, who then hurry and are not dropped.
    """

    def __init__(
        self, path: Path, runtime_version: str, lock: RLock, snapshot: Snapshot, apply: OnUpdates
    ) -> None:
        self.version = versions.infer("", "containerd", runtime_version)
        self.request_timeout = REQUEST_TIMEOUT
        self.told_timeout: float | None = None
        self.farewells: list[str] = []
        self._path = path
        self._runtime_version = runtime_version
        self._lock = lock
        self._snapshot = snapshot
        self._apply = apply
        self._serving: list[PluginLink] = []
        self._links: list[PluginLink] = []
        self._listener: socket.socket | None = None

    @property
    def names(self) -> list[str]:
        """The plugins that get hooks, in the order in which they are asked."""
        return [link.full_name for link in self._serving if not link.closed]

    def listen(self) -> None:
        """Make the socket and accept plugins on a thread."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        listener.listen()
        Thread(target=self._accept, args=(listener,), name="sim-nri", daemon=True).start()

    def close(self) -> None:
        """End every connection and remove the socket, as when the runtime dies."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)  # close alone does not wake the thread in accept
            listener.close()
        self._path.unlink(missing_ok=True)
        for link in self._links:
            link.close("the runtime ended")
        self._links.clear()
        self._serving.clear()

    def ask(
        self,
        kind: HookKind,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container | None = None,
        resources: nri_pb2.LinuxResources | None = None,
    ) -> Iterator[Any]:
        """Yield each plugin's answer; those that fail are dropped, a refusal ends the round."""
        try:
            for link in list(self._serving):
                answer = link.hook(kind, pod, container, resources)
                if answer is not None:
                    yield answer
        finally:
            self._prune()

    def _prune(self) -> None:
        self.farewells += [f"{link.full_name} {link.why}" for link in self._serving if link.closed]
        self._serving = [link for link in self._serving if not link.closed]
        self._links = [link for link in self._links if not link.closed]

    # ---- new plugins ----

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            timeout_ms = int((self.told_timeout or self.request_timeout) * 1000)
            adaptation = Adaptation(self.version, f"v{self._runtime_version}", timeout_ms=timeout_ms)
            link = PluginLink(connection, adaptation, self.request_timeout, self._apply)
            self._links.append(link)
            if self._listener is not listener:  # closed meanwhile: no other thread will end this one
                link.close("the runtime ended")
            elif link.register(REGISTRATION_TIMEOUT) and link.configure():
                self._welcome(link)

    def _welcome(self, link: PluginLink) -> None:
        with self._lock:
            pods, containers = self._snapshot()
            updates = link.synchronize(pods, containers)
            if updates is None:
                if not versions.late_sync_leaves_zombie(self.version):
                    link.close("did not take Synchronize")
                self.farewells.append(f"{link.full_name} was not synchronised")
                return
            self._apply(updates)
            self._serving = sorted((*self._serving, link), key=lambda one: one.index)
