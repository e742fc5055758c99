"""What is left on a pod's cgroup of values that it is not to have any more, and goes back to what was there before us.

A memory.high is written here for a VM's pod outside of the box, and for a member of the box by `memory_worker`, which
puts its own back: two threads must not disagree about one file. So only what this life of ours has seen wanted is put
back here; what a former one left is among what the worker learns of.
"""

from typing import Final

from nri_coloc.core.state import NodeState
from nri_coloc.daemon import targets
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.target import Target

HIGH: Final = "memory.high"

_OF_OTHERS: Final = {"memory.low", "memory.min"}
"""The part of the state that `protections` keeps."""


class Leftovers:
    """Used under the actuator's lock."""

    def __init__(self, writer: CgroupWriter) -> None:
        self._writer = writer
        self._slowed: set[str] = set()

    def clear(self, state: NodeState, pod_id: str, target: Target) -> tuple[KernelInterfaceError, ...]:
        """Put back what of a pod's files is not in its target; a member of the box has the box's values as they are."""
        names = {value.name for value in target.values}
        if target.cpus and state.boxed(pod_id):
            return self._unslowed(target.path, names)
        keep = names | _OF_OTHERS | ({"cpuset.cpus"} if target.cpus else set())
        failures = self._writer.put_back(target.path, frozenset(keep), targets.apart(state, pod_id))
        return failures + self._unslowed(target.path, names)

    def _unslowed(self, path: str, names: set[str]) -> tuple[KernelInterfaceError, ...]:
        if HIGH in names:
            self._slowed.add(path)
            return ()
        if path not in self._slowed:
            return ()
        failures = self._writer.unbound(path)
        if not failures:
            self._slowed.discard(path)
        return failures

    def forget_gone(self, state: NodeState) -> None:
        """Forget pods that are gone."""
        self._slowed &= (
            {targets.pod_path(place.pod) for place in state.pods.values()} if self._slowed else set()
        )
