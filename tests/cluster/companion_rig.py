"""The companion as its own process, between a test that plays the daemon and a real API server."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.kubernetes.event_box import EventBox
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import State, Summary
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.kubernetes.serving import CompanionServer
from tests.cluster.namespace import ends
from tests.rig.eviction_orders import FewOrders
from tests.rig.node_side import NodeSide
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

PROJECT: Final = Path(__file__).parents[2]
GIB: Final = 1 << 30
OFFER: Final = State(
    age_s=1.0,
    lending=Lending.ON,
    offer=Amounts(2000, 4 * GIB),
    node=Amounts(8000, 16 * GIB),
    summary=Summary(outlook=tuple(Amounts(1000 + hour, hour * GIB) for hour in range(24))),
)
SETTINGS: Final = KubernetesSettings(report=True, companion_uid=os.geteuid(), companion_gid=os.getegid())
CONNECTED_S: Final = 30.0

Spawn = Callable[[Sequence[str], IO[bytes]], "subprocess.Popen[bytes]"]


class Quiet:
    """A log that keeps nothing."""

    def info(self, event: str, **fields: Any) -> None: ...

    def warning(self, event: str, **fields: Any) -> None: ...


class CompanionRig:
    """The companion of one node. `state` is the daemon's; another value is published at once."""

    def __init__(self, node: str, kubeconfig: Path, folder: Path, spawn: Spawn) -> None:
        self.state = OFFER
        self.events = EventBox()
        self._folder = folder
        self._spawn = spawn
        self._socket = folder / "daemon" / "cluster.sock"
        self.orders, self.side = FewOrders(), NodeSide(lambda: self.state)
        self._server = CompanionServer(
            str(self._socket),
            self.side,
            orders=self.orders,
            events=self.events,
            version="0.1.0",
            log=Quiet(),
        )
        names = {"--node": node, "--kubeconfig": kubeconfig, "--socket": self._socket}
        flags = [str(part) for pair in names.items() for part in pair]
        self._command = [sys.executable, "-m", "tests.rig.hasty_companion", *flags]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the companion's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Serve the daemon's socket and start the companion."""
        self.start_daemon()
        self.start_companion()

    def start_daemon(self) -> None:
        """Open the daemon's socket."""
        self._server.look(SETTINGS)

    def stop_daemon(self) -> None:
        """Close the daemon's socket, as a daemon that ends does."""
        self._server.close()

    def start_companion(self) -> None:
        """Start the companion's process and wait until it is connected."""
        with (self._folder / "companion.log").open("ab") as log:
            self._process = self._spawn(self._command, log)
        wait_until(lambda: "connected to the daemon" in self.log(), CONNECTED_S, "a connected companion")

    def stop_companion(self) -> int:
        """End the companion with SIGTERM; return its exit code."""
        process, self._process = self._process, None
        ends(process, PATIENCE_SECONDS)
        return 0 if process is None else process.returncode

    def log(self) -> str:
        """Return the companion's log."""
        return (self._folder / "companion.log").read_text()

    def stop(self) -> None:
        """End both."""
        self.stop_companion()
        self.stop_daemon()


def spawn_here(command: Sequence[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a program in this machine's own namespaces."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=PROJECT, start_new_session=True
    )


@contextmanager
def reporting_for(node: str, kubeconfig: Path, spawn: Spawn = spawn_here) -> Iterator[CompanionRig]:
    """Run a companion for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="companion-") as folder:
        rig = CompanionRig(node, kubeconfig, Path(folder), spawn)
        try:
            rig.start()
            yield rig
        finally:
            rig.stop()
