"""Translate the state into the body of `/v1/state`, in a stable order.

`cpus` are the decided CPUs, `actual_cpus` the CPUs that were last read back; a reader compares both. If `actual_cpus`
is empty, `actual_cpus_unknown` has the reason. `throttled` has the limits of a container whose pod is throttled, by
knob, and `degraded` those of a degraded container; each key is missing while there are none. `facts` has the
companion's facts about a container and its pod; the key is missing without facts. `host_groups` are the cgroups
outside Kubernetes that CPUs are lent to; the key is missing if there are none. `remarks` are sentences about settings
that an operator probably did not mean; the key is missing without them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.pod_facts import Facts, Lent
from nri_coloc.core.state import POOLS, Assignment, NodeState
from nri_coloc.core.topology import NumaNode
from nri_coloc.core.workload import Pod

NOT_READ: Final = "not read back yet"


class ReadBack(NamedTuple):
    """The values that were read back.

    cpus: CPU lists by container id.
    unread: by container id, the reason why its CPUs could not be read.
    host_groups: paths.
    pod_cgroups: paths of the cgroup of all pods, one for each kubelet.
    """

    cpus: Mapping[str, str]
    unread: Mapping[str, str]
    host_groups: tuple[str, ...]
    pod_cgroups: tuple[str, ...]


def state_json(
    state: NodeState,
    *,
    observe: bool,
    found: ReadBack,
    waits_for: Mapping[str, str],
    lending: Mapping[str, Any],
    throttled: Mapping[str, Mapping[str, str]],
    degraded: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the body of `/v1/state`.

    waits_for: a text by container id.
    lending: the state by the clock.
    throttled: limits in words by pod id and knob.
    degraded: limits in words by container id and knob.
    remarks: sentences about the settings.
    """
    containers = [
        {
            **_container(state, assignment),
            **_actual(assignment.id, found),
            "waits_for": waits_for.get(assignment.id, ""),
            **_limits("throttled", throttled.get(assignment.container.pod_id)),
            **_limits("degraded", degraded.get(assignment.id)),
        }
        for assignment in state.containers.values()
    ]
    return {
        "mode": "observe" if observe else "enforce",
        "node": {
            "cpus": cpuset.render(state.topology.machine),
            **({"kubepods": cpuset.render(state.topology.online)} if state.topology.outside else {}),
            **({"pod_cgroups": list(found.pod_cgroups)} if found.pod_cgroups else {}),
            "reserved": cpuset.render(state.pools.reserved),
            "numa": [_numa(node) for node in sorted(state.topology.nodes, key=lambda node: node.id)],
            **({"kept_by_kubelet": cpuset.render(state.pools.kept)} if state.pools.kept else {}),
        },
        "lending": dict(lending),
        "pools": _pools(state),
        "containers": sorted(containers, key=lambda c: (c["namespace"], c["pod"], c["container"], c["id"])),
        **({"host_groups": list(found.host_groups)} if found.host_groups else {}),
        **({"remarks": list(remarks)} if remarks else {}),
    }


def _limits(key: str, limits: Mapping[str, str] | None) -> dict[str, Any]:
    return {key: dict(limits)} if limits else {}


def _actual(container_id: str, found: ReadBack) -> dict[str, str]:
    """Return the CPUs that were read back, or why they are unknown."""
    cpus = found.cpus.get(container_id, "")
    if cpus:
        return {"actual_cpus": cpus}
    return {"actual_cpus": "", "actual_cpus_unknown": found.unread.get(container_id, NOT_READ)}


def _numa(node: NumaNode) -> dict[str, Any]:
    return {"id": node.id, "cpus": cpuset.render(node.cpus), "memory_bytes": node.memory_bytes}


def _pools(state: NodeState) -> dict[str, Any]:
    """Return the built-in pools in their order, then the operator's pools and other pools with a container."""
    members = Counter(assignment.pool for assignment in state.containers.values())
    names = (*POOLS, *sorted((members.keys() | state.pools.tiers.keys()) - set(POOLS)))
    return {name: {"cpus": cpuset.render(state.pools.cpus(name)), "members": members[name]} for name in names}


def _container(state: NodeState, assignment: Assignment) -> dict[str, Any]:
    place = state.pods.get(assignment.container.pod_id)
    pod = place.pod if place else Pod(assignment.container.pod_id)
    return {
        "id": assignment.id,
        "namespace": pod.namespace,
        "pod": pod.name,
        "container": assignment.container.name,
        "class": assignment.qos.value,
        "pool": assignment.pool,
        "cpus": _decided_cpus(state, assignment),
        "actual_cpus": "",
        "mems": cpuset.render(state.mems_of(assignment)),
        "exclusive": bool(assignment.exclusive),
        **_facts(state.facts.of(pod), assignment.container.name),
    }


def _facts(found: Facts | None, container: str) -> dict[str, Any]:
    """Return the facts of a container: requests and priority are its pod's, lent amounts its own."""
    if found is None:
        return {}
    lent = next((each.lent for each in found.containers if each.name == container), Lent())
    shown = {
        "cpu_request_milli": found.cpu_milli,
        "memory_request_bytes": found.memory_bytes,
        "priority": found.priority,
        "lent_cpu_milli": lent.cpu_milli,
        "lent_memory_bytes": lent.memory_bytes,
    }
    return {"facts": {**shown, "owner": f"{found.owner.kind}/{found.owner.name}".strip("/")}}


def _decided_cpus(state: NodeState, assignment: Assignment) -> str:
    """Return the decided CPUs; with hands off, the CPUs of the runtime's spec ("" means all)."""
    if assignment.hands_off:
        return assignment.original.cpus or assignment.container.resources.cpus
    return cpuset.render(state.cpus_of(assignment))
