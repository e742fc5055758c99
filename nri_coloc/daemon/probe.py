"""What this machine and this runtime can take, looked at instead of assumed.

A control file counts as there if the pods' cgroup has it. Before the first pod there may be no such cgroup, and
others tell too little: on v2 the root lacks most files, and a slice those of controllers that systemd has not handed
down. So it is looked at when the runtime connects, and again when pods start until pods' own files were seen.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from nri_coloc.core.knobs import Capability
from nri_coloc.core.readings import SCHEDULER_TICK_S, Signal
from nri_coloc.core.scheduler_hints import SchedulerCapability
from nri_coloc.errors import ColocError
from nri_coloc.host import block_devices, cgroup_layout, counters, readings, scheduler
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.nri import version as nri_version
from nri_coloc.nri.version import NriVersion

ELSEWHERE: Final = ("system.slice", "init.scope", "")
"""Other cgroups to check, the best first; the root only for files that it has."""


PODS_LOOKED_AT: Final = 8
"""How many pods' cgroups are looked for before none is taken to be there."""

CAP_SYS_NICE: Final = 23
CAP_SYS_RESOURCE: Final = 24
LEAST_OOM_SCORE: Final = -1000

MONOTONIC_COARSE: Final = 6
"""CLOCK_MONOTONIC_COARSE, which Python does not name (include/uapi/linux/time.h)."""


def capability(layout: CgroupLayout, version: NriVersion, host_root: str, runtime_pid: int = 0) -> Capability:
    """Return what may be used; a place that cannot be read tells nothing."""
    of_pods = _files_of_pods(layout)
    return Capability(
        cgroup=layout.version,
        files=of_pods or _files(layout, ELSEWHERE),
        seen_on_pods=bool(of_pods),
        oom_at_create=nri_version.takes_oom_score_adj(version),
        oom_least=_least_oom_score(host_root, runtime_pid),
        resctrl=os.path.exists(f"{host_root.rstrip('/')}/sys/fs/resctrl/schemata"),  # noqa: PTH110 - never raises
    )


def with_files_of_pods(layout: CgroupLayout, pods: Iterable[str], known: Capability) -> Capability:
    """Return what is known with the files that pods have, once there are pods to look at; `pods`: their paths."""
    if known.seen_on_pods or not (found := _files(layout, pods) or _files_of_pods(layout)):
        return known
    return replace(known, files=found, seen_on_pods=True)


def _files_of_pods(layout: CgroupLayout) -> frozenset[str]:
    kubepods = cgroup_layout.kubepods_in(layout)
    return _files(layout, (kubepods,)) if kubepods else frozenset()


def stall_signal(layout: CgroupLayout, host_root: str) -> Signal | None:
    """Return what tells how long online pods wait for a CPU; None if nothing does.

    The first process of all shows whether the kernel counts what tasks wait.
    """
    proc = f"{host_root.rstrip('/')}/proc"
    if layout.unified is not None and readings.content(f"{proc}/pressure/cpu") is not None:
        return Signal.PSI
    counted = counters.schedstat(readings.content(f"{proc}/1/schedstat"))
    return None if counted is None else Signal.RUN_DELAY


def stand_in(signal: Signal | None) -> str:
    """Say what takes the place of PSI where there is none."""
    if signal is None:
        return "CPU stalls of online pods are not measured"
    return f"CPU stalls of online pods are measured by the {signal} of their busiest tasks"


def no_place_for_cpus(layout: CgroupLayout, pods: Iterable[str]) -> str:
    """Say why pods' CPUs cannot be set here, and how to mend it; "" where they can. `pods`: paths of pods' cgroups."""
    if layout.cpuset is None:
        return "no cpuset controller is mounted, so no pod can be placed; mount cgroup v2, or v1 with cpuset"
    listed = readings.content(f"{layout.cpuset}/cgroup.controllers") if layout.version == 2 else None
    if listed is not None and b"cpuset" not in listed.split():
        return "the kernel's cgroup v2 hierarchy has no cpuset controller; boot without cgroup_disable=cpuset"
    for path in islice(pods, PODS_LOOKED_AT):
        folder = layout.folder("cpuset", path)
        if folder is not None and os.path.isdir(folder):  # noqa: PTH112 - never raises
            if os.path.exists(f"{folder}/cpuset.cpus"):  # noqa: PTH110 - never raises
                return ""
            above = path.rpartition("/")[0]
            return f"/{path} has no cpuset.cpus; write +cpuset to cgroup.subtree_control of /{above}"
    return ""


