"""Scheduling policies and slices of tasks: of one task by sched_setattr(2), and of all tasks of a container's cgroup.

Only tasks of the fair class's two ordinary policies are changed: a task that is real-time, idle or scheduled by
deadlines was made so on purpose. Niceness and flags stay. A task that is gone is ignored; a refusal is returned, not
raised. `sched_runtime` is the slice of such a task since 6.12 (kernel/sched/syscalls.c, __setparam_fair), and
sched_getattr reports it; older kernels take the call, ignore the number and report 0.

Before the first task is changed, the journal gets an entry for the cgroup's list of processes (`NAME`). Tasks come and
go, and a task that is forked in the cgroup inherits the policy. Their original value is the kernel's default, because
hints are given at a container's start, or to containers that had none. So the entry holds the policy that was set.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from nri_coloc.core.scheduler_hints import Hint, Policy, SchedulerCapability
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.knob_files import numbers

_NUMBERS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""sched_setattr and sched_getattr (arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h)."""

_libc: Final = ctypes.CDLL(None, use_errno=True)
"""Made once: each makes a class of its own, 3 KiB of cycles that wait for their collector."""

_ATTR: Final = struct.Struct("=IIQiIQQQ")
"""struct sched_attr of its first version: size, policy, flags, nice, priority, runtime, deadline, period."""

OTHER, BATCH, IDLE = 0, 3, 5
_ORDINARY: Final = frozenset((OTHER, BATCH))
_TOLD: Final = {Policy.BATCH: BATCH, Policy.IDLE: IDLE}
_RESET_ON_FORK: Final = 0x01
_KERNELS_OWN: Final = 0
"""As a slice: the scheduler's own."""

_TRIED_US: Final = 1700
"""A slice that no kernel has by default, for the probe."""


class Attributes(NamedTuple):
    """The attributes of a task; `slice_us` is 0 if the kernel reports none."""

    policy: int
    nice: int = 0
    flags: int = 0
    slice_us: int = 0


