"""Compute the use of pods between two snapshots: the input of the forecast.

Rates are made of two readings of the same cgroup, by its identity. Otherwise the rate is unknown: None, never zero.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.core.apportionment import apportion
from nri_coloc.core.readings import GroupReading, NodeReading, Picture, milli_between, risen
from nri_coloc.pods.replicas import OnlinePod

SYSTEM: Final = "/system"
"""The workload, and the pod, that represents all use beside kubepods; no namespace is empty."""


class Use(NamedTuple):
    """One pod's use; None is unknown.

    cpu_milli: mean between two snapshots, milli-CPU.
    memory_bytes: working set.
    """

    workload: str
    cpu_milli: int | None = None
    memory_bytes: int | None = None


def uses_between(before: Picture, after: Picture, online: Mapping[str, OnlinePod]) -> dict[str, Use]:
    """Return the use of the online pods, and of the system beside kubepods, between two snapshots.

    A pod that is not in the later snapshot is left out; an amount that cannot be computed is None. Use on reserved
    CPUs does not count. It is subtracted from the system first, because these CPUs are meant for it. The rest is
    subtracted from pods that may run there (`usage.claimed` divides alike).
    """
    uses = {
        pod_id: Use(
            pod.workload,
            _pod_milli(before, after, pod_id, pod),
            _working_set(after.pods[pod_id]),
        )
        for pod_id, pod in online.items()
        if pod_id in after.pods
    }
    beside = _beside_pods(before, after)
    uses[SYSTEM] = Use(SYSTEM, None if beside is None else max(0, beside), _system_bytes(after))
    there = {k: used.cpu_milli for k, used in uses.items() if k in online and online[k].on_reserved}
    return uses | _without_reserved(uses, there, max(0, -(beside or 0)))


def _without_reserved(uses: Mapping[str, Use], there: Mapping[str, int | None], milli: int) -> dict[str, Use]:
    """Return the uses of pods that may run on reserved CPUs, reduced by `milli` in proportion to their use.

    No file shows which of these pods ran there. If one pod's use is unknown, nothing is subtracted, because all of it
    may have been that pod's.
    """
    known = {pod_id: used for pod_id, used in there.items() if used is not None}
    if len(known) < len(there):
        return {}
    parts = apportion(min(milli, sum(known.values())), known)
    return {k: uses[k]._replace(cpu_milli=used - parts[k]) for k, used in known.items()}


def _pod_milli(before: Picture, after: Picture, pod_id: str, pod: OnlinePod) -> int | None:
    """Return a pod's own use, milli-CPU, without its containers that are lent to.

    A container with unknown use subtracts nothing.
    """
    milli = None if pod.own_cpus else milli_between(before.pods.get(pod_id), after.pods[pod_id])
    if milli is None or not pod.lent_to:
        return milli
    lent = (milli_between(before.containers.get(one), after.containers.get(one)) for one in pod.lent_to)
    return max(0, milli - sum(one or 0 for one in lent))


def _working_set(reading: GroupReading | None) -> int | None:
    return None if reading is None or reading.memory is None else reading.memory.working_set


def _beside_pods(before: Picture, after: Picture) -> int | None:
    """Return the use beside pods less the use on reserved CPUs; negative as far as that was pods' use.

    Host groups among the reclaim cgroups are left out. No counter shows on which CPUs the rest ran: all of it counts
    as a claim on lendable CPUs.
    """
    pods = milli_between(before.kubepods, after.kubepods)
    first, last = before.node, after.node
    all_us = risen(first.usage_us, last.usage_us)
    if pods is None or all_us is None or last.at <= first.at:
        return None
    lent = sum(milli_between(before.host_groups.get(n), g) or 0 for n, g in after.host_groups.items())
    rest = max(0, _milli(all_us, first, last) - pods - lent)
    return rest - _milli(_reserved_us(first, last), first, last)


def _milli(used_us: int, first: NodeReading, last: NodeReading) -> int:
    return round(used_us / (last.at - first.at) / 1000)


def _reserved_us(first: NodeReading, last: NodeReading) -> int:
    """Return the use of reserved CPUs, µs; 0 if the two readings are of different sets of CPUs."""
    if first.reserved != last.reserved:
        return 0
    return risen(first.reserved_usage_us, last.reserved_usage_us) or 0


def _system_bytes(after: Picture) -> int | None:
    """Return the memory that is neither free, nor easily reclaimed, nor in use by pods or host groups; bytes.

    Working sets contain reclaimable slab (usage less inactive file). The machine's use no longer contains it here, so
    it is added once. If only a slab's upper bound is known, the system counts as larger, never as smaller.
    """
    node, kubepods = after.node, after.kubepods
    pods = kubepods.memory if kubepods is not None else None
    if pods is None or not node.memory_total:
        return None
    used = node.memory_total - node.memory_free - node.inactive_file - node.slab_reclaimable
    others = [group.memory for group in after.host_groups.values() if group.memory is not None]
    slab = sum(one.most_slab for one in (pods, *others))
    return max(0, used - sum(one.working_set for one in (pods, *others)) + min(slab, node.slab_reclaimable))
