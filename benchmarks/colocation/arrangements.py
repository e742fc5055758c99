"""The arrangements that are compared: the class of the offline pod for the kubelet, and whether our daemon runs."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.colocation import kubelet
from nri_coloc.cli.main import main
from tests.rig import RigError, kubepods
from tests.rig.containerd import Containerd
from tests.rig.daemon import PROGRAM, Daemon

DAEMON_SHARES: Final = 256
"""Its DaemonSet requests 250m, which the kubelet rounds down to this."""


_MAY_THROTTLE: Final = "classes: {reclaimed: {allowNamespaces: [default]}}\n"
"""Lets the reclaimed pod, which is in this namespace, name a blockio class."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Describe one arrangement.

    burstable: the offline pod has a CPU request of half the node, as users set it if nothing forbids it.
    throttled: it asks for a class of the runtime's that bounds its writes.
    """

    name: str
    offline: bool = True
    ours: bool = False
    burstable: bool = False
    throttled: bool = False

    def suits(self, kind: str) -> bool:
        """Return whether the arrangement changes anything for this kind of work."""
        return kind == "disk" or not self.throttled


ALONE: Final = Arrangement("alone", offline=False)
ALL: Final = (
    ALONE,
    Arrangement("plain"),
    Arrangement("ours", ours=True),
    Arrangement("plain-burstable", burstable=True),
    Arrangement("ours-burstable", ours=True, burstable=True),
    Arrangement("ours-throttled", ours=True, throttled=True),
)


@contextmanager
def seated_daemon(
    containerd: Containerd, reclaim: str, *, mode: str = "enforce", program: Sequence[str] = PROGRAM
) -> Iterator[Daemon]:
    """Run our daemon with the weight of its DaemonSet; at its end every file and task has its original value.

    reclaim: more settings of that section beside the defaults, such as `cpuWatermark: 120`.
    program: arguments of Python before the command.
    """
    keys = ", ".join(filter(None, ["enabled: true", reclaim]))
    config = f"mode: {mode}\n{_MAY_THROTTLE}reclaim: {{{keys}}}\n"
    with Daemon(containerd, config=config, program=program) as daemon:
        seat(daemon, containerd)
        daemon.wait_synchronised()
        try:
            yield daemon
        finally:
            daemon.terminate()
            _restore(containerd, daemon.state_dir)


def _restore(containerd: Containerd, state_dir: Path) -> None:
    words, sockets = (
        io.StringIO(),
        (f"--nri-socket={containerd.nri_socket}", f"--cri-socket={containerd.cri_socket}"),
    )
    with redirect_stdout(words):
        failed = main(["restore", f"--state-dir={state_dir}", *sockets], {})
    if failed:
        raise RigError(f"the daemon's values could not be put back: {words.getvalue()}")


def seat(daemon: Daemon, containerd: Containerd) -> None:
    """Move the daemon into a pod's cgroup of its own."""
    cgroup = f"{kubelet.BURSTABLE}/podnri-coloc"
    containerd.ledger.add(cgroup)
    kubepods.create(cgroup)
    kubelet.weigh(cgroup, DAEMON_SHARES)
    for folder in kubepods.folders(cgroup):
        Path(folder, "cgroup.procs").write_text(str(daemon.pid))