def read(tid: int) -> Attributes | None:
    """Return a task's attributes (0: the caller's); None if it is gone. Raises KernelInterfaceError."""
    buffer = ctypes.create_string_buffer(_ATTR.size)
    if _call(1, tid, buffer, _ATTR.size, 0) is None:
        return None
    _, policy, flags, nice, _, runtime, _, _ = _ATTR.unpack(buffer.raw)
    return Attributes(policy, nice, flags, runtime // 1000)


def write(tid: int, wanted: Attributes) -> None:
    """Set a task's attributes; nothing for one that is gone. Raises KernelInterfaceError."""
    size, slice_ns = _ATTR.size, wanted.slice_us * 1000
    flags = wanted.flags & _RESET_ON_FORK
    attr = _ATTR.pack(size, wanted.policy, flags, wanted.nice, 0, slice_ns, 0, 0)
    _call(0, tid, ctypes.create_string_buffer(attr, size), 0)


def tell(tid: int, hint: Hint) -> KernelInterfaceError | None:
    """Give one task a hint; a task that has it already, or whose policy is not an ordinary one, is left alone."""
    try:
        found = read(tid)
        if found is None or found.policy not in _ORDINARY:
            return None
        told = found._replace(
            policy=_TOLD.get(hint.policy, found.policy),
            slice_us=found.slice_us if hint.slice_us is None else hint.slice_us,
        )
        if told != found:
            # a slice that is read back may be the kernel's own: written back it would become the task's
            write(tid, told if hint.slice_us is not None else told._replace(slice_us=_KERNELS_OWN))
    except KernelInterfaceError as error:
        return error.as_value()
    return None


def reset(tid: int, told: Policy = Policy.OTHER) -> KernelInterfaceError | None:
    """Restore one task's attributes from before a hint of this policy, with the kernel's slice.

    A task that was made batch or idle had the ordinary policy before. Any other task keeps its own policy.
    """
    try:
        found = read(tid)
        ours = _TOLD.get(told)
        if found is not None and found.policy in _ORDINARY | {ours}:
            policy = OTHER if found.policy == ours else found.policy
            write(tid, found._replace(policy=policy, slice_us=_KERNELS_OWN))
    except KernelInterfaceError as error:
        return error.as_value()
    return None


def probe(host_root: str) -> SchedulerCapability | None:
    """Return the hints that this kernel supports; None if the attributes of tasks cannot be set from here.

    That is so on a machine without a number for the calls, and if cgroups show other process ids than the host's: in a
    PID namespace of our own they would name other tasks. Tried on a thread that ends with it.
    """
    if platform.machine() not in _NUMBERS or not _sees_the_hosts_processes(host_root):
        return None
    found: list[SchedulerCapability] = []
    trial = Thread(target=lambda: found.append(_tried()), name="probe", daemon=True)
    trial.start()
    trial.join(5)
    return found[0] if found else SchedulerCapability()


def _tried() -> SchedulerCapability:
    found = None
    with suppress(KernelInterfaceError):
        found = read(0)
    if found is None or found.policy not in _ORDINARY:
        return SchedulerCapability()
    # last what the thread may be left with
    return SchedulerCapability(slices=_keeps_a_slice(found), returns=_comes_back(found))


def _keeps_a_slice(found: Attributes) -> bool:
    with suppress(KernelInterfaceError):
        write(0, found._replace(slice_us=_TRIED_US))
        return read(0) == found._replace(slice_us=_TRIED_US)
    return False


def _comes_back(found: Attributes) -> bool:
    with suppress(KernelInterfaceError):
        write(0, found._replace(policy=IDLE, slice_us=_KERNELS_OWN))
        write(0, found._replace(slice_us=_KERNELS_OWN))
        return True
    return False


def _sees_the_hosts_processes(host_root: str) -> bool:
    """Return whether the host's /proc calls us by our own number (proc(5), /proc/self)."""
    try:
        return Path(f"{host_root.rstrip('/')}/proc/self").readlink() == Path(str(os.getpid()))
    except OSError:
        return False


def _call(which: int, tid: int, *arguments: object) -> bool | None:
    """Make one of the two calls; None for a task that is gone."""
    number = _NUMBERS[platform.machine()][which]
    if _libc.syscall(number, tid, *arguments) >= 0:
        return True
    found = ctypes.get_errno()
    if found == errno.ESRCH:
        return None
    verb = ("tell", "ask")[which]
    raise KernelInterfaceError(f"/proc/{tid}/sched", verb, os.strerror(found))


NAME: Final = "cgroup.procs"
"""The file by which the journal knows a cgroup whose tasks have a hint."""

_Change = Callable[[int], KernelInterfaceError | None]

_LISTS: Final = ("tasks", "cgroup.threads")
"""By version of the hierarchy, 1 and 2."""

_ROUNDS: Final = 8
"""A task that is forked meanwhile has its parent's policy. When a listing finds no new task, all tasks have the
hint, and later tasks inherit it. A cgroup that forks without end is left after this number of listings."""


MOST_CGROUPS: Final = 1024
"""Cgroups of a container of which the tasks get a hint. Each costs some 40 µs of the thread that moves containers, and
a container may nest any number. Tasks in further cgroups have the hint that they inherited."""


def tell_all(folder: str, version: int, hint: Hint) -> KernelInterfaceError | None:
    """Give the tasks of a cgroup and of `MOST_CGROUPS` below it a hint; the first refusal is returned."""
    return _each(folder, version, lambda tid: tell(tid, hint), MOST_CGROUPS)


def reset_all(folder: str, version: int, told: str) -> KernelInterfaceError | None:
    """Give all tasks of a cgroup, and of the cgroups below it, the kernel's defaults; the first refusal is returned.

    `told`: the journal's value for them, the name of a policy.
    """
    policy = Policy(told) if told in set(Policy) else Policy.OTHER
    return _each(folder, version, lambda tid: reset(tid, policy))


def _each(folder: str, version: int, do: _Change, most: int | None = None) -> KernelInterfaceError | None:
    """Call `do` for every task once, until no new task is found; the first refusal ends it and is returned.

    most: cgroups that are listed; None for all.
    """
    seen: set[int] = set()
    for _ in range(_ROUNDS):
        new = [tid for tid in _members(folder, version, most) if tid not in seen]
        for tid in new:
            failure = do(tid)
            if failure is not None:
                return failure
        if not new:
            break
        seen.update(new)
    return None


def _members(folder: str, version: int, most: int | None = None) -> Iterator[int]:
    """Yield task ids; 0 stands for one of another PID namespace, and would be ourselves."""
    for current in islice(files.tree(folder), most):
        try:
            listed = files.read(f"{current}/{_LISTS[version - 1]}") or ""
        except KernelInterfaceError:
            continue  # a cgroup that is of no use to threads (EOPNOTSUPP), or is going
        yield from (tid for tid in numbers(listed) if tid)
