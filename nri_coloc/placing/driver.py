"""Decide whether CPUs from the DRA CPU driver (kubernetes-sigs/dra-driver-cpu) count for a container.

The driver names them in an environment variable of the container, and in the runtime's spec before this plugin is
asked. A tenant may write the variable. A spec names CPUs also if the kubelet's static CPU manager pins every
container, and the spec of a container that ran before may hold CPUs of ours. So a claim counts only if the operator
says that there is a driver, from the container's creation on, within the container's request, and for free CPUs.

After a restart the record shows an accepted claim, and not whether it ended since. No claim counts again once it has
ended, so its CPUs may be another container's: the record of a younger container that got some of them is the proof.
"""

from collections.abc import Iterable
from typing import NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.settings import ClassTuning, Tuning
from nri_coloc.core.state import POOLS, NodeState
from nri_coloc.core.texts import counted
from nri_coloc.core.workload import Container, QoSClass, Wish
from nri_coloc.placing import claim, record, request, supply


class Created(NamedTuple):
    """A container that owned CPUs at its creation.

    at: the time of creation, nanoseconds since 1970.
    """

    at: int
    cpus: CPUMask


def owners_at_creation(containers: Iterable[Container]) -> tuple[Created, ...]:
    """Return the listed containers whose records name CPUs of their own."""
    records = ((each.created_at, record.read(each.record)) for each in containers)
    return tuple(Created(at, one.exclusive) for at, one in records if one is not None and one.exclusive)


def claimed(container: Container) -> CPUMask:
    """Return the CPUs of a container's claims, 0 if the runtime's spec named other CPUs before our first write."""
    if not container.claimed:
        return 0
    return container.claimed if claim.in_spec(record.before_us(container)) == container.claimed else 0


def is_recorded(container: Container) -> bool:
    """Return whether a container's record says that it got exactly its claims' CPUs at creation, and not from us."""
    memory = record.read(container.record)
    if memory is None or memory.qos is not QoSClass.DEDICATED or "cpus" in memory.ours:
        return False
    return bool(memory.exclusive) and memory.exclusive == claimed(container)


def refusal(
    state: NodeState,
    container: Container,
    wish: Wish,
    tuning: Tuning,
    owners: Iterable[Created],
    *,
    is_created: bool,
) -> tuple[str, bool]:
    """Return words for the claim that is allowed, "" if this claim counts, and whether a larger request would help.

    For a container that is not known yet; later its claim counts while its request covers it (`beyond_request`).

    owners: the listed containers that owned CPUs at their creation.
    is_created: the container is being created, so that its spec holds no CPUs of ours.
    """
    if not tuning.dra_driver:
        return "no claim without runtime.draCPUDriver: true", False
    recorded = is_recorded(container)
    if not (is_created or recorded):
        return "a claim that existed when the container was created beside this plugin", False
    beyond = beyond_request(state, container, wish, tuning)
    if beyond:
        return beyond, True
    if not recorded:
        return _not_free(state, container.claimed, tuning), False
    has_ended = any(each.at > container.created_at and each.cpus & container.claimed for each in owners)
    return ("a claim to CPUs that no younger container was given" if has_ended else ""), False


def beyond_request(state: NodeState, container: Container, wish: Wish, tuning: Tuning) -> str:
    """Return words for the claim that the present requests allow; "" if they cover the container's claim."""
    own = request.of_container(container, wish)
    least = tuning.classes.get(QoSClass.DEDICATED, ClassTuning()).min_request
    pod = state.cpu_request_of(container.pod_id)
    if (own.milli if pod is None else pod) < least:
        least_cpus = counted(least / 1000, "CPU")
        return f"claims of a pod that requests {least_cpus} (classes.dedicated.minRequest)"
    most = min(own.whole, supply.of(state, container, wish).cpus)
    if container.claimed.bit_count() > most:
        return f"as many CPUs as the container's CPU request, here {most}"
    return ""


def _not_free(state: NodeState, cpus: CPUMask, tuning: Tuning) -> str:
    """Return words for the CPUs that a new claim may name; empty if the claim names such CPUs."""
    pools = state.pools
    sets = {pools.cpus(name) for name in (*POOLS, *pools.tiers)} | {
        state.topology.usable,
        state.topology.online,
    }
    if cpus == tuning.kubelet_default or cpus in sets:
        return "CPUs that are no pool and not the kubelet's default set"
    free = pools.free | supply.isolated(state)
    if cpus & ~free or not pools.free & ~cpus:
        left = cpuset.render(free) or "none"
        return f"CPUs that are free and leave one to share; free are {left}"
    return ""
