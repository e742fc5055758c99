"""CFS bandwidth of a pod and its containers: quota and burst, and the order in which to write them.

The kernel refuses a burst above the quota (kernel/sched/core.c, tg_set_cfs_bandwidth: EINVAL), so a burst goes down
before its quota and up after it; and on cgroup v1 a child's quota above its parent's (tg_cfs_schedulable_down), so a
quota goes down in the containers before the pod and up in the pod before the containers.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from nri_coloc.core.knobs import NO_LIMIT

POD: Final = ""
"""The name of the pod itself among its containers."""


class Bandwidth(NamedTuple):
    """µs per period; a quota of -1 is none, and bears any burst."""

    quota: int = NO_LIMIT
    burst: int = 0


class Write(NamedTuple):
    """One write: to the pod ("") or a container, the knob, the value in µs."""

    target: str
    knob: Literal["quota", "burst"]
    value: int


def of_pod(pod_quota: int, containers: Mapping[str, Bandwidth]) -> Bandwidth:
    """Return the pod's own bandwidth: its quota, and the sum of its containers' bursts as far as that bears it.

    A container's burst beyond its pod's could never be used: the pod's quota is spent first.
    """
    burst = sum(each.burst for each in containers.values())
    return Bandwidth(pod_quota, burst if pod_quota == NO_LIMIT else min(burst, pod_quota))


def writes(before: Mapping[str, Bandwidth], after: Mapping[str, Bandwidth]) -> tuple[Write, ...]:
    """Return what to write, in an order in which the kernel takes every step, v1 and v2 alike.

    Both mappings: POD and containers by name. What is not in `before` is new, with the kernel's defaults; only what
    differs is written. `before` and `after` themselves must be such that the kernel bears them.
    """
    inner = sorted(name for name in after if name != POD)
    outer = [POD] if POD in after else []
    up, down = outer + inner, inner + outer
    had = {name: before.get(name, Bandwidth()) for name in after}
    return (
        *_bursts_down(down, had, after),
        *_quotas(down, had, after, falling=True),
        *_quotas(up, had, after, falling=False),
        *_bursts_up(up, had, after),
    )


def _bursts_down(
    names: list[str], had: Mapping[str, Bandwidth], after: Mapping[str, Bandwidth]
) -> Iterator[Write]:
    return (Write(n, "burst", after[n].burst) for n in names if after[n].burst < had[n].burst)


def _bursts_up(
    names: list[str], had: Mapping[str, Bandwidth], after: Mapping[str, Bandwidth]
) -> Iterator[Write]:
    return (Write(n, "burst", after[n].burst) for n in names if after[n].burst > had[n].burst)


def _quotas(
    names: list[str], had: Mapping[str, Bandwidth], after: Mapping[str, Bandwidth], *, falling: bool
) -> Iterator[Write]:
    for name in names:
        old, new = had[name].quota, after[name].quota
        if new != old and (_height(name, new) < _height(name, old)) is falling:
            yield Write(name, "quota", new)


def _height(name: str, quota: int) -> float:
    """How high a quota is for the check of the hierarchy: a container without one takes its pod's, and always fits."""
    if quota != NO_LIMIT:
        return quota
    return float("inf") if name == POD else float("-inf")
