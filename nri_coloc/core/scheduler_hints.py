"""Scheduling hints of a container's tasks, by class: values only, set on the first process and inherited.

A short EEVDF slice lets an online task that wakes up run sooner without getting more time. A CPU that runs only
SCHED_IDLE tasks counts as idle when the kernel looks for a CPU for a task that wakes up (kernel/sched/fair.c,
sched_idle_cpu). So online tasks spread over the CPUs as they do without offline tasks. Neither hint has a use on owned
CPUs, and system daemons are left as their authors made them. sched_setattr(2), kernel/sched/syscalls.c: a SCHED_OTHER
or SCHED_BATCH task's `sched_runtime` is its slice since 6.12, clamped to 0.1–100 ms; older kernels take the call and
ignore the number.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.settings import HintTuning
from nri_coloc.core.workload import QoSClass

SLICE_US: Final = (100, 100_000)
"""The kernel's bounds of a slice."""


class Policy(StrEnum):
    """The scheduling policies that share the fair class."""

    OTHER = "SCHED_OTHER"
    BATCH = "SCHED_BATCH"
    IDLE = "SCHED_IDLE"


class SchedulerCapability(NamedTuple):
    """The kernel's support of a hint, as probed.

    slices: whether the kernel keeps a task's own slice and reports it.
    returns: whether any task that was made SCHED_IDLE can be made SCHED_OTHER again (CAP_SYS_NICE: sched(7)).
    """

    slices: bool = False
    returns: bool = False


class Hint(NamedTuple):
    """`slice_us` None is the kernel's own slice."""

    policy: Policy = Policy.OTHER
    slice_us: int | None = None


def hint(qos: QoSClass, tuning: HintTuning, can: SchedulerCapability) -> Hint | None:
    """Return the hint for tasks of a class; None is "leave them as they are"."""
    if qos is QoSClass.RECLAIMED and tuning.offline_policy:
        policy = Policy(tuning.offline_policy)
        # no hint without restore: it could not be reverted
        return Hint(Policy.BATCH if policy is Policy.IDLE and not can.returns else policy)
    if qos is QoSClass.SHARED and tuning.online_slice_us > 0 and can.slices:
        least, most = SLICE_US
        return Hint(Policy.OTHER, min(max(tuning.online_slice_us, least), most))
    return None
