"""The oom_score_adj of a container's processes: our value while it runs, the original value afterwards.

A score belongs to a process and is inherited, so there is no file of a cgroup that holds it: the journal knows the
container by its cgroup's list of threads, with the original score of its first process. Restored are the scores of that
process and of all with the same score; a process with another score chose it itself.

Without CAP_SYS_RESOURCE the kernel takes no score below the least that a process with it set
(proc_pid_oom_score_adj(5)).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.knob_files import numbers

NAMES: Final = ("tasks", "cgroup.threads")
"""The file by which the journal knows a cgroup whose processes have another score, by version of the hierarchy."""


def read(proc: str, pid: int) -> str | None:
    """Return a process's score; None if it is gone. Raises KernelInterfaceError."""
    return files.read(f"{proc}/{pid}/oom_score_adj")


def give(
    proc: str, pids: Iterable[int], score: str, note: Callable[[str], None]
) -> KernelInterfaceError | None:
    """Give processes a score, the container's first one first; `note` gets a former score before it is overwritten.

    Child processes inherit it: if the first process has it already, a process with another score chose it itself. The
    first refusal is returned, and ends it.
    """
    first = True
    try:
        for pid in pids:
            shown = read(proc, pid)
            if first and shown == score:
                break
            first = False
            if shown in (None, score):
                continue
            note(str(shown))
            files.write(f"{proc}/{pid}/oom_score_adj", score)
    except KernelInterfaceError as error:
        return error.as_value()
    return None


def reset(folder: str, proc: str, score: str, first: int = 0) -> KernelInterfaceError | None:
    """Give the processes of a cgroup and of those below it a score back; the first refusal is returned.

    `first`: the container's first process, where the caller knows it.
    """
    try:
        pids = [pid for pid in (first, *_members(folder)) if pid]
        given = next((shown for pid in pids if (shown := read(proc, pid)) is not None), None)
        for pid in pids if given not in (None, score) else ():
            if read(proc, pid) == given:
                files.write(f"{proc}/{pid}/oom_score_adj", score)
    except KernelInterfaceError as error:
        return error.as_value()
    return None


def _members(folder: str) -> Iterator[int]:
    """Yield process ids; processes of another PID namespace read as 0.

    A threaded cgroup of v2, which a container may make below its own, lists no processes (EOPNOTSUPP): the cgroup above
    lists them (Documentation/admin-guide/cgroup-v2, "Threads").
    """
    for current in files.tree(folder):
        with suppress(KernelInterfaceError):
            yield from numbers(files.read(f"{current}/cgroup.procs") or "")
