"""Move cgroups after a change of pool sizes, and watch the reclaim cgroups for other writers.

First the cgroups that leave CPUs are moved, then the cgroups that get them. The loop's thread writes the reclaim
cgroups itself, because in the actuator a suppression would wait behind a sweep. Other cgroups are written as usual:
files by the actuator, then the runtime's spec by the pusher. If the reclaim pool grows onto CPUs that containers must
leave, it waits for them briefly.

Drift of the reclaim cgroups is repaired at once (`FileWatch`). An inotify event does not name the writer, so each
writer of ours reports its write afterwards, and a cgroup with such a report is not checked now. A foreign write after
ours is found by the round-robin check of the fast loop, which also checks cgroups for which the kernel grants no
watches.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Event, Thread
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NO_MOVES, Moves, Outcome
from nri_coloc.core.report import Report
from nri_coloc.core.seams import After, Change, tell
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.host.inotify import Watches
from nri_coloc.placing import reclaim_cgroups
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.actuator import Actuator

GUARD_EVERY_S: Final = 0.5
"""Seconds between two checks of reclaim cgroups without an inotify watch, round-robin: drift is repaired before the
next sweep. A check costs about as much as a tick."""

LEAVE_WITHIN_S: Final = 0.02
"""How long a growing reclaim pool waits for containers that leave its new CPUs, while the loop stands still. A later
container shares a CPU with tasks of minimum weight meanwhile."""

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


class _Members(NamedTuple):
    """Facts about the reclaim cgroups.

    of, beside, share: pods, containers and `share` CPUs of the state that the facts were computed from.
    any: whether there is a reclaimed pod or container.
    yield_all: whether every reclaimed pod has the smallest weight of all pods that share CPUs with it.
    equal: a pod that shares CPUs with reclaimed pods and weighs no more than one of them, "" for none.
    """

    of: object = None
    beside: object = None
    share: CPUMask = 0
    any: bool = False
    yield_all: bool = False
    equal: str = ""


class Relocation:
    """Moves cgroups; belongs to the loop's thread.

    eevdf: whether this kernel's fair class keeps heavy tasks from waiting long behind the lightest ones.
    """

    def __init__(
        self, node: Node, actuator: Actuator, file_watch: FileWatch, *, after: After, eevdf: bool
    ) -> None:
        self._eevdf = eevdf
        self._node = node
        self._actuator = actuator
        self._after = after
        self._members = _Members()
        self._file_watch = file_watch
        self._guarded_at = 0.0

    @property
    def host_groups(self) -> tuple[str, ...]:
        """The reclaim cgroups outside Kubernetes; the same tuple until it changes."""
        return self._actuator.host_groups.members

    def look_at(self, state: NodeState) -> None:
        """Have the reclaim cgroups watched; to be called after one came or went."""
        self._file_watch.follow({} if self._node.tuning.observe else self._members_of(state))

    def _members_of(self, state: NodeState) -> dict[str, Member]:
        """Return the reclaim cgroups by path: pods, then host groups."""
        actuator, members = self._actuator, {}
        for pod_id in state.box:
            files, look = partial(actuator.files_of_pod, pod_id), partial(actuator.guard_pod, pod_id)
            members[targets.pod_path(state.pods[pod_id].pod)] = Member(look, files)
        for path in self.host_groups:
            groups = actuator.host_groups
            files, look = partial(groups.files_of, path), partial(groups.guard, path)
            members[path] = Member(look, files, may_be_remade=True)
        return members

    def has_members(self, state: NodeState) -> bool:
        """Return whether anything runs on lent CPUs."""
        return bool(self.host_groups) or self._looked_up(state).any

    def yields(self, state: NodeState) -> bool:
        """Return whether all reclaimed tasks yield to online tasks at once.

        A host group competes with all pods, so with host groups the answer is False.
        """
        return self._eevdf and not self.host_groups and self._looked_up(state).yield_all

    def equal(self, state: NodeState) -> str:
        """Return the id of a pod that reclaimed tasks would yield to if it weighed more, "" for none."""
        return self._looked_up(state).equal if self._eevdf and not self.host_groups else ""

    def _looked_up(self, state: NodeState) -> "_Members":
        """Return facts about the reclaim cgroups.

        They are computed again after pods, containers or the CPUs of `share` changed.
        """
        known, share = self._members, state.pools.share
        if known.of is state.pods and known.beside is state.containers and known.share == share:
            return known
        self._members = _Members(
            of=state.pods,
            beside=state.containers,
            share=share,
            any=reclaim_cgroups.has_members(state),
            yield_all=reclaim_cgroups.weighs_least(state),
            equal=reclaim_cgroups.equal(state),
        )
        return self._members

    def carry_out(self, outcome: Outcome, before: NodeState) -> None:
        """Move the cgroups of an outcome that is in force already."""
        others = Moves(containers=outcome.moves.containers)  # the policy lists leaving containers first
        leaving = Moves(containers=_leaving_to_the_box(outcome, before))
        if leaving:
            gained = outcome.state.pools.reclaim & ~before.pools.reclaim
            self._actuator.submit(others, RECLAIM, gained, leaving)
            self._actuator.await_departure(RECLAIM, LEAVE_WITHIN_S)
        self._actuator.place_pods(outcome.moves.pods)
        if self.host_groups:
            self._actuator.host_groups.place()
        if not others:
            return
        moves = NO_MOVES if leaving else others
        tell(self._after, Change(before, outcome.state, moves=moves, specs=others.containers))

    def guard(self, state: NodeState, now: float) -> None:
        """Check one reclaim cgroup at times, while the reclaim pool is smaller than `share`."""
        if now - self._guarded_at < GUARD_EVERY_S or state.pools.reclaim == state.pools.share:
            return
        self._guarded_at = now
        self._file_watch.look_at_next()


def _leaving_to_the_box(outcome: Outcome, before: NodeState) -> tuple[str, ...]:
    """Return the containers that must leave CPUs that the reclaim pool gains."""
    after = outcome.state
    gained = after.pools.reclaim & ~before.pools.reclaim
    if not gained:
        return ()
    moving = ((k, before.containers.get(k), after.containers[k]) for k in outcome.moves.containers)
    return tuple(
        k
        for k, was, now in moving
        if was is not None and before.cpus_of(was) & gained and not after.cpus_of(now) & gained
    )
