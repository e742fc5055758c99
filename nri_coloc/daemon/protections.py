"""Memory protections along every path: a container's counts for nothing unless all above it are protected too."""

from typing import Final

from nri_coloc.actuation.cgroups import Applied, CgroupWriter, Target
from nri_coloc.daemon import targets
from nri_coloc.daemon.drift import Drifts
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.report import Report
from nri_coloc.knobs.capability import Capability
from nri_coloc.knobs.files import FileValue
from nri_coloc.policy.protection import NONE, Protection

LOW: Final = "memory.low"
MIN: Final = "memory.min"


class Protections:
    """Belongs to the actuator's thread; `take_over` may be called from any."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self.drifts = Drifts()
        self._protected: set[str] = set()
        self._takes_over = False

    def take_over(self) -> None:
        """Know that the runtime told everything: what a former life protected may be given back."""
        self._takes_over = True

    def keep(self, can: Capability) -> None:
        """Bring protections to their sums along every path, and give back what is no longer asked for."""
        if self._node.tuning.observe:
            return
        state = self._node.state
        sums = targets.protections(state, can)
        if self._takes_over:
            self._takes_over = False
            live = {targets.container_path(a) for a in state.containers.values()}
            self._protected |= self._writer.protected() - live
        for path, wanted in sums.items():
            self._raise(path, wanted)
        left = {path for path in self._protected - sums.keys() if not self._give_back(path)}
        self._protected = {*sums, *left}

    def _give_back(self, path: str) -> bool:
        return self.drifts.let_go(path, lambda: self._write(path, NONE).failures)

    def _raise(self, path: str, wanted: Protection) -> None:
        values = (FileValue("memory", LOW, str(wanted.low)), FileValue("memory", MIN, str(wanted.min)))
        target = Target(path, values=values)
        if self.drifts.lets_be(path, target):
            return
        drift = self.drifts.judge(path, target, self._write(path, wanted))
        if drift is not None:
            self._report.drifted("", self._node.state, drift.at(path))

    def _write(self, path: str, wanted: Protection) -> Applied:
        both = [self._writer.protect(path, name, n) for name, n in ((LOW, wanted.low), (MIN, wanted.min))]
        failures = tuple(failure for applied in both for failure in applied.failures)
        for failure in failures:
            self._report.refused_by_kernel(failure, "", self._node.state)
        return Applied(
            failures=failures,
            corrected=tuple(each for applied in both for each in applied.corrected),
            absent=tuple(name for applied in both for name in applied.absent),
        )
