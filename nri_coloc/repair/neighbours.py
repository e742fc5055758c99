"""Find other writers of our values: cgroups that were repaired so often that their repairs pause.

A single repair is no sign of another writer: the kubelet and systemd rewrite their own values at times. Time is an
argument.
"""

from typing import Final

from nri_coloc.core.report import Drift
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE

REMEMBERED_S: Final = 600.0
"""Seconds for which another writer is reported after the last pause of repairs."""

NAMED: Final = 3
"""The most cgroups that a sentence names."""

KEPT: Final = 64
"""The most cgroups that are remembered; beyond it the oldest are forgotten."""


KNOWN_BY: Final = (
    "set runtime.draCPUDriver: true, so that this plugin names no CPUs at creation and files pin containers"
)
"""Advice about another plugin that names CPUs."""


class Creations:
    """Finds creations that the runtime undid after this plugin had answered with CPUs.

    The runtime refuses a container if two plugins set its CPUs, and does not inform the plugins. A container that ends
    between CreateContainer and PostCreateContainer was never made. Another plugin's CPUs undo each attempt: if a later
    attempt of a container is made, the undone ones had another cause. Threads that answer requests call `words`; the
    thread of the hooks calls all other methods.
    """

    def __init__(self) -> None:
        self._answered: dict[str, str] = {}
        self._undone: tuple[tuple[str, float], ...] = ()

    def answered(self, container_id: str, name: str) -> None:
        """Note an answer with CPUs.

        name: the container's name for people.
        """
        while len(self._answered) >= KEPT:
            self._answered.pop(next(iter(self._answered)))
        self._answered[container_id] = name

    def created(self, container_id: str) -> None:
        """Note that the runtime took the answer."""
        name = self._answered.pop(container_id, None)
        if name is not None and self._undone:
            self._undone = tuple(each for each in self._undone if each[0] != name)

    def ended(self, container_id: str, now: float) -> None:
        """Note the end of a container."""
        name = self._answered.pop(container_id, None)
        if name is not None:
            self._undone = (*self._undone, (name, now))[-KEPT:]

    def words(self, now: float) -> str:
        """Return a sentence on the creations that were undone lately, "" for none."""
        names = [name for name, at in self._undone if now - at < REMEMBERED_S]
        if not names:
            return ""
        return (
            f"the runtime undid {len(names)} creations with CPUs of this plugin, the last of {names[-1]}; "
            f'if its log says "both tried to set CPU pinning", another NRI plugin names CPUs too: {KNOWN_BY}'
        )


def driver_words(socket: str) -> str:
    """Return the advice about the DRA CPU driver with this registration socket, "" for no socket."""
    if not socket:
        return ""
    return f"the DRA CPU driver is registered ({socket}) and names CPUs too: {KNOWN_BY}"


class Neighbours:
    """Cgroups whose repairs pause. Threads that write call `repaired`; threads that answer requests call `words`."""

    def __init__(self) -> None:
        self.creations = Creations()
        self._contested: dict[str, float] = {}

    def repaired(self, name: str, drift: Drift, now: float) -> None:
        """Note a repair.

        name: the cgroup's name for people.
        """
        if drift.times < REPAIRS_PER_MINUTE:
            return
        contested = {k: at for k, at in self._contested.items() if k != name}
        while len(contested) >= KEPT:
            contested.pop(next(iter(contested)))
        self._contested = {**contested, name: now}

    def words(self, now: float) -> str:
        """Return a sentence on the cgroups that another writer keeps changing, "" for none."""
        names = [k for k, at in self._contested.items() if now - at < REMEMBERED_S]
        if not names:
            return ""
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return (
            f"another writer keeps changing our values of {', '.join(names[-NAMED:])}{more} "
            f"({REPAIRS_PER_MINUTE} repairs in 60 s); see drift.repair in the audit, and stop that writer"
        )