def remarks(layout: CgroupLayout, host_root: str) -> str:
    """Say what an operator should know of this machine; "" where there is nothing."""
    signal = stall_signal(layout, host_root)
    waiting = "" if signal is Signal.PSI else f"no PSI: {stand_in(signal)}"
    return "; ".join(filter(None, (io_weights(layout, host_root), waiting)))


def io_weights(layout: CgroupLayout, host_root: str) -> str:
    """Say of each disk whether an I/O weight acts on it; "" where there is none, or nothing tells."""
    try:
        disks = block_devices.read(host_root, layout)
    except ColocError:
        return ""
    return f"disks on which an I/O weight acts: {block_devices.words(disks)}" if disks else ""


def eevdf(release: str) -> bool:
    """Whether the fair class of a kernel of that release is EEVDF; one that cannot be read is not.

    Since 6.6 (Documentation/scheduler/sched-eevdf.rst); by its number, for nothing else tells.
    """
    found = re.match(r"(\d+)\.(\d+)", release, re.ASCII)
    return found is not None and (int(found[1]), int(found[2])) >= (6, 6)


def counters_s() -> float:
    """Return how far a CPU's counter may be behind: the scheduler's tick, no less than that of most kernels.

    Counters are not read at one moment either, so that those of a faster tick are not taken for finer. The coarse
    clocks are set by the tick, whose length is their resolution (kernel/time/posix-timers.c, posix_get_coarse_res).
    """
    return max(SCHEDULER_TICK_S, time.clock_getres(MONOTONIC_COARSE))


def scheduling(host_root: str, warn: Callable[[str], object]) -> SchedulerCapability | None:
    """Return what tasks may be told of the scheduler's policies; None if nothing. `warn` hears what is left out.

    A thread of ours may leave SCHED_IDLE by a limit of our own; others leave it by theirs, or by our capability
    (kernel/sched/syscalls.c, user_check_sched_setscheduler).
    """
    can = scheduler.probe(host_root)
    if can is None:
        return None
    can = can._replace(returns=can.returns and _has_capability(host_root, os.getpid(), CAP_SYS_NICE))
    if not can.returns:
        warn(
            "CAP_SYS_NICE is missing: using SCHED_BATCH instead of SCHED_IDLE, because SCHED_IDLE could not be reverted"
        )
    return can


def _least_oom_score(host_root: str, runtime_pid: int) -> int:
    """Return the lowest oom_score_adj that a runtime may give what it starts.

    Without CAP_SYS_RESOURCE a task's may not go below the lowest that one with it has set (fs/proc/base.c,
    __set_oom_adj), which children inherit and which is never above what the runtime has itself. One that we cannot see
    is taken for what a service is: nobody has raised its own.
    """
    if _has_capability(host_root, runtime_pid, CAP_SYS_RESOURCE):
        return LEAST_OOM_SCORE
    try:
        own = Path(f"{host_root.rstrip('/')}/proc/{runtime_pid}/oom_score_adj").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(own) if re.fullmatch(r"-?[0-9]{1,4}", own) else 0


def _has_capability(host_root: str, pid: int, number: int) -> bool:
    """Whether a process has a capability; one that we cannot see is taken not to (a foreign PID namespace)."""
    try:
        status = (
            Path(f"{host_root.rstrip('/')}/proc/{pid}/status").read_text(errors="replace") if pid > 0 else ""
        )
    except OSError:
        return False
    effective = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.ASCII | re.MULTILINE)
    return bool(effective and int(effective[1], 16) >> number & 1)


def _files(layout: CgroupLayout, places: Iterable[str]) -> frozenset[str]:
    for place in places:
        try:
            found = cgroup_layout.capabilities(layout, place)
        except ColocError:
            continue
        if found:
            return found
    return frozenset()
