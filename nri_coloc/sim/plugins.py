"""The runtime's NRI socket: accepts plugins, one at a time, and sends hooks to all connected plugins.

A plugin is registered and configured, then synchronised under the runtime's lock, before it gets its first hook.
On NRI 0.6 a plugin that does not synchronise in time stays connected but never gets a hook: the zombie of
nri-protocol §3.4. The caller of `ask` holds the lock.
"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import RLock, Thread
from typing import Any, Final

from nri_coloc._pb import nri_pb2
from nri_coloc.host import sockets
from nri_coloc.nri import version as versions
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.adaptation import Adaptation
from nri_coloc.sim.plugin_link import Containers, OnUpdates, PluginLink, Pods

REGISTRATION_TIMEOUT: Final = 180.0
REQUEST_TIMEOUT: Final = 180.0
"""Seconds. containerd gives a plugin 5 s and 2 s, but a test machine may stop for longer. A plugin that is dropped, or
answers neutrally, only because of that would make a test useless. Tests of late plugins set shorter times."""

Snapshot = Callable[[], tuple[Pods, Containers]]


class Plugins:
    """The connected plugins. Each `listen` creates a new socket, as a starting runtime does.

    request_timeout: seconds to wait for an answer of plugins that connect later.
    told_timeout: seconds that plugins are given as their deadline instead; None for `request_timeout`. With
        a shorter value a plugin hurries, but is not dropped.
    farewells: name and reason of each plugin that was dropped or not synchronised.
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
        """Return the names of the plugins that get hooks, in the order of their calls."""
        return [link.full_name for link in self._serving if not link.closed]

    def listen(self) -> None:
        """Create the socket and accept plugins on a thread."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        listener.listen()
        Thread(target=self._accept, args=(listener,), name="sim-nri", daemon=True).start()

    def close(self) -> None:
        """Close all connections and remove the socket, as if the runtime's process ended."""
        listener, self._listener = self._listener, None
        if listener is not None:
            sockets.shut_down(listener)
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
        """Yield each plugin's answer. A plugin that fails is dropped; a refusal raises RuntimeRefused."""
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
            if self._listener is not listener:  # closed meanwhile: no other code closes this link
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
