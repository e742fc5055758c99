"""The thread that brings cgroups to what the state wants, right after the reply, and keeps them there.

It is told ids, never values: each write takes its value from the newest state, so an order that waited is not
stale and two orders for one cgroup are one write. Between orders it sweeps: whatever somebody reset (systemd, the
kubelet, a late runc) is put back, and what was read is what `/v1/state` shows as actual.

A `Barrier` is what a dedicated container's start waits for: all former users of its CPUs moved, and read back.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from threading import Condition, Event, Lock, Thread
from typing import Final, Protocol

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NOBODY, Moves
from nri_coloc.core.knobs import Capability
from nri_coloc.core.scheduler_hints import SchedulerCapability
from nri_coloc.core.state import NodeState
from nri_coloc.daemon import looks, targets
from nri_coloc.daemon.bandwidths import PodBandwidths
from nri_coloc.daemon.drift import Drift, Drifts, Unannounced
from nri_coloc.daemon.hints import Hints
from nri_coloc.daemon.host_groups import HostGroups
from nri_coloc.daemon.leftovers import Leftovers
from nri_coloc.daemon.looks import Looks
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.protections import Protections
from nri_coloc.daemon.report import Report, Subject
from nri_coloc.daemon.scores import Scores
from nri_coloc.daemon.seams import Change
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.target import Later

SWEEP_S: Final = 2.0
"""Between two looks at every cgroup; 110 pods of one container cost 6 ms of one core each time."""

SWEEP_COST_SHARE: Final = 0.001
"""Of a core, by which the pause between two sweeps stretches on a node of many pods; up to the longest."""

LONGEST_SWEEP_S: Final = 5 * SWEEP_S

STEP_ASIDE_EVERY: Final = 4
STEP_ASIDE_S: Final = 50e-6
"""A pause after so many cgroups, in which a hook that has arrived gets the interpreter's lock. Letting go of it in a
system call is not enough: it is taken back before the hook's thread has woken. Without it a creation that comes while
250 cgroups are moved waits 2.7 ms at the median (hook.create.dedicated.250), with it 0.9. Not while a start waits for
those cgroups: no other hook comes meanwhile, and on a busy machine each pause lasts until this thread has its turn."""

SWEEPS_ASIDE_EVERY: Final = 12
"""Likewise in a sweep: half a millisecond, as slices of a picture. Pauses after every four were a fifth of its cost."""

TIDY_EVERY: Final = 30
"""Sweeps between two cleanings of the journal, at most: a minute to five."""


class Barrier:
    """Counts down the cgroups that must have left some CPUs, as read back; the caller bounds its waiting."""

    def __init__(self, taken: CPUMask, moves: Moves) -> None:
        self.taken = taken
        self._open = {("pod", k) for k in moves.pods} | {("container", k) for k in moves.containers}
        self._done = Event()
        if not self._open:
            self._done.set()

    def settle(self, kind: str, id_: str, cpus: CPUMask | None) -> None:
        """Take note of the CPUs that a cgroup was read back with; None: it does not exist."""
        if cpus is None or not cpus & self.taken:
            self._open.discard((kind, id_))
        if not self._open:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait until all have left; False if the time is over."""
        return self._done.wait(seconds)

    @property
    def open(self) -> int:
        """How many cgroups are still to be moved."""
        return len(self._open)


class MemoryWrites(Protocol):
    """Writes that may reclaim memory, made on a thread of their own."""

    def release(self, path: str) -> None: ...

    def later(self, later: Later, subject: Subject) -> None: ...


LookAgain = Callable[[Capability], Capability]
"""Returns known capabilities with the control files that pods' own cgroups have, once there are pods."""


