"""Write memory protections along every path: a container's protection counts only if all cgroups above it have one."""

from collections.abc import Mapping
from typing import Final

from nri_coloc.core.decisions import Decision, Inputs
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import Applied, Correction, FileValue, Target
from nri_coloc.placing.node import Node
from nri_coloc.placing.protection import NONE, Protection
from nri_coloc.repair import targets
from nri_coloc.repair.drift import Drifts, worded

LOW: Final = "memory.low"
MIN: Final = "memory.min"

Files = tuple[Correction, ...]
"""The files of one cgroup: value found and value written."""


class Protections:
    """Writes protections; belongs to the actuator's thread. Any thread may call `take_over`."""

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self.drifts = Drifts()
        self._protected: set[str] = set()
        self._takes_over = False
        self._short: dict[str, Protection] = {}

    def take_over(self) -> None:
        """Let the next `keep` restore unwanted protections of the previous process: the runtime's list is known."""
        self._takes_over = True

    def keep(self, can: Capability) -> None:
        """Write the sums of protections along every path, and restore protections that are no longer wanted."""
        if self._node.tuning.observe:
            return
        state, reserved = self._node.state, self._node.tuning.reserved_memory
        sums = targets.protections(state, can, reserved)
        if self._takes_over:
            self._takes_over = False
            live = {targets.container_path(a) for a in state.containers.values()}
            self._protected |= self._writer.protected() - live
        changed = {path: self._raise(path, wanted) for path, wanted in sums.items()}
        gone = sorted(self._protected - sums.keys())
        left = {path for path in gone if not self._give_back(path, changed)}
        above = {path.rpartition("/")[0] for path in (*sums, *gone)}
        self._protected = {*sums, *left}
        self._tell({path: files for path, files in changed.items() if path in above and files}, sums)
        self._tell_short(targets.short_of_protection(state, reserved) if sums else {})

    def _give_back(self, path: str, changed: dict[str, Files]) -> bool:
        def put_back() -> tuple[KernelInterfaceError, ...]:
            applied = self._write(path, NONE)
            changed[path] = applied.corrected
            return applied.failures

        return self.drifts.let_go(path, put_back)

    def _tell(self, changed: Mapping[str, Files], sums: Mapping[str, Protection]) -> None:
        """Record the values of cgroups above pods. Pods' own values are recorded with the change that caused them."""
        state = self._node.state
        decisions = [_said(path, files, sums.get(path, NONE)) for path, files in changed.items()]
        self._report.decided(decisions, state, state)

    def _tell_short(self, short: dict[str, Protection]) -> None:
        """Record each pod that gets less protection than it may have, once for each amount."""
        state, news = (
            self._node.state,
            [item for item in short.items() if self._short.get(item[0]) != item[1]],
        )
        self._short = short
        self._report.decided([_said_short(path, got) for path, got in news], state, state)

    def _raise(self, path: str, wanted: Protection) -> Files:
        """Write one cgroup's protection; return the files that its sum changed. Drift is reported at once."""
        values = (FileValue("memory", LOW, str(wanted.low)), FileValue("memory", MIN, str(wanted.min)))
        target = Target(path, values=values)
        if self.drifts.lets_be(path, target):
            return ()
        applied = self._write(path, wanted)
        drift = self.drifts.judge(path, target, applied)
        if drift is None:
            return applied.corrected
        self._report.drifted("", self._node.state, drift.at(path))
        return ()

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


def _said(path: str, changed: Files, wanted: Protection) -> Decision:
    found = worded(changed, 0)
    because = f"memory protection set: the sum that the pods below {path} ask for"
    inputs: Inputs = {"cgroup": path, "asked_low_bytes": wanted.low, "asked_min_bytes": wanted.min}
    said = Decision(AuditEvent.PATH_LIMIT, Reason.PROTECTED, because, value=path, inputs=inputs)
    said = said._replace(shows=("asked_low_bytes", "asked_min_bytes"))
    return said._replace(before=found.before, after=found.after)


def _said_short(path: str, got: Protection) -> Decision:
    because = (
        "memory protected in part: older pods have the rest of the node's memory less node.reservedMemory"
    )
    inputs: Inputs = {"cgroup": path, "granted_low_bytes": got.low, "granted_min_bytes": got.min}
    said = Decision(AuditEvent.PATH_LIMIT, Reason.PROTECTED, because, value=path, inputs=inputs)
    shown = ("granted_low_bytes", "granted_min_bytes")
    return said._replace(after=Knobs(memory_low=got.low, memory_min=got.min), shows=shown)
