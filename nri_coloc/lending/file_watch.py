"""Watch the files of reclaim cgroups, so that drift is repaired at once and not only by the round-robin checks.

A thread sleeps in the kernel until one of the files is written. Our own writes wake it too, and an event does not name
the writer. So each writer of ours reports its write afterwards, and a cgroup with such a report is not checked now.
Another writer may have written after us. The round-robin check of the fast loop finds that. It also checks cgroups for
which the kernel grants no watches. A check that finds the right values writes nothing and causes no further event.

After each turn there is a pause in proportion to its cost, which bounds the cost of a flood of writes. `Drifts` bounds
how often a cgroup is repaired.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event, Thread
from typing import Final, NamedTuple

from nri_coloc.core.report import Report
from nri_coloc.host.inotify import Watches

SETTLES_S: Final = 0.005
"""Seconds after the first event: a resize writes all cgroups, and then each write is reported."""

COST_SHARE: Final = 0.0005
"""Part of a core that the thread may cost: the pause after a turn stretches with the turn's cost, up to the longest."""

LONGEST_PAUSE_S: Final = 4.0

ARMED_EVERY_S: Final = 60.0
"""Seconds. A cgroup that was created again at the same path is not watched, and the kernel does not report it."""


class Member(NamedTuple):
    """A reclaim cgroup.

    look: compares its values, and repairs drift.
    files: returns the files that hold its values.
    may_be_remade: it may be created again at the same path, which is not reported, so the round-robin checks include
        it.
    """

    look: Callable[[], None]
    files: Callable[[], Iterable[str]]
    may_be_remade: bool = False


class FileWatch:
    """Watches reclaim cgroups by their paths. The fast loop calls `follow` and `look_at_next`; any thread calls
    `wrote`.

    Sets that two threads use are changed by one call each, which the interpreter does not interrupt.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._members: Mapping[str, Member] = {}
        self._armed: Mapping[str, Member] = {}
        self._owners: dict[str, str] = {}
        self._watched: set[str] = set()
        self._quiet: set[str] = set()
        self._ours: set[str] = set()
        self._looked = 0
        self._armed_at = float("-inf")
        self._was_refused = False
        self._watches = Watches()
        self._ending = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start to watch, if the kernel allows it."""
        try:
            self._watches.open()
        except OSError as error:
            self._refused(error)
            return
        self._thread = Thread(target=self._run, args=(self._watches,), name="file_watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the present check."""
        self._ending.set()
        self._ring()

    def ended(self, seconds: float) -> bool:
        """Wait until the thread has ended, if it ever started; return False if it has not in time."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def follow(self, members: Mapping[str, Member]) -> None:
        """Replace the set of watched cgroups."""
        before, self._members = self._members, members
        if members.keys() != before.keys():
            self._ring()

    def wrote(self, path: str) -> None:
        """Note that this process has just written a cgroup's files."""
        if path in self._members:
            self._ours.add(path)
            self._quiet.discard(path)

    def look_at_next(self) -> None:
        """Check one cgroup that another writer may have changed, round-robin."""
        due = [path for path in self._members if path not in self._quiet]
        if not due:
            return
        self._looked += 1
        path = due[self._looked % len(due)]
        member = self._members[path]
        if path in self._watched and not member.may_be_remade:
            self._ours.discard(path)  # or the next foreign write would count as ours and not be checked
            self._quiet.add(path)  # before the check: later writes are reported
        member.look()

    def _run(self, watches: Watches) -> None:
        while not self._ending.is_set():
            try:
                pause_s = self._turn(watches)
            except Exception as error:  # the thread must outlive any error of one turn
                self._report.log.exception("a turn of the inotify thread failed", exc_info=error)
                pause_s = LONGEST_PAUSE_S
            self._ending.wait(pause_s)
        watches.close()

    def _turn(self, watches: Watches) -> float:
        """Wait, then check the cgroups that another writer changed; return the seconds until the next turn."""
        began = time.thread_time()
        if watches.wait(self._armed_at + ARMED_EVERY_S - time.monotonic()):
            self._ending.wait(SETTLES_S)
        touched = watches.read()
        ours, self._ours = self._ours, set()
        members, written = self._members, {self._owners[file] for file in touched.written}
        if touched.deleted or members.keys() != self._armed.keys() or self._is_time_to_arm:
            self._arm(watches, members)
        for path in members.keys() & (members if touched.lost else written - ours):
            if not self._ending.is_set():
                self._look(members[path])
        return min((time.thread_time() - began) / COST_SHARE, LONGEST_PAUSE_S)

    def _look(self, member: Member) -> None:
        try:
            member.look()
        except Exception as error:  # other written cgroups must be checked as well
            self._report.log.exception("a check of the inotify thread failed", exc_info=error)

    @property
    def _is_time_to_arm(self) -> bool:
        return time.monotonic() - self._armed_at >= ARMED_EVERY_S

    def _arm(self, watches: Watches, members: Mapping[str, Member]) -> None:
        """Watch the files of every reclaim cgroup, and no other file."""
        files = {path: tuple(member.files()) for path, member in members.items()}
        self._owners = {file: path for path, named in files.items() for file in named}
        for file in watches.files - self._owners.keys():
            watches.remove(file)
        self._watched = {path for path, named in files.items() if self._is_granted(watches, named)}
        self._quiet.intersection_update(self._watched)
        self._armed, self._armed_at = members, time.monotonic()

    def _is_granted(self, watches: Watches, files: Iterable[str]) -> bool:
        """Watch one cgroup's files; return whether it has files and all are watched."""
        try:
            return sum(map(watches.add, files)) > 0
        except OSError as error:
            self._refused(error)
            return False

    def _refused(self, error: OSError) -> None:
        """Log once that the kernel grants no watches, or too few."""
        if not self._was_refused:
            self._was_refused = True
            words = (
                "the kernel grants no further watches (fs.inotify): reclaim cgroups are checked round-robin"
            )
            self._report.log.warning(words, error=str(error))

    def _ring(self) -> None:
        self._watches.ring()
