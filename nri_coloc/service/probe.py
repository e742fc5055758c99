"""Find out by reads which features this machine and this runtime have.

A control file counts as present if the pods' cgroups have it. Before the first pod there may be no such cgroup, or that
of another kubelet too. Other cgroups show too little: on v2 the root lacks most files, and a slice lacks files of
controllers that systemd has not delegated. So files are checked when the runtime connects, and again when pods of
another kubelet come or go.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from nri_coloc.core.knobs import Capability
from nri_coloc.core.kubepods import kubepods_of
from nri_coloc.core.readings import Signal
from nri_coloc.core.scheduler_hints import SchedulerCapability
from nri_coloc.errors import ColocError
from nri_coloc.host import block_devices, cgroup_layout, counters, readings, scheduler
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.nri import version as nri_version
from nri_coloc.nri.version import NriVersion

Paths = tuple[str, ...]

ELSEWHERE: Final = ("system.slice", "init.scope", "")
"""Other cgroups to check, the best first. The root comes last, because it lacks most files."""


PODS_LOOKED_AT: Final = 8
"""The most pods of a kubelet whose cgroups are looked for."""

CAP_SYS_NICE: Final = 23
CAP_SYS_RESOURCE: Final = 24
LEAST_OOM_SCORE: Final = -1000


def capability(
    layout: CgroupLayout,
    version: NriVersion,
    host_root: str,
    runtime_pid: int = 0,
    *,
    pods: Iterable[str] = (),
) -> Capability:
    """Return the capabilities of this machine and runtime. A place that cannot be read counts as without files.

    pods: paths of the known pods' cgroups.
    """
    places = _by_kubepods(pods) or dict.fromkeys(cgroup_layout.only_kubepods(layout), ())
    found = _files_below(layout, places)
    return Capability(
        cgroup=layout.version,
        files=_common(found) or _files(layout, ELSEWHERE),
        seen_below=frozenset(found),
        oom_at_create=nri_version.takes_oom_score_adj(version),
        oom_least=_least_oom_score(host_root, runtime_pid),
        resctrl=os.path.exists(f"{host_root.rstrip('/')}/sys/fs/resctrl/schemata"),  # noqa: PTH110 - never raises
    )


def with_files_of_pods(layout: CgroupLayout, pods: Iterable[str], known: Capability) -> Capability:
    """Return the known capabilities, with the files of pods if these are of other kubelets than the files known so far.

    pods: paths of pods' cgroups. A file that pods of one kubelet lack is not among the files: runc refuses to create a
        container if its spec names it.
    """
    places = _by_kubepods(pods)
    if places.keys() == known.seen_below or not (found := _files_below(layout, places)):
        return known
    return replace(known, files=_common(found), seen_below=frozenset(found))


def _by_kubepods(pods: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return some pods' paths by the cgroup of all pods in which they lie, "" for pods outside any."""
    found: dict[str, tuple[str, ...]] = {}
    for path in pods:
        place = kubepods_of(path)
        if len(known := found.get(place, ())) < PODS_LOOKED_AT:
            found[place] = (*known, path)
    return found


def _files_below(layout: CgroupLayout, places: Mapping[str, Paths]) -> dict[str, frozenset[str]]:
    """Return the files of a pod of each place, or of the place itself; without places that have neither."""
    of_each = {place: _files(layout, (*pods, *filter(None, (place,)))) for place, pods in places.items()}
    return {place: files for place, files in of_each.items() if files}


def _common(found: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset.intersection(*found.values()) if found else frozenset()


def stall_signal(layout: CgroupLayout, host_root: str) -> Signal | None:
    """Return the source of online pods' stalls; None if there is none.

    Process 1 shows whether the kernel counts run-queue delay.
    """
    proc = f"{host_root.rstrip('/')}/proc"
    if layout.unified is not None and readings.content(f"{proc}/pressure/cpu") is not None:
        return Signal.PSI
    counted = counters.schedstat(readings.content(f"{proc}/1/schedstat"))
    return None if counted is None else Signal.RUN_DELAY


def stand_in(signal: Signal | None) -> str:
    """Return a sentence on the replacement of PSI if the kernel has none."""
    if signal is None:
        return "CPU stalls of online pods are not measured"
    return f"CPU stalls of online pods are measured by the {signal} of their busiest tasks"


def no_place_for_cpus(layout: CgroupLayout, pods: Iterable[str]) -> str:
    """Return why pods' CPUs cannot be set here, and how to repair that; "" if they can.

    pods: paths of pods' cgroups.
    """
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
    """Return the facts that an operator should know of this machine; "" for none."""
    signal = stall_signal(layout, host_root)
    waiting = "" if signal is Signal.PSI else f"no PSI: {stand_in(signal)}"
    return "; ".join(filter(None, (io_weights(layout, host_root), waiting)))


def io_weights(layout: CgroupLayout, host_root: str) -> str:
    """Return for each disk whether an I/O weight acts on it, as a sentence; "" without disks, or if that is unknown."""
    try:
        disks = block_devices.read(host_root, layout)
    except ColocError:
        return ""
    return f"disks on which an I/O weight acts: {block_devices.words(disks)}" if disks else ""


def eevdf(release: str) -> bool:
    """Return whether the fair class of a kernel release is EEVDF; False for a release that cannot be parsed.

    Since 6.6 (Documentation/scheduler/sched-eevdf.rst). Only the release number shows it.
    """
    found = re.match(r"(\d+)\.(\d+)", release, re.ASCII)
    return found is not None and (int(found[1]), int(found[2])) >= (6, 6)


def scheduling(host_root: str, warn: Callable[[str], object]) -> SchedulerCapability | None:
    """Return the scheduling policies that tasks may be given; None if there are none.

    warn: called with a sentence on a policy that is not used.

    A thread of ours may leave SCHED_IDLE by its own limit. Other threads leave it by theirs, or by our capability
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
    """Return the lowest oom_score_adj that a runtime may give a process that it starts.

    Without CAP_SYS_RESOURCE a task's score may not go below the lowest that a task with it has set (fs/proc/base.c,
    __set_oom_adj). Children inherit that bound, and it is never above the runtime's own score. For a runtime that is
    not visible the answer is 0, the score of a service.
    """
    if _has_capability(host_root, runtime_pid, CAP_SYS_RESOURCE):
        return LEAST_OOM_SCORE
    try:
        own = Path(f"{host_root.rstrip('/')}/proc/{runtime_pid}/oom_score_adj").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(own) if re.fullmatch(r"-?[0-9]{1,4}", own) else 0


def _has_capability(host_root: str, pid: int, number: int) -> bool:
    """Return whether a process has a capability; False for a process that is not visible (another PID namespace)."""
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
