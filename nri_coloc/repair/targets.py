"""Compute the values that a cgroup should have now, from the newest state, and restore those no longer wanted.

Values are computed right before each write. None means that nothing is to be written: an unknown id, a cgroup path that
cannot be one, or hands off.

The memory.high of a VM's pod outside the reclaim cgroups is written by the actuator and restored here. The memory.high
of a reclaim cgroup is written and restored by `memory.worker`: two threads must not disagree about one file. So only a
memory.high that this process wanted is restored here. The worker finds the values of the previous process.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from nri_coloc.core import cpuset, knobs
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.kubepods import of_pods
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import RECLAIM, Assignment, NodeState
from nri_coloc.core.workload import Pod
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, knob_files
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import Target
from nri_coloc.host.write_back import Apart
from nri_coloc.placing import admission, protection, reclaim_cgroups
from nri_coloc.placing.protection import Protection


class Reckoned:
    """Targets of one state, each computed once: most sweeps find the same state as the sweep before.

    Used under one lock.
    """

    def __init__(self) -> None:
        self._of: tuple[object, object] = (None, None)
        self._pods: dict[str, Target | None] = {}
        self._containers: dict[str, Target | None] = {}

    def of_container(self, state: NodeState, container_id: str, can: Capability) -> Target | None:
        self._begin(state, can)
        if container_id not in self._containers:
            self._containers[container_id] = of_container(state, container_id, can)
        return self._containers[container_id]

    def of_pod(self, state: NodeState, pod_id: str, can: Capability) -> Target | None:
        """Return the target of a pod's own cgroup."""
        self._begin(state, can)
        if pod_id not in self._pods:
            self._pods[pod_id] = of_pod(state, pod_id, can)
        return self._pods[pod_id]

    def _begin(self, state: NodeState, can: Capability) -> None:
        known_state, known_can = self._of
        if known_state is not state or known_can is not can:
            self._of, self._pods, self._containers = (state, can), {}, {}


def of_container(state: NodeState, container_id: str, can: Capability) -> Target | None:
    """Return a container's target: its cpuset, and the values that no push carries to its spec."""
    assignment = state.containers.get(container_id)
    found = _ordered(state, assignment) if assignment is not None else None
    if assignment is None or found is None:
        return None
    path, orders = found
    if assignment.by_file:
        values = knob_files.all_but_cpuset(orders, can)
    else:
        # a sidecar that joined later has its main container's nodes: nothing would take those from it again
        bound = orders if assignment.knobs.mems is not None else orders._replace(mems=None)
        values = knob_files.beyond_pushes(bound, can)
    if "memory" in assignment.wish.preserve:
        values = tuple(v for v in values if v.controller != "memory")
    return Target(path, _mask(orders), values, journalled=assignment.by_file)


def cpuset_of(state: NodeState, assignment: Assignment) -> tuple[str, CPUMask] | None:
    """Return a container's cgroup and its CPUs, 0 if it inherits them: the part of its target that the runtime gets."""
    found = _ordered(state, assignment)
    return (found[0], _mask(found[1])) if found is not None else None


def _ordered(state: NodeState, assignment: Assignment) -> tuple[str, Knobs] | None:
    if assignment.wish.handler != "container":
        return None
    path = container_path(assignment)
    return (path, admission.orders(state, assignment)) if path is not None else None


def _mask(orders: Knobs) -> CPUMask:
    return cpuset.parse(orders.cpus) if orders.cpus else 0


def of_pod(state: NodeState, pod_id: str, can: Capability) -> Target | None:
    """Return the target of a pod's own cgroup."""
    place = state.pods.get(pod_id)
    if place is None:
        return None
    path = pod_path(place.pod)
    if not path:
        return None
    orders = reclaim_cgroups.knobs(state, pod_id)
    cpus, values = _mask(orders), knob_files.all_but_cpuset(orders, can)
    beyond = place.cpus_until_start & ~cpus if cpus else 0
    return Target(path, cpus, values, journalled=True, inherited=True, beyond=beyond)


def apart(state: NodeState, pod_id: str) -> Iterator[Apart]:
    """Yield the cgroups of a pod's containers that have CPUs of their own, by our order or the kubelet's."""
    for one in state.of_pod(pod_id):
        path, target, kubelets = container_path(one), cpuset_of(state, one), one.container.resources.cpus
        if path and (kubelets or (target is not None and target[1])):
            yield Apart(path, ordered=not kubelets)


