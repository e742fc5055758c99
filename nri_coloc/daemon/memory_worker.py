"""The thread that writes memory limits of the box's members, and puts back those of whoever left it.

A write to memory.high reclaims before it returns, for as long as that takes: so neither a hook, nor a tick, nor
the actuator ever makes one that has something to reclaim. Those of theirs come here too, one after the other before the
box's. A bound far below what a member holds is written in steps, one a turn, for as long as they get something back:
what they cannot get now the next bounds find. Newest bounds win: what was submitted while a write was slow is what is
written next, from the member after that on, so that one whose writes are always slow keeps no other from its turn.
Nobody else puts back what the box was bounded to, so that no two threads can disagree about one file.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Condition, Lock, Thread
from typing import Final, NamedTuple, TypeVar

from nri_coloc.core.lending import Part
from nri_coloc.daemon import targets
from nri_coloc.daemon.drift import Drifts
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.refusals import Refusals
from nri_coloc.daemon.report import Report, Subject
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import knob_files
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.target import Later, Target
from nri_coloc.memory.division import Found
from nri_coloc.placing import reclaim_cgroups

LEAST: Final = 16 << 20
"""Bytes that every member may hold, however little the box has: below that not even a runtime's own processes live,
and a daemon that is gone raises nothing."""

WORTH_A_STEP: Final = 16 << 20
"""Bytes: where one step got less back, the next one waits for other bounds."""

Result = TypeVar("Result")


class Bounds(NamedTuple):
    """A member's part, and whose it is: a pod's id, "" for a host group."""

    part: Part
    pod_id: str = ""


class MemoryWorker:
    """`found` and `submit` belong to the survey's thread, `later`, `release` and `stop` to any.

    The thread starts with the first bound, of this process or the previous one, or with the first delayed write.

    Size: one queue and its thread; a method for each kind of write and its way back.
    """

    def __init__(self, node: Node, writer: CgroupWriter, report: Report) -> None:
        self._node = node
        self._writer = writer
        self._report = report
        self._wanted: Mapping[str, Bounds] | None = None
        self._bounded: set[str] = set()
        self._last = ""
        self._drifts = Drifts()
        self._released: dict[str, None] = {}
        self._later: dict[str, tuple[Later, Subject]] = {}
        self._refusals = Refusals()
        self._knows_former = False
        self._stopping = False
        self._submitted = Condition(Lock())
        self._thread = Thread(target=self._run, name="memory", daemon=True)

    def stop(self) -> None:
        """End after the write at hand; limits stay."""
        with self._submitted:
            self._stopping = True
            self._submitted.notify()

    def ended(self, seconds: float) -> bool:
        """Wait until the last limit is written, if the thread ever began; False if it has not in time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def found(self, paths: Iterable[str]) -> dict[str, Found]:
        """Return what the files say, by cgroup path, of those whom we bounded, or a former life did."""
        known = self._writer.bounded()
        return {path: self._found(path) for path in paths if path in known}

    def _found(self, path: str) -> Found:
        names = ("memory.high", knob_files.MEMORY_LIMIT[self._writer.version])
        high, limit = (
            knob_files.shown(name, self._writer.text(path, "memory", name) or "") for name in names
        )
        return Found(high.memory_high, limit.memory_limit)

    def submit(self, bounds: Mapping[str, Bounds]) -> None:
        """Say what holds from now on, by cgroup path: all of it, also what holds already."""
        if self._thread.ident is None and not self._is_needed(bounds):
            return
        with self._submitted:
            self._wanted = bounds
            self._wake()

    def _is_needed(self, bounds: Mapping[str, Bounds]) -> bool:
        """Whether there is anybody to bound or to put back; while nobody writes, a former life is learnt of here."""
        if not bounds:
            self._take_over()
        return bool(bounds or self._bounded)

    def release(self, path: str) -> None:
        """Put a cgroup's limits back soon: its pod is no member any more."""
        if path in self._bounded:
            with self._submitted:
                self._released[path] = None
                self._submitted.notify()

    def later(self, later: Later, subject: Subject) -> None:
        """Make somebody's write soon, of one file the newest; `subject`: whom a refusal is told of."""
        with self._submitted:
            self._later[later.file] = later, subject
            self._wake()

    def _wake(self) -> None:
        """Let the thread see what was told to it; to be called with its lock held."""
        if self._thread.ident is None and not self._stopping:
            self._thread.start()
        self._submitted.notify()

    def _run(self) -> None:
        left: Mapping[str, Bounds] = {}
        while True:
            with self._submitted:
                while not (
                    left or self._later or self._released or self._stopping or self._wanted is not None
                ):
                    self._submitted.wait()
                if self._stopping:
                    return
                wanted, self._wanted = self._wanted, None
                released, self._released = self._released, {}
                later, self._later = self._later, {}
            for path in released:
                self._guarded(self._put_back, path)
            for each, subject in later.values():
                self._guarded(self._make, each, subject)
            if wanted is not None:
                left = self._guarded(self.write, wanted) or {}
            else:
                left = self._round(left)

    def _guarded(self, act: Callable[..., Result], *what: object) -> Result | None:
        """Deal with one cgroup, or one round: what nobody foresaw must not keep the others from their values."""
        try:
            return act(*what)
        except Exception as error:
            self._report.log.exception("writing memory limits of reclaimed pods failed", exc_info=error)
            return None

    def write(self, wanted: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
        """Put back what is not wanted any more, then bring every file to its value, or a step nearer to it.

        Returns those of whom there is more to get.
        """
        self._take_over()
        for path in self._bounded - wanted.keys():
            self._guarded(self._put_back, path)
        return self._round(wanted)

    def _round(self, wanted: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
        left: dict[str, Bounds] = {}
        for path in _after(self._last, wanted):
            if self._stopping or self._wanted is not None:
                return {}  # the newer value counts
            self._last = path
            if self._guarded(self._bound, path, wanted[path]):
                left[path] = wanted[path]
        return left

    def _make(self, later: Later, subject: Subject) -> None:
        if self._stopping or self._refusals.pauses(later.file):
            return
        failure = later.write()
        self._refusals.tried(later.file, (failure,) if failure is not None else ())
        if failure is not None:
            self._report.refused_by_kernel(failure, subject, self._node.state)

    def _bound(self, path: str, bounds: Bounds) -> bool:
        """Bring a member to its part, or a step nearer; returns whether that got something back, and there is more."""
        state = self._node.state
        if bounds.pod_id and not state.boxed(bounds.pod_id):
            self._put_back(path)
            return False
        self._bounded.add(path)
        part = Part(max(LEAST, bounds.part.high), max(LEAST, bounds.part.limit))
        held = self._held(path)
        near = self._within_a_step(path, part, held)
        target = Target(path, values=knob_files.memory_bounds(*near, self._writer.version))
        if self._drifts.lets_be(path, target):
            return False
        applied = self._writer.bound(path, target.values)
        for failure in applied.failures:
            self._report.refused_by_kernel(failure, bounds.pod_id, state)
        drift = self._drifts.judge(path, target, applied)
        if drift is not None:
            self._report.drifted(bounds.pod_id, state, drift if bounds.pod_id else drift.at(path))
        return near != part and held - self._held(path) >= WORTH_A_STEP

    def _held(self, path: str) -> int:
        usage = knob_files.MEMORY_USAGE[self._writer.version]
        return knob_files.number(self._writer.text(path, "memory", usage) or "") or 0

    def _within_a_step(self, path: str, part: Part, held: int) -> Part:
        """Return what may be written now: a brake no more than a step below the use, and never a higher one than there
        is; a wall not below the use, for it kills. On v1 the wall is the brake: it is refused, and kills nobody."""
        lowest = held - self._node.tuning.reclaim.memory_step
        if self._writer.version == 1:
            return Part(part.high, max(part.limit, lowest))
        present = self._found(path).high
        lowest = lowest if present is None else min(present, lowest)
        return Part(max(part.high, lowest), max(part.limit, held))

    def _put_back(self, path: str) -> None:
        if self._drifts.let_go(path, lambda: self._unbound(path)):
            self._bounded.discard(path)

    def _unbound(self, path: str) -> tuple[KernelInterfaceError, ...]:
        failures = self._writer.unbound(path)
        for failure in failures:
            self._report.refused_by_kernel(failure, "", self._node.state)
        return failures

    def _take_over(self) -> None:
        """Learn, once everybody is known, what a former life had bounded: who is no member any more gets it back."""
        if self._knows_former or not self._node.told:
            return
        self._knows_former = True
        state = self._node.state
        others = {targets.container_path(one) for one in state.containers.values()}
        others |= {
            targets.pod_path(state.pods[k].pod)
            for k in state.pods
            if reclaim_cgroups.knobs(state, k).memory_high
        }
        self._bounded |= self._writer.bounded() - others


def _after(last: str, paths: Iterable[str]) -> list[str]:
    """Return paths in their order, from the one behind `last` on and around."""
    order = list(paths)
    begin = order.index(last) + 1 if last in order else 0
    return order[begin:] + order[:begin]