class Actuator:
    """Orders in, kernel files out.

    `actual` holds the CPUs last read back, by container id; `unread` why the last reading of a container failed.

    Size: one thread, its orders, and one lock, under which each cgroup is written and judged for drift.
    """

    def __init__(
        self,
        node: Node,
        writer: CgroupWriter,
        report: Report,
        *,
        memory: MemoryWrites,
        look_again: LookAgain,
        scheduling: SchedulerCapability | None,
    ) -> None:
        self._memory = memory
        self._look_again = look_again
        self._looks = Looks(writer, report)
        self.actual = self._looks.actual
        self.unread = self._looks.unread
        self.swept_at = 0.0
        self.bandwidths = PodBandwidths(node, writer, report)
        self.hints = Hints(node, writer, report, scheduling)
        self.scores = Scores(node, writer, report)
        self._node = node
        self._writer = writer
        self._report = report
        self._pods: dict[str, None] = {}
        self._containers: dict[str, None] = {}
        self._asked: list[Future[int]] = []
        self._barriers: dict[str, Barrier] = {}
        self._awaited = False
        self._handed_over: Barrier | None = None
        self._incoming = NOBODY
        self._turn = Lock()
        self._drifts = Drifts()
        self._unannounced = Unannounced()
        self._protections = Protections(node, writer, report)
        self._host_groups = HostGroups(node, writer, report)
        self._leftovers = Leftovers(writer)
        self._sweeps = 0
        self._targets = targets.Reckoned()
        self._wanted = Condition(Lock())
        self._stopping = False
        self._thread = Thread(target=self._run, name="actuator", daemon=True)

    def start(self) -> None:
        """Begin to act."""
        self._thread.start()

    def stop(self) -> None:
        """End after the write at hand; what was applied stays."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify()

    def ended(self, seconds: float) -> bool:
        """Wait until the thread has written its last, if it ever began; False if it has not in time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def sweep_soon(self) -> "Future[int]":
        """Order a sweep that leaves nothing be, however often it was repaired; how many it looked at is the outcome."""
        asked: Future[int] = Future()
        with self._wanted:
            self._asked.append(asked)
            self._wanted.notify()
        return asked

    def submit(
        self, moves: Moves, owner: str = "", taken: CPUMask = 0, waits_for: Moves | None = None
    ) -> None:
        """Order cgroups to be brought up to date; `owner` gets a barrier for the CPUs that it took."""
        with self._wanted:
            if owner and waits_for:
                self._barriers[owner] = Barrier(taken, waits_for)
            self._pods.update(dict.fromkeys(moves.pods))
            self._containers.update(dict.fromkeys(moves.containers))
            self._wanted.notify()

    def changed(self, change: Change) -> None:
        """Order the cgroups of a change; forget the containers that ended. For every thread."""
        if change.moves and not self._node.tuning.observe:
            self.order(change.moves, change.after, change.owner, change.waits_for)
        for container_id in change.ended:
            self.forget(container_id)

    def order(self, moves: Moves, state: NodeState, owner: str, waits_for: Moves) -> None:
        """Order cgroups to be brought up to date; an owner of CPUs gets a barrier until others have left them."""
        taken = state.owners.get(owner, 0)
        self.submit(moves, owner if taken else "", taken, waits_for)

    def await_departure(self, owner: str, seconds: float) -> Barrier | None:
        """Wait until the former users of a container's CPUs are gone; the barrier if some are still there."""
        barrier = self._barriers.get(owner)
        if barrier is None:
            return None
        self._awaited = True
        gone = barrier.wait(seconds)
        self._awaited = False
        self._barriers.pop(owner, None)
        return None if gone else barrier

    def hand_over(self, taken: CPUMask, leaving: Moves, owners: Moves, seconds: float) -> int:
        """Move cgroups off CPUs, and when that is read back, or the time is over, pin the new owners to them.

        Return how many cgroups had not left by then. No sweep pins an owner before. For one thread at a time.
        """
        barrier = Barrier(taken, leaving)
        self._handed_over, self._incoming = barrier, owners
        try:
            self.submit(leaving)
            barrier.wait(seconds)
        finally:
            self._handed_over, self._incoming = None, NOBODY
        self.submit(owners)
        return barrier.open

    def former_box(self) -> int:
        """Return how many CPUs the box's members have of a former life, the fewest; 0 where it had none of them."""
        state = self._node.state
        members = {*self._host_groups.look(), *(targets.pod_path(state.pods[k].pod) for k in state.box)}
        return self._looks.fewest(members & self._writer.placed(), state)

    def know_earlier(self) -> None:
        """Know that containers of the runtime's first list carry the record of an earlier process."""
        self._writer.know_earlier()

    def take_over(self) -> None:
        """Know that the runtime told everything: what a former life protected may be given back."""
        self._protections.take_over()
        self._host_groups.take_over()

    def answered(self, container_id: str, state: NodeState) -> None:
        """Know which CPUs the runtime was told for a container that it is making."""
        expected = targets.cpuset_of(state, container_id)
        answered = state.containers[container_id]
        if self._node.can.oom_by_answer(answered.knobs.oom_score_adj, answered.original.oom_score_adj):
            self.scores.answered(answered)
        if expected is not None and not self._node.tuning.dra_driver:  # that answer names no CPUs
            with self._turn:
                self._drifts.expect(container_id, *expected)

    def pushed(self, container_id: str) -> None:
        """Note that the runtime is about to write values of a container, perhaps later than their next change."""
        with self._turn:
            self._drifts.pushed(container_id)

    def forget(self, container_id: str) -> None:
        """Drop what was known of a container that ended."""
        self._looks.forget(container_id)
        self._barriers.pop(container_id, None)
        self._drifts.forget(container_id)
        self._unannounced.forget(container_id)
        self.scores.forget(container_id)

    def place(self, container_id: str) -> Drift | None:
        """Bring one container, or the pod of a VM, to its values now, on the caller's thread; what somebody else had
        changed of a container is returned."""
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and assignment.wish.handler == "pod":
            self._apply_pod(assignment.container.pod_id)
        drift = self._apply_container(container_id)
        if assignment is not None and not self._node.tuning.observe:
            self.scores.keep(assignment)  # also for a cgroup without a report
        return drift

    def bring(self, container_id: str) -> None:
        """Bring one container to its values now, on the caller's thread, and tell what somebody else had changed."""
        drift = self._apply_container(container_id)
        assignment = self._node.state.containers.get(container_id)
        if drift is not None and assignment is not None:
            self._report.drifted(assignment, self._node.state, drift)

    def finish(self, container_id: str) -> None:
        """Set what lies beside the spec of a container that starts: bursts, hints.

        Where files carry every other value too, bursts wait until it runs: a start may not wait for so many writes.
        """
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and not assignment.by_file:
            self.bandwidths.place(container_id)
        self.hints.place(container_id)

    def place_pod(self, pod_id: str) -> None:
        """Bring one pod's cgroup to its values now, on the caller's thread; the first shows which files there are."""
        known = self._node.can
        self._node.learn(self._look_again(known), instead_of=known)
        self._apply_pod(pod_id)

    def place_pods(self, pod_ids: Iterable[str]) -> None:
        """Bring one pod after the other to its values now, on the caller's thread, whatever one of them meets."""
        for pod_id in pod_ids:
            self._guarded(self.place_pod, pod_id)

    def resized(self, pod_id: str) -> None:
        """Know that the kubelet is resizing a pod: its values give way to the kubelet's, and to those it goes back."""
        place = self._node.state.pods.get(pod_id)
        path = targets.pod_path(place.pod) if place is not None else ""
        if path:
            self._writer.resized(path)
        self.bandwidths.resized(pod_id)

    def members_outside(self) -> tuple[str, ...]:
        """Return the box's members outside Kubernetes, the same tuple until that changes."""
        return self._host_groups.members

    def place_host_groups(self) -> None:
        """Bring the box's members outside Kubernetes to its values; who is no member any more gets its own back."""
        self._host_groups.place(self._node.can)

    def guard_host_group(self, path: str) -> None:
        """As `guard_pod`, for one of the box's members outside Kubernetes."""
        self._host_groups.guard(path, self._node.can)

    def guard_pod(self, pod_id: str) -> None:
        """Compare one pod's cgroup with its values; what somebody reset is put back and told, within the limit."""
        self._keep_pod(pod_id)

    def files_of_pod(self, pod_id: str) -> tuple[str, ...]:
        """Return the files of a pod's own cgroup that hold its values."""
        target = targets.of_pod(self._node.state, pod_id, self._node.can)
        return self._writer.files_of(target) if target is not None else ()

    def files_of_host_group(self, path: str) -> tuple[str, ...]:
        """As `files_of_pod`, for one of them."""
        return self._writer.files_of(targets.of_host_group(self._node.state, path, self._node.can))

    def _run(self) -> None:
        sweep_at = time.monotonic() + SWEEP_S
        while True:
            with self._wanted:
                if not (self._pods or self._containers or self._asked or self._stopping):
                    self._wanted.wait(max(0.0, sweep_at - time.monotonic()))
                if self._stopping:
                    break
                pods, containers = self._pods, self._containers
                asked, self._pods, self._containers, self._asked = self._asked, {}, {}, []
            self._carry_out(pods, containers)
            if asked:
                self._sweep_for(asked)
            if time.monotonic() >= sweep_at:
                began = time.thread_time()
                self._sweep()
                cost_s = time.thread_time() - began
                sweep_at = time.monotonic() + min(max(SWEEP_S, cost_s / SWEEP_COST_SHARE), LONGEST_SWEEP_S)
        self._writer.look_again()

    def _carry_out(self, pods: dict[str, None], containers: dict[str, None]) -> None:
        self._each(self._apply_pod, pods, STEP_ASIDE_EVERY)
        self._each(self.bring, containers, STEP_ASIDE_EVERY)
        self._each(self.bandwidths.follow, containers, STEP_ASIDE_EVERY)
        if pods:
            self._protections.keep(self._node.can)

    def _sweep_for(self, asked: "list[Future[int]]") -> None:
        """Sweep because somebody wants it now; what was let be has another chance."""
        for drifts in (
            self._drifts,
            self.bandwidths.drifts,
            self._host_groups.drifts,
            self._protections.drifts,
        ):
            drifts.forgive()
        self.hints.refusals.forgive()
        state = self._node.state
        self._sweep()
        for one in asked:
            with suppress(InvalidStateError):  # the waiting caller was refused
                one.set_result(len(state.pods) + len(state.containers))

    def _sweep(self) -> None:
        self.swept_at = time.monotonic()
        self._guarded(self.place_host_groups)  # an observer also knows the containers
        state = self._node.state
        if self._node.tuning.observe:
            self._each(self._read_cpus, state.containers, SWEEPS_ASIDE_EVERY)
            self._forget_gone()
            return
        self._each(self._keep_pod, state.pods, SWEEPS_ASIDE_EVERY)
        self._each(self._keep_container, state.containers, SWEEPS_ASIDE_EVERY)
        self._guarded(self._protections.keep, self._node.can)
        self._guarded(self.bandwidths.sweep)
        self._guarded(self.hints.sweep)
        self._forget_gone()
        self._sweeps += 1
        if self._sweeps % TIDY_EVERY == 0 or self._writer.is_cluttered:
            self._writer.tidy()

    def _forget_gone(self) -> None:
        known = {*self.actual, *self.unread, *self._barriers, *self._drifts.ids, *self.scores.ids}
        now = self._node.state
        for gone in known - now.containers.keys() - now.pods.keys():
            self.forget(gone)
        self._leftovers.forget_gone(now)

    def _read_cpus(self, container_id: str) -> None:
        """Look, as an observer, at what a container has."""
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is not None:
            self._looks.at(assignment, state)

    def _each(self, apply: Callable[[str], object], ids: Iterable[str], aside_every: int) -> None:
        """Deal with one cgroup after the other, and step aside after so many."""
        for number, id_ in enumerate(ids, 1):
            self._guarded(apply, id_)
            if not (number % aside_every or self._awaited):
                time.sleep(STEP_ASIDE_S)

    def _guarded(self, apply: Callable[..., object], *what: object) -> None:
        """Deal with one cgroup; a failure that nobody foresaw must not keep the others from their values."""
        try:
            apply(*what)
        except Exception as error:
            self._report.log.exception("writing a cgroup failed", what=what, exc_info=error)

    def _keep_container(self, container_id: str) -> None:
        """Put right what somebody reset, within the limit."""
        if container_id not in self._incoming.containers and self._is_due("container", container_id):
            self.bring(container_id)

    def _is_due(self, kind: str, id_: str) -> bool:
        """Whether a look deals with a cgroup; nobody waits any longer for one that its rival may have for now."""
        if not self._drifts.lets_be(id_):
            return True
        if not self._drifts.refusals.pauses(id_):  # one that was refused may be on the awaited CPUs yet
            self._settle(kind, id_, None)
        return False

    def _apply_container(self, container_id: str) -> Drift | None:
        with self._turn:
            state = self._node.state
            assignment = state.containers.get(container_id)
            target = self._targets.of_container(state, container_id, self._node.can)
            if assignment is None or target is None or self._node.tuning.observe:
                self._settle("container", container_id, None)
                return None
            applied = self._writer.apply(target)
            drift = self._drifts.judge(container_id, target, applied)
        self.scores.keep(assignment)
        if target.cpus:
            cpus, refusals = applied.cpus, (str(each) for each in applied.failures)
            self._looks.note(container_id, cpus, next(refusals, looks.NO_CGROUP))
        else:
            cpus = self._looks.at(assignment, state)
        for failure in applied.failures:
            self._report.refused_by_kernel(failure, assignment, state)
        for later in applied.later:
            self._memory.later(later, assignment)
        self._settle("container", container_id, cpus)
        # one without a process is still being made: its cgroup is there before its values are
        return drift if assignment.container.pid else None

    def _keep_pod(self, pod_id: str) -> None:
        if pod_id not in self._incoming.pods and self._is_due("pod", pod_id):
            self._apply_pod(pod_id)

    def _apply_pod(self, pod_id: str) -> None:
        with self._turn:
            state = self._node.state
            target = self._targets.of_pod(state, pod_id, self._node.can)
            if target is None or self._node.tuning.observe:
                self._settle("pod", pod_id, None)
                return
            applied = self._writer.apply(target)
            failures = applied.failures + self._leftovers.clear(state, pod_id, target)
            applied = replace(applied, failures=failures)
            drift = self._drifts.judge(pod_id, target, applied)
            is_resized = self.bandwidths.is_resized(pod_id)
            due = self._unannounced.judge(pod_id, drift, is_resized=is_resized, now=time.monotonic())
        if not state.boxed(pod_id):
            self._memory.release(target.path)
        for failure in failures:
            self._report.refused_by_kernel(failure, pod_id, state)
        for later in applied.later:
            self._memory.later(later, pod_id)
        self._settle("pod", pod_id, applied.cpus)
        if (applied.cpus is not None and applied.before != applied.cpus) or targets.holds_a_vm(state, pod_id):
            self._looks.at_all(state.of_pod(pod_id), state)  # they inherited it
        for each in due:
            self._report.drifted(pod_id, state, each)

    def _settle(self, kind: str, id_: str, cpus: CPUMask | None) -> None:
        for barrier in (*self._barriers.values(), self._handed_over):
            if barrier is not None:
                barrier.settle(kind, id_, cpus)
