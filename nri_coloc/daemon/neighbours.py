"""Other writers of our values: which cgroups were repaired so often that repairs of them pause.

A single repair is no rival: the kubelet and systemd write their own values again at times. Time is an argument.
"""

from typing import Final

from nri_coloc.daemon.drift import REPAIRS_PER_MINUTE, Drift

REMEMBERED_S: Final = 600.0
"""How long a rival counts as there after the last pause of repairs."""

NAMED: Final = 3
"""How many cgroups a sentence names."""

KEPT: Final = 64
"""How many cgroups are remembered; beyond it the oldest are forgotten."""


KNOWN_BY: Final = (
    "set runtime.draCPUDriver: true, so that this plugin names no CPUs at creation and files pin containers"
)
"""Advice about another plugin that names CPUs."""


class Creations:
    """Finds creations that the runtime undid after this plugin had answered with CPUs.

    The runtime refuses a container of which two plugins set the CPUs, and tells neither of them why. A container that
    ends between CreateContainer and PostCreateContainer was never made. `words` is called by threads that answer, all
    else by the thread of the hooks.
    """

    def __init__(self) -> None:
        self._answered: dict[str, str] = {}
        self._undone: tuple[tuple[str, float], ...] = ()

    def answered(self, container_id: str, name: str) -> None:
        """Note an answer with CPUs; `name` is the container's for people."""
        while len(self._answered) >= KEPT:
            self._answered.pop(next(iter(self._answered)))
        self._answered[container_id] = name

    def created(self, container_id: str) -> None:
        """Note that the runtime took the answer."""
        self._answered.pop(container_id, None)

    def ended(self, container_id: str, now: float) -> None:
        """Note the end of a container."""
        name = self._answered.pop(container_id, None)
        if name is not None:
            self._undone = (*self._undone, (name, now))[-KEPT:]

    def words(self, now: float) -> str:
        """Return which creations were undone lately, "" for none."""
        names = [name for name, at in self._undone if now - at < REMEMBERED_S]
        if not names:
            return ""
        return (
            f"the runtime undid {len(names)} creations with CPUs of this plugin, the last of {names[-1]}; "
            f'if its log says "both tried to set CPU pinning", another NRI plugin names CPUs too: {KNOWN_BY}'
        )


def driver_words(socket: str) -> str:
    """Say what to do about the DRA CPU driver whose registration socket this is, "" for none."""
    if not socket:
        return ""
    return f"the DRA CPU driver is registered ({socket}) and names CPUs too: {KNOWN_BY}"


class Neighbours:
    """`repaired` is called by the threads that write, `words` by those that answer."""

    def __init__(self) -> None:
        self.creations = Creations()
        self._contested: dict[str, float] = {}

    def repaired(self, name: str, drift: Drift, now: float) -> None:
        """Take note of a repair; `name` is the cgroup's for people."""
        if drift.times < REPAIRS_PER_MINUTE:
            return
        contested = {k: at for k, at in self._contested.items() if k != name}
        while len(contested) >= KEPT:
            contested.pop(next(iter(contested)))
        self._contested = {**contested, name: now}

    def words(self, now: float) -> str:
        """Return which cgroups are contested, "" if none."""
        names = [k for k, at in self._contested.items() if now - at < REMEMBERED_S]
        if not names:
            return ""
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return (
            f"another writer keeps changing our values of {', '.join(names[-NAMED:])}{more} "
            f"({REPAIRS_PER_MINUTE} repairs in 60 s); see drift.repair in the audit, and stop that writer"
        )
