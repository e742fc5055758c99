"""Measure the CPU wait of a few tasks of a group as one counter: the stall signal of a kernel without PSI.

PSI `some` is the part of the time in which at least one task waits. A sum over tasks is the mean number of waiting
tasks. It is never less, and about the same while few tasks wait. It is also the figure that the load's own part is
computed as (`lending.usage.explained`). The kernel counts a wait when it ends (kernel/sched/stats.h,
sched_info_arrive), so that a long wait shows late and whole.

To list tasks and read each costs some 5 µs a task with opening and closing; the slow loop does it. The fast loop
reads the chosen tasks, with their files open: 1.3 µs of CPU time each, as a pressure file costs, and up to 9 µs after
a sleep of 20 ms (2 CPUs, both busy, Linux 6.18).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.host import counters
from nri_coloc.host.counters import Schedstat
from nri_coloc.host.files import Descriptors, OpenFile, Vanished

MOST_TASKS: Final = 8
"""Tasks of all groups together; a fast tick reads about as many files."""


def busiest(
    before: Mapping[int, Schedstat], after: Mapping[int, Schedstat], most: int = MOST_TASKS
) -> tuple[int, ...]:
    """Return the ids of the tasks that ran or waited for a CPU longest between two listings.

    Tasks that are only in the later listing come last, ordered by their whole life. Tasks that wanted no CPU are left
    out.
    """
    wanted = {task: _wanted(before.get(task), now) for task, now in after.items()}
    found = sorted((task for task in wanted if any(wanted[task])), key=wanted.__getitem__, reverse=True)
    return tuple(sorted(found[:most]))


def _wanted(before: Schedstat | None, now: Schedstat) -> tuple[int, int]:
    """Return the CPU time that a task wanted since the last listing, and that of a new task in its whole life; µs."""
    if before is None or now.ran_us < before.ran_us or now.waited_us < before.waited_us:
        return 0, now.ran_us + now.waited_us  # counter went back: another task has the id now
    return now.ran_us - before.ran_us + now.waited_us - before.waited_us, 0


class RunDelay:
    """Adds up the growth of chosen tasks' wait times; for the fast tick's thread only. `proc`: path of /proc.

    A task that joins or leaves does not change the sum. The sum never falls; it rises by the waits of tasks while
    they are followed.
    """

    def __init__(self, bank: Descriptors, proc: str) -> None:
        self._bank = bank
        self._proc = proc
        self._files: dict[int, OpenFile] = {}
        self._waited_us: dict[int, int] = {}
        self._total_us = 0

    @property
    def cost(self) -> int:
        """Return the number of files that a read touches."""
        return len(self._files)

    def follow(self, tasks: Iterable[int]) -> None:
        """Read these tasks from now on; ignore a task that has ended."""
        wanted = frozenset(tasks)
        for task in self._files.keys() - wanted:
            self._leave(task)
        for task in wanted - self._files.keys():
            file = self._bank.open_readable(f"{self._proc}/{task}", "schedstat")
            if file is not None:
                self._files[task] = file

    def read(self) -> int | None:
        """Return the sum, µs; None if no task can be read."""
        for task, file in tuple(self._files.items()):
            try:
                self._take(task, counters.schedstat(file.read()))
            except Vanished:
                self._leave(task)
        return self._total_us if self._waited_us else None

    def _take(self, task: int, found: Schedstat | None) -> None:
        if found is not None:
            self._total_us += max(0, found.waited_us - self._waited_us.get(task, found.waited_us))
            self._waited_us[task] = found.waited_us

    def _leave(self, task: int) -> None:
        self._files.pop(task).close()
        self._waited_us.pop(task, None)
