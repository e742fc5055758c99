"""What a few tasks of a group waited for a CPU, as one counter: the stall signal where the kernel tells no PSI.

PSI `some` is the part of the time in which at least one task waits. A sum over tasks is the mean number of those that
wait: never less, about the same while few do, and the figure that the load's own part is worked out as
(`lending.stall.explained`). The kernel counts a wait when it ends (kernel/sched/stats.h, sched_info_arrive), so that a
long one shows late and whole.

Listing tasks and asking each costs some 5 µs a task with opening and closing: that is the slow loop's. The fast one
reads those that were chosen, with their files open: 1.3 µs of CPU time each, as a pressure file costs, and up to 9 µs
after a sleep of 20 ms (2 CPUs, both busy, Linux 6.18).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.host import counters
from nri_coloc.host.counters import Schedstat
from nri_coloc.host.descriptors import Descriptors, OpenFile, Vanished

MOST_TASKS: Final = 8
"""Of all groups together; a fast tick reads about as many files (DESIGN 6)."""


def busiest(
    before: Mapping[int, Schedstat], after: Mapping[int, Schedstat], most: int = MOST_TASKS
) -> tuple[int, ...]:
    """Return the tasks that wanted a CPU for longest between two listings, running or waiting for one, by their ids.

    Who is in the later listing alone comes after all these, by all of its life; who wanted none is left out.
    """
    wanted = {task: _wanted(before.get(task), now) for task, now in after.items()}
    found = sorted((task for task in wanted if any(wanted[task])), key=wanted.__getitem__, reverse=True)
    return tuple(sorted(found[:most]))


def _wanted(before: Schedstat | None, now: Schedstat) -> tuple[int, int]:
    """Return what a task wanted since it was listed, and, of one that was not, in all of its life; µs."""
    if before is None or now.ran_us < before.ran_us or now.waited_us < before.waited_us:
        return 0, now.ran_us + now.waited_us  # a counter that went back is another task's that got the id
    return now.ran_us - before.ran_us + now.waited_us - before.waited_us, 0


class RunDelay:
    """Adds up by how much the waiting of chosen tasks rises; belongs to the fast tick's thread. `proc`: where /proc is.

    Who joins or leaves moves nothing: the sum never falls, and rises by what is waited while a task is followed.
    """

    def __init__(self, bank: Descriptors, proc: str) -> None:
        self._bank = bank
        self._proc = proc
        self._files: dict[int, OpenFile] = {}
        self._waited_us: dict[int, int] = {}
        self._total_us = 0

    @property
    def cost(self) -> int:
        """How many files a read touches."""
        return len(self._files)

    def follow(self, tasks: Iterable[int]) -> None:
        """Read these from now on; one that has ended is none."""
        wanted = frozenset(tasks)
        for task in self._files.keys() - wanted:
            self._leave(task)
        for task in wanted - self._files.keys():
            file = self._bank.open_readable(f"{self._proc}/{task}", "schedstat")
            if file is not None:
                self._files[task] = file

    def read(self) -> int | None:
        """Return the sum, µs; None where no task tells anything (any more)."""
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
