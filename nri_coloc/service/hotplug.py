"""Follow CPUs that go on- and offline, and CPUs that a cgroup above the pods grants or takes away."""

import time
from threading import Lock
from typing import Final

from nri_coloc.core.kubepods import kubepods_of
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.seams import Decided
from nri_coloc.host import granted
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.service.machine import Look, Machine
from nri_coloc.service.report import Report
from nri_coloc.service.retuning import Retuning

TOPOLOGY_EVERY_S: Final = 1.0
"""Seconds between two checks; a check takes some 50 µs. Until the check, a CPU that went offline counts as lendable."""

_MACHINE_CHANGED: Final = "the set of online CPUs changed"


class Hotplug:
    """`look` is for the housekeeping loop, `place_pod` for hooks."""

    def __init__(self, node: Node, machine: Machine, retuning: Retuning, report: Report) -> None:
        self._node = node
        self._machine = machine
        self._retuning = retuning
        self._report = report
        self._looked_at = time.monotonic()
        self._looks: tuple[Look | None, Look | None] = (None, None)
        self._kubepods: tuple[str, ...] = ()
        self._turn = Lock()

    def look(self, now: float) -> None:
        """Check the machine if a check is due; put the settings in force on a machine that has changed."""
        if now - self._looked_at >= TOPOLOGY_EVERY_S:
            self._looked_at = now
            with self._turn:
                self._look()

    def place_pod(self, decided: Decided, _deadline: float) -> None:
        """Check the machine before the first pod of a kubelet has containers: they may get the CPUs of its kubepods."""
        place = decided.outcome.state.pods.get(decided.pod_id)
        kubepods = kubepods_of(targets.pod_path(place.pod)) if place is not None else ""
        if kubepods and kubepods not in self._kubepods:
            with self._turn:
                self._look()

    def _look(self) -> None:
        """Read the machine if a check shows a change, and once more after that, because a hotplug takes time."""
        state = self._node.state
        self._kubepods = targets.kubepods(state)
        try:
            look = self._machine.look(self._kubepods)
            if self._looks == (look, look):
                return
            topology = self._machine.read(state)
            self._looks = (look, self._looks[0])
        except Exception as error:  # noqa: BLE001 - a machine in the middle of a hotplug is looked at again later
            self._report.log.warning("cannot read the topology", error=str(error))
            return
        if topology != state.topology and topology.usable:
            is_granted = (
                topology.machine == state.topology.machine and topology.online != state.topology.online
            )
            why = granted.change(look.granted, topology.machine) if is_granted else _MACHINE_CHANGED
            self._report.said(AuditEvent.TOPOLOGY_CHANGE, Reason.CPUS_CHANGED, f"machine read: {why}")
            self._retuning.put(topology)
