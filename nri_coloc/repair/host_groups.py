"""The host groups: cgroups outside Kubernetes that the operator's configuration names.

A member is a host group that can be limited to the reclaim pool's CPUs. A group that does not exist (yet) uses nothing,
and the first sweep that finds it takes it in; until then the configuration has a remark on it. A group without a cpuset
runs on any CPU: it is recorded, nothing is written to it, and its use counts as the system's.
"""

from threading import Lock
from typing import Final

from nri_coloc.core import kubepods
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import CPUS
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.drift import Drifts

SETTING: Final = "reclaim.members"


class HostGroups:
    """Applied by the sweep, resized and checked by the fast loop: one at a time, from the newest state each.

    members: the groups limited to the reclaim pool, in mode observe too; the same tuple until they change.
    missing: the paths of the settings where no cgroup is, as of the last look.
    """

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self.drifts = Drifts()
        self.members: tuple[str, ...] = ()
        self.missing: tuple[str, ...] = ()
        self._placed: set[str] = set()
        self._unboxable: set[str] = set()
        self._looks_back = False
        self._turn = Lock()

    def take_over(self) -> None:
        """Note that the runtime has sent its list: host groups of the previous process may now be restored."""
        self._looks_back = True

    def place(self) -> None:
        """Apply the reclaim pool's values to all members; restore the original values of former members."""
        with self._turn:
            state, tuning = self._node.state, self._node.tuning
            wanted = targets.host_groups(state, tuning)
            members = self._look_for(wanted)
            if tuning.observe:
                return
            if self._looks_back:
                self._looks_back = False
                self._placed |= self._of_a_former_life(state) - {*members}
            for path in members:
                self._bring(path, state)
            left = {path for path in self._placed - {*members} if not self._let_go(path, state)}
            self._placed = {*members, *left}

    def look(self) -> tuple[str, ...]:
        """Return the present members; write nothing."""
        with self._turn:
            return self._look_for(targets.host_groups(self._node.state, self._node.tuning))

    def _look_for(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Return the cgroups that can be limited to the reclaim pool's CPUs; record changes."""
        members = tuple(path for path in wanted if self._can_be_boxed(path))
        if members != self.members:
            self.members = members
        self.missing = tuple(
            path for path in wanted if path not in members and not self._writer.is_there(path)
        )
        for path in self._unboxable - {*wanted}:
            self._unboxable.discard(path)
            because = (
                f"no longer limited to the reclaim pool's CPUs: reclaim.members does not name {path} any more"
            )
            self._said(Reason.RECONFIGURED, because, path)
        return self.members

    def _can_be_boxed(self, path: str) -> bool:
        if self._writer.text(path, "cpuset", CPUS) is not None:
            self._unboxable.discard(path)
            return True
        if self._writer.is_there(path) and path not in self._unboxable:
            self._unboxable.add(path)
            because = _unboxable(path, self._writer.version)
            self._report.log.warning(
                "a cgroup of reclaim.members cannot be limited to lent CPUs", cgroup=path, why=because
            )
            self._said(Reason.NO_CPUSET, because, path)
        return False

    def _said(self, reason: Reason, because: str, path: str) -> None:
        more = {"inputs": {"cgroup": path}}
        self._report.said(
            AuditEvent.POD_LIMIT, reason, because, pool=RECLAIM, key=SETTING, value=path, extra=more
        )

    def guard(self, path: str) -> None:
        """Check one member; repair and record drift, within the limit of repairs."""
        with self._turn:
            if path in self._placed and not self._node.tuning.observe:
                self._bring(path, self._node.state)

    def files_of(self, path: str) -> tuple[str, ...]:
        """Return the files of a member that hold its values."""
        return self._writer.files_of(targets.of_host_group(self._node.state, path, self._node.can))

    def _bring(self, path: str, state: NodeState) -> None:
        target = targets.of_host_group(state, path, self._node.can)
        if self.drifts.lets_be(path, target):
            return
        applied = self._writer.apply(target)
        for failure in applied.failures:
            self._report.refused_by_kernel(failure, "", state)
        drift = self.drifts.judge(path, target, applied)
        if drift is not None:
            self._report.drifted("", state, drift.at(path))
        if path not in self._placed:
            self._said(Reason.BOX_MEMBER, f"limited to the reclaim pool: reclaim.members names {path}", path)

    def _let_go(self, path: str, state: NodeState) -> bool:
        return self.drifts.let_go(path, lambda: self._put_back(path, state))

    def _put_back(self, path: str, state: NodeState) -> tuple[KernelInterfaceError, ...]:
        failures = self._writer.put_back(path, frozenset())
        for failure in failures:
            self._report.refused_by_kernel(failure, "", state)
        return failures

    def _of_a_former_life(self, state: NodeState) -> set[str]:
        """Return cgroups that the previous process placed and no known pod or container has.

        They are host groups of other settings. A cgroup in a pod's is a container's, also if the runtime has not listed
        it.
        """
        known = {targets.container_path(one) for one in state.containers.values()}
        known |= {targets.pod_path(place.pod) for place in state.pods.values()}
        return {
            path for path in self._writer.placed() - known if not kubepods.is_a_pods(path.rpartition("/")[0])
        }


def _unboxable(path: str, version: int) -> str:
    """Return why a cgroup cannot be limited to the reclaim pool's CPUs, and how to mend it, for the operator."""
    if version == 1:
        lacks = "is not in the cpuset hierarchy"
        mend = f"make /{path} there and put its processes into it too"
    else:
        lacks = "has no cpuset.cpus"
        mend = f"write +cpuset to cgroup.subtree_control of /{path.rpartition('/')[0]}"
    meanwhile = "until then nothing of it is written, and its use counts as system use"
    return f"not limited: {path} {lacks}; {mend}, or take it out of {SETTING}; {meanwhile}"