def of_host_group(state: NodeState, path: str, can: Capability) -> Target:
    """Return the target of a host group."""
    values = knob_files.all_but_cpuset(Knobs(shares=reclaim_cgroups.SHARES_OF_THE_BOX), can)
    return Target(path, state.pools.reclaim, values, journalled=True)


def host_groups(state: NodeState, tuning: Tuning) -> tuple[str, ...]:
    """Return the operator's host groups, without groups that contain a pod or container that is not reclaimed.

    No write for lending may be on an ancestor of a container that is not reclaimed.
    """
    wanted = tuning.reclaim.host_groups if tuning.reclaim.enabled else ()
    if not wanted:
        return ()
    strangers = {container_path(one) for one in state.containers.values() if one.pool != RECLAIM}
    strangers |= {pod_path(place.pod) for place in state.pods.values() if not place.boxed}
    lived_in = [f"{path}/" for path in strangers if path]
    return tuple(path for path in wanted if not any(one.startswith(f"{path}/") for one in lived_in))


def protections(state: NodeState, can: Capability, reserved_bytes: int) -> dict[str, Protection]:
    """Return the sums of protection that pods' cgroups and all cgroups above them need, bytes, outermost first.

    Empty if v2 lacks memory.low.
    """
    if "memory.low" not in can.files:
        return {}
    sums: dict[str, Protection] = {}
    for pod_id, wanted in protection.granted(state, reserved_bytes).items():
        place = state.pods.get(pod_id)
        path = pod_path(place.pod) if place is not None else ""
        while path:
            sums[path] = sums.get(path, protection.NONE) + wanted
            path = path.rpartition("/")[0]
    outermost_first = sorted(sums.items(), key=lambda item: item[0].count("/"))
    whole = knobs.whole_pages
    return {path: Protection(whole(each.low), whole(each.min)) for path, each in outermost_first}


def short_of_protection(state: NodeState, reserved_bytes: int) -> dict[str, Protection]:
    """Return by cgroup the protection of pods that get less than they may have, because older pods have the rest."""
    granted = protection.granted(state, reserved_bytes)
    short = (k for k, may_have in protection.by_pod(state).items() if granted.get(k) != may_have)
    paths = ((pod_path(state.pods[k].pod), granted.get(k, protection.NONE)) for k in short)
    return {path: got for path, got in paths if path}


def lives_in(state: NodeState, assignment: Assignment) -> str | None:
    """Return the cgroup whose CPUs a container has: its own; for a container in a VM its pod's."""
    place = state.pods.get(assignment.container.pod_id)
    if assignment.wish.handler == "pod" and place is not None:
        return pod_path(place.pod) or None
    return container_path(assignment)


def holds_a_vm(state: NodeState, pod_id: str) -> bool:
    """Return whether a pod is a VM: its cgroup is the unit, and its containers' cgroups are not read."""
    place = state.pods.get(pod_id)
    return place is not None and place.wish.handler == "pod"


def pod_path(pod: Pod) -> str:
    """Return the cgroup that belongs to a pod alone, "" if it has none. A cgroup with other users is never written."""
    return _path_below(pod.cgroup_parent) if pod.owns_cgroup else ""


@lru_cache(maxsize=2048)
def _path_below(cgroup_parent: str) -> str:
    """Return the path of a cgroup, "" if there can be none. Each second asks for those of all pods, several times."""
    try:
        return cgroup_layout.pod_path(cgroup_parent)
    except ValueError:
        return ""


def pod_paths(state: NodeState) -> list[str]:
    """Return the cgroups that belong to one pod alone."""
    return [path for place in state.pods.values() if (path := pod_path(place.pod))]


def kubepods(state: NodeState) -> tuple[str, ...]:
    """Return the cgroup of all pods, as the pods' own paths show it: one for each kubelet whose pods are known."""
    return of_pods(pod_paths(state))


def container_path(assignment: Assignment) -> str | None:
    """Return a container's cgroup path below the hierarchy's root; None if it is unknown."""
    try:
        return cgroup_layout.container_path(assignment.container.cgroups_path)
    except ValueError:
        return None


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
        failures = self._writer.put_back(target.path, frozenset(keep), apart(state, pod_id))
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
        self._slowed &= {pod_path(place.pod) for place in state.pods.values()} if self._slowed else set()
