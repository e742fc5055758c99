"""The thread that writes the memory limits of reclaim cgroups, and restores the original limits of former ones.

A write to memory.high reclaims before it returns, for as long as that takes. So no hook, no tick and not the actuator
ever makes a write that has something to reclaim. This thread makes such writes for them, one after the other, before
the limits of the reclaim cgroups.

A bound far below a member's use is written in steps, one a turn, as long as they reclaim memory. The next bounds find
the memory that they could not reclaim. The newest bounds win: bounds submitted during a slow write are written next,
from the following member on. So a member whose writes are always slow delays no other for long. No other thread
restores the limits of reclaim cgroups, so that no two threads can disagree about one file.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Condition, Lock, Thread
from typing import Final, NamedTuple, TypeVar

from nri_coloc.core.lending import Part
from nri_coloc.core.report import Report, Subject
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import knob_files
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import Later, Target
from nri_coloc.memory.division import Found
from nri_coloc.placing import reclaim_cgroups
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.drift import Drifts, Refusals

LEAST: Final = 16 << 20
"""Bytes that every member may hold, however little is lent. With less not even a runtime's own processes live, and once
the daemon is gone no process raises the limit."""

WORTH_A_STEP: Final = 16 << 20
"""Bytes: if one step reclaimed less, the next step waits for other bounds."""

Result = TypeVar("Result")


class Bounds(NamedTuple):
    """A member's part.

    pod_id: "" for a host group.
    """

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
        """End after the present write; limits stay."""
        with self._submitted:
            self._stopping = True
            self._submitted.notify()

    def ended(self, seconds: float) -> bool:
        """Return whether the thread has ended within so many seconds, or never began."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def found(self, paths: Iterable[str]) -> dict[str, Found]:
        """Return the present bounds, by cgroup path, of cgroups that this process or the previous one bounded."""
        known = self._writer.bounded()
        return {path: self._found(path) for path in paths if path in known}

    def _found(self, path: str) -> Found:
        names = ("memory.high", knob_files.MEMORY_LIMIT[self._writer.version])
        high, limit = (
            knob_files.shown(name, self._writer.text(path, "memory", name) or "") for name in names
        )
        return Found(high.memory_high, limit.memory_limit)

    def submit(self, bounds: Mapping[str, Bounds]) -> None:
        """Take the bounds that hold from now on, by cgroup path: all of them, also unchanged ones."""
        if self._thread.ident is None and not self._is_needed(bounds):
            return
        with self._submitted:
            self._wanted = bounds
            self._wake()

    def _is_needed(self, bounds: Mapping[str, Bounds]) -> bool:
        """Return whether any cgroup is to be bounded or restored.

        While the thread has not started, bounds of the previous process are found here.
        """
        if not bounds:
            self._take_over()
        return bool(bounds or self._bounded)

    def release(self, path: str) -> None:
        """Restore a cgroup's original limits soon, because it is no reclaim cgroup any more."""
        if path in self._bounded:
            with self._submitted:
                self._released[path] = None
                self._submitted.notify()

    def later(self, later: Later, subject: Subject) -> None:
        """Queue a delayed write, of each file the newest; `subject`: named in the record of a refusal."""
        with self._submitted:
            self._later[later.file] = later, subject
            self._wake()

    def _wake(self) -> None:
        """Wake the thread, and start it if it does not run yet; to be called with its lock held."""
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
        """Return the result of `act`, or log its failure, so that other cgroups still get their values."""
        try:
            return act(*what)
        except Exception as error:
            self._report.log.exception("writing memory limits of reclaimed pods failed", exc_info=error)
            return None

    def write(self, wanted: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
        """Restore limits that are not wanted any more, then write every bound, or a step towards it.

        Return the bounds that need another step.
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
        """Write a member's part, or a step towards it; return whether another step would reclaim more."""
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
        """Return the bounds that may be written now, bytes.

        memory.high is no more than a step below the use, and a step never raises it. memory.max is not below the use,
        because that would kill. On cgroup v1 the limit is lowered in steps instead: there the kernel refuses a limit
        below the use and kills nothing.
        """
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
        """Find the limits that the previous process left, once the runtime has sent its list.

        Limits of cgroups that are no reclaim cgroup any more are then restored.
        """
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
