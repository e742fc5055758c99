"""What the start of a container with CPUs of its own waits for: that all who used them are gone, as read back."""

from threading import Event

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Moves


class Barrier:
    """Counts down the cgroups that must have left some CPUs; waiting is bounded by whoever waits."""

    def __init__(self, taken: CPUMask, moves: Moves) -> None:
        self.taken = taken
        self._open = {("pod", k) for k in moves.pods} | {("container", k) for k in moves.containers}
        self._done = Event()
        if not self._open:
            self._done.set()

    def settle(self, kind: str, id_: str, cpus: CPUMask | None) -> None:
        """Take note of what a cgroup was read back with; None is a cgroup that does not exist."""
        if cpus is None or not cpus & self.taken:
            self._open.discard((kind, id_))
        if not self._open:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait until everyone has left; False if the time is over."""
        return self._done.wait(seconds)

    @property
    def open(self) -> int:
        """How many are still to be moved."""
        return len(self._open)
