"""Values on a pod's cgroup that are no longer wanted, and are restored to their original values.

The memory.high of a VM's pod outside the reclaim cgroups is written by the actuator and restored here. The memory.high
of a reclaim cgroup is written and restored by `memory.worker`: two threads must not disagree about one file. So only a
memory.high that this process wanted is restored here. The worker finds the values of the previous process.
"""

from typing import Final

from nri_coloc.core.state import NodeState
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import Target
from nri_coloc.repair import targets

HIGH: Final = "memory.high"

_OF_OTHERS: Final = {"memory.low", "memory.min"}
"""Files that `protections` writes and restores."""


class Leftovers:
    """Restores files of a pod's cgroup that the plugin no longer sets; call it under the actuator's lock."""

    def __init__(self, writer: CgroupWriter) -> None:
        self._writer = writer
        self._slowed: set[str] = set()

    def clear(self, state: NodeState, pod_id: str, target: Target) -> tuple[KernelInterfaceError, ...]:
        """Restore the files of a pod that its target lacks; return the refusals.

        A reclaim cgroup keeps its values; only a memory.high that the actuator wrote earlier is restored.
        """
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
