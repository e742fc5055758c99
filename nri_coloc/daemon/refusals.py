"""What the kernel refuses is tried again after a pause that doubles: what is wrong seldom mends itself within seconds.

EINVAL, EBUSY and EACCES come of the cgroups around one, and of rules that the kernel does not tell. Only looks pause,
which come again and again: what is wanted anew is written at once, and what an operator orders forgives everything.
"""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from nri_coloc.errors import KernelInterfaceError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Drift of other files in that cgroup waits equally long."""


class _Pause(NamedTuple):
    until: float
    seconds: float


class Refusals:
    """By id, of whatever kind the caller has. One instance is used under one lock, or by one thread."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def tried(self, id_: str, failures: Sequence[KernelInterfaceError]) -> None:
        """Take note of a try: what the kernel took ends the pauses, what it refused begins a longer one."""
        if not failures:
            self._pauses.pop(id_, None)
            return
        known = self._pauses.get(id_)
        seconds = min(2 * known.seconds, LONGEST_PAUSE_S) if known is not None else FIRST_PAUSE_S
        self._pauses[id_] = _Pause(time.monotonic() + seconds, seconds)

    def refused(self, id_: str) -> bool:
        """Whether its last try was refused."""
        return id_ in self._pauses

    def pauses(self, id_: str) -> bool:
        """Whether its next try is not due."""
        pause = self._pauses.get(id_)
        return pause is not None and time.monotonic() < pause.until

    def forget(self, id_: str) -> None:
        """Drop one that is gone, or of which something else is wanted."""
        self._pauses.pop(id_, None)

    def forgive(self) -> None:
        """Let everything be tried again at once."""
        self._pauses.clear()

    @property
    def ids(self) -> set[str]:
        """Of whom anything is known."""
        return {*self._pauses}
