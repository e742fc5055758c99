"""Retry writes that the kernel refused, after a pause that doubles: the cause seldom ends within seconds.

EINVAL, EBUSY and EACCES come from neighbouring cgroups, and from rules that the kernel does not report. Only periodic
checks pause. A new value is written at once, and an operator's order ends all pauses.
"""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from nri_coloc.errors import KernelInterfaceError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Drift of other files in that cgroup waits as long."""


class _Pause(NamedTuple):
    until: float
    seconds: float


class Refusals:
    """Pauses before a write that the kernel refused is tried again, by the caller's id (path, pod or container).

    The pause doubles with each refusal, and a success ends it. One instance is used under one lock, or by one thread.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def tried(self, id_: str, failures: Sequence[KernelInterfaceError]) -> None:
        """Note a try: success ends the pauses, and a failure begins a longer one."""
        if not failures:
            self._pauses.pop(id_, None)
            return
        known = self._pauses.get(id_)
        seconds = min(2 * known.seconds, LONGEST_PAUSE_S) if known is not None else FIRST_PAUSE_S
        self._pauses[id_] = _Pause(time.monotonic() + seconds, seconds)

    def refused(self, id_: str) -> bool:
        """Return whether the last try was refused."""
        return id_ in self._pauses

    def pauses(self, id_: str) -> bool:
        """Return whether the next try is not due yet."""
        pause = self._pauses.get(id_)
        return pause is not None and time.monotonic() < pause.until

    def forget(self, id_: str) -> None:
        """Forget a cgroup that is gone, or that another value is wanted for."""
        self._pauses.pop(id_, None)

    def forgive(self) -> None:
        """End all pauses."""
        self._pauses.clear()

    @property
    def ids(self) -> set[str]:
        """The ids with a refused write."""
        return {*self._pauses}
