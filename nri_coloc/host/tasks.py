"""Scheduling hints for the tasks of one container's cgroup, and their removal.

The journal holds the cgroup's list of processes as the entry for them, before the first task is changed: tasks come and
go, and all tasks that were born in the cgroup inherited. Their original value is the kernel's default, because hints
are given at a container's start, or to containers that had none. So the journal holds the policy that was set.
"""

from collections.abc import Callable, Iterator
from typing import Final

from nri_coloc.core.scheduler_hints import Hint, Policy
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, scheduler
from nri_coloc.host.knob_files import numbers

NAME: Final = "cgroup.procs"
"""The file by which the journal knows a cgroup whose tasks have a hint."""

_Change = Callable[[int], KernelInterfaceError | None]

_LISTS: Final = ("tasks", "cgroup.threads")
"""By version of the hierarchy, 1 and 2."""

_ROUNDS: Final = 8
"""A task that is forked meanwhile has its parent's policy. When a listing finds no new task, all tasks have the
hint, and later tasks inherit it. A cgroup that forks without end is left after this number of listings."""


def tell(folder: str, version: int, hint: Hint) -> KernelInterfaceError | None:
    """Give all tasks of a cgroup, and of those below it, a hint; the first refusal is returned."""
    return _each(folder, version, lambda tid: scheduler.tell(tid, hint))


def reset(folder: str, version: int, told: str) -> KernelInterfaceError | None:
    """Give all tasks of a cgroup, and of the cgroups below it, the kernel's defaults; the first refusal is returned.

    `told`: the journal's value for them, the name of a policy.
    """
    policy = Policy(told) if told in set(Policy) else Policy.OTHER
    return _each(folder, version, lambda tid: scheduler.reset(tid, policy))


def _each(folder: str, version: int, do: _Change) -> KernelInterfaceError | None:
    """Call `do` for every task once, until no new task is found; the first refusal ends it and is returned."""
    seen: set[int] = set()
    for _ in range(_ROUNDS):
        new = [tid for tid in _members(folder, version) if tid not in seen]
        for tid in new:
            failure = do(tid)
            if failure is not None:
                return failure
        if not new:
            break
        seen.update(new)
    return None


def _members(folder: str, version: int) -> Iterator[int]:
    """Yield task ids; 0 stands for one of another PID namespace, and would be ourselves."""
    for current in files.tree(folder):
        try:
            listed = files.read(f"{current}/{_LISTS[version - 1]}") or ""
        except KernelInterfaceError:
            continue  # a cgroup that is of no use to threads (EOPNOTSUPP), or is going
        yield from (tid for tid in numbers(listed) if tid)
