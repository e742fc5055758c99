"""Who watches the box's members: what somebody else writes into their files is looked at at once, not in turn.

A thread sleeps in the kernel until one of the files is written. Our own writes wake it too, and an event does not say
whose it is. So whoever writes says so afterwards, and a member of whom that was said is not looked at now: somebody
else may have written behind us, and that is found when it has its turn in the fast loop, where also those are looked at
for whom the kernel grants no watches. A look that finds all as it should be writes nothing, and there it ends.

A turn's cost is followed by a pause, which bounds what a flood of writes takes of a core; how often a member is
repaired is bounded by `Drifts`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event, Thread
from typing import Final, NamedTuple

from nri_coloc.daemon.report import Report
from nri_coloc.host.inotify import Watches

SETTLES_S: Final = 0.005
"""After the first event: a resize writes all members, and then each of them says so."""

COST_SHARE: Final = 0.0005
"""Of a core, by which the pause after a turn stretches, up to the longest."""

LONGEST_PAUSE_S: Final = 4.0

ARMED_EVERY_S: Final = 60.0
"""A cgroup that was created again at the same path is not watched, and the kernel does not report it."""


class Member(NamedTuple):
    """How it is compared with its values, and the files that hold them.

    `may_be_remade`: at the same path, which nothing tells, so it keeps its turn in the fast loop.
    """

    look: Callable[[], None]
    files: Callable[[], Iterable[str]]
    may_be_remade: bool = False


class Sentry:
    """Members are known by their cgroups' paths. `follow` and `look_at_next` are the loop's, `wrote` is anybody's.

    Sets that two threads know are changed by one call each, which the interpreter does not interrupt.
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
        """Begin to watch, where the kernel lets us."""
        try:
            self._watches.open()
        except OSError as error:
            self._refused(error)
            return
        self._thread = Thread(target=self._run, args=(self._watches,), name="sentry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the look at hand."""
        self._ending.set()
        self._ring()

    def ended(self, seconds: float) -> bool:
        """Wait until the thread has written its last, if it ever began; False if it has not in time."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def follow(self, members: Mapping[str, Member]) -> None:
        """Know who is to be watched from now on, and nobody else."""
        before, self._members = self._members, members
        if members.keys() != before.keys():
            self._ring()

    def wrote(self, path: str) -> None:
        """Know that we ourselves have just written a cgroup's files."""
        if path in self._members:
            self._ours.add(path)
            self._quiet.discard(path)

    def look_at_next(self) -> None:
        """Look at one of those of whom it is not known that nobody else wrote, in turn."""
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
            except Exception as error:  # the thread must outlive whatever one turn meets
                self._report.log.exception("a turn of the inotify thread failed", exc_info=error)
                pause_s = LONGEST_PAUSE_S
            self._ending.wait(pause_s)
        watches.close()

    def _turn(self, watches: Watches) -> float:
        """Wait, and look at those whom somebody else wrote to; returns the seconds until the next turn."""
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
        """Have the kernel tell of every member's files, and of no others."""
        files = {path: tuple(member.files()) for path, member in members.items()}
        self._owners = {file: path for path, named in files.items() for file in named}
        for file in watches.files - self._owners.keys():
            watches.remove(file)
        self._watched = {path for path, named in files.items() if self._is_granted(watches, named)}
        self._quiet.intersection_update(self._watched)
        self._armed, self._armed_at = members, time.monotonic()

    def _is_granted(self, watches: Watches, files: Iterable[str]) -> bool:
        """Watch one member's files; whether it has any, and all that it has are watched."""
        try:
            return sum(map(watches.add, files)) > 0
        except OSError as error:
            self._refused(error)
            return False

    def _refused(self, error: OSError) -> None:
        """Say once that the kernel grants no watches, or not enough of them."""
        if not self._was_refused:
            self._was_refused = True
            words = (
                "the kernel grants no further watches (fs.inotify): reclaim cgroups are checked round-robin"
            )
            self._report.log.warning(words, error=str(error))

    def _ring(self) -> None:
        self._watches.ring()
