"""Compare the settings in force with the machine, and report each setting that names more than it has."""

from typing import Protocol

from nri_coloc.core.settings import Settings
from nri_coloc.core.topology import Topology
from nri_coloc.placing.node import Node
from nri_coloc.service.remarks import on_machine
from nri_coloc.service.report import Report
from nri_coloc.service.retuning import InForce


class Groups(Protocol):
    """The host groups.

    missing: the paths that the settings name and that do not exist.
    """

    @property
    def missing(self) -> tuple[str, ...]: ...


class MachineFit:
    """Compares settings and machine; one thread calls `look`.

    unfit: sentences on settings in force that name more than this machine has.
    """

    def __init__(self, in_force: InForce, node: Node, groups: Groups, report: Report) -> None:
        self._in_force = in_force
        self._node = node
        self._groups = groups
        self._report = report
        self._compared: tuple[Settings, Topology, tuple[str, ...]] | None = None
        self.unfit: tuple[str, ...] = ()

    def look(self) -> None:
        """Log each setting that names more than the machine has, once until settings or machine change."""
        now = self._in_force.settings, self._node.state.topology, self._groups.missing
        if now == self._compared:
            return
        self._compared, before = now, self.unfit
        self.unfit = on_machine(*now)
        for because in self.unfit:
            if because not in before:
                self._report.log.warning("a setting does not fit this machine", because=because)
