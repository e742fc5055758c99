"""What pods used between two pictures: the raw material of the prediction.

Rates are made of two readings of the same cgroup, by its identity; anything else says nothing, which is None and
never zero.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.model.readings import GroupReading, NodeReading, Picture
from nri_coloc.model.remainder import risen
from nri_coloc.reclaim.workload import OnlinePod

SYSTEM: Final = "/system"
"""The workload, and the pod, that stands for all that runs beside kubepods; no namespace is empty."""


class Use(NamedTuple):
    """What one pod used: milli-CPU on average between two pictures, working set in bytes; None is not known."""

    workload: str
    cpu_milli: int | None = None
    memory_bytes: int | None = None


def uses_between(before: Picture, after: Picture, online: Mapping[str, OnlinePod]) -> dict[str, Use]:
    """Return what the online pods, and the system beside kubepods, used between two pictures.

    A pod that is not in the later picture is left out; what cannot be told of one that is, is None.
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
    uses[SYSTEM] = Use(SYSTEM, _system_milli(before, after), _system_bytes(after))
    return uses


def _pod_milli(before: Picture, after: Picture, pod_id: str, pod: OnlinePod) -> int | None:
    """What its containers used that are lent to is not its own; one of which nothing is known hides nothing."""
    milli = None if pod.own_cpus else milli_between(before.pods.get(pod_id), after.pods[pod_id])
    if milli is None or not pod.lent_to:
        return milli
    lent = (milli_between(before.containers.get(one), after.containers.get(one)) for one in pod.lent_to)
    return max(0, milli - sum(one or 0 for one in lent))


def milli_between(before: GroupReading | None, after: GroupReading | None) -> int | None:
    """Return the mean use in milli-CPU; None for two different cgroups, a clock that stands or a counter set back."""
    if before is None or after is None or before.key != after.key or after.at <= before.at:
        return None
    used_us = risen(before.usage_us, after.usage_us)
    return None if used_us is None else round(used_us / (after.at - before.at) / 1000)


def _working_set(reading: GroupReading | None) -> int | None:
    return None if reading is None or reading.memory is None else reading.memory.working_set


def _system_milli(before: Picture, after: Picture) -> int | None:
    """What ran on reserved CPUs is not the system's, those are not lent either; nor is a host group of the box's.

    Of the rest nothing tells on which CPUs it ran: all of it counts as a claim on what is lent.
    """
    pods = milli_between(before.kubepods, after.kubepods)
    first, last = before.node, after.node
    all_us = risen(first.usage_us, last.usage_us)
    if pods is None or all_us is None or last.at <= first.at:
        return None
    whole_us = all_us - _reserved_us(first, last)
    lent = sum(milli_between(before.host_groups.get(n), g) or 0 for n, g in after.host_groups.items())
    return max(0, round(whole_us / (last.at - first.at) / 1000) - pods - lent)


def _reserved_us(first: NodeReading, last: NodeReading) -> int:
    """Two readings of one set of CPUs, of which none left and came back; else nothing is known of them."""
    if first.reserved != last.reserved:
        return 0
    return risen(first.reserved_usage_us, last.reserved_usage_us) or 0


def _system_bytes(after: Picture) -> int | None:
    """All that is neither free, nor easily reclaimed, nor the pods' own, nor a host group's.

    Working sets have reclaimable slab in them (usage less inactive file), which the machine's use has not any more: it
    is taken off once. Where only its most is known, the system is taken for larger and not for smaller.
    """
    node, kubepods = after.node, after.kubepods
    pods = kubepods.memory if kubepods is not None else None
    if pods is None or not node.memory_total:
        return None
    used = node.memory_total - node.memory_free - node.inactive_file - node.slab_reclaimable
    others = [group.memory for group in after.host_groups.values() if group.memory is not None]
    slab = sum(one.most_slab for one in (pods, *others))
    return max(0, used - sum(one.working_set for one in (pods, *others)) + min(slab, node.slab_reclaimable))
