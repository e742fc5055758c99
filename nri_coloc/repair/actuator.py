"""The thread that writes the state's values to cgroups right after each reply, and repairs drift.

Orders carry ids, never values: each write takes its value from the newest state. So an order that waited is not stale.
Between orders the thread sweeps: it repairs values that another writer changed (systemd, the kubelet, a late runc).
`/v1/state` shows the values that it read as actual. The start of a dedicated container waits for its `Departures`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Lock, Thread
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Moves
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.kubepods import kubepods_of
from nri_coloc.core.report import Drift, Report
from nri_coloc.core.seams import Change
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.placing.node import Node
from nri_coloc.repair import read_back, targets
from nri_coloc.repair.drift import Drifts, Unannounced
from nri_coloc.repair.host_groups import HostGroups
from nri_coloc.repair.in_place import InPlace
from nri_coloc.repair.orders import Orders
from nri_coloc.repair.other_writers import Bandwidths, Hints, LookAgain, MemoryWrites, Scores
from nri_coloc.repair.protections import Protections
from nri_coloc.repair.read_back import Barrier, CpusetReadings, Departures
from nri_coloc.repair.targets import Leftovers

SWEEP_S: Final = 2.0
"""Seconds between two sweeps of all cgroups; with 110 pods of one container a sweep costs 6 ms of one core."""

SWEEP_COST_SHARE: Final = 0.001
"""Share of one core, 0 to 1, that sweeps may use. On a node of many pods the pause between two sweeps gets longer for
this, up to `LONGEST_SWEEP_S`."""

LONGEST_SWEEP_S: Final = 5 * SWEEP_S

STEP_ASIDE_EVERY: Final = 4
STEP_ASIDE_S: Final = 50e-6
"""Seconds of pause after `STEP_ASIDE_EVERY` cgroups, in which a waiting hook gets the interpreter's lock.

A system call releases the lock too, but this thread takes it again before the hook's thread has woken. A creation while
250 cgroups move waits 0.9 ms at the median, without the pause 2.7 ms (hook.create.dedicated.250). While a start waits
for those cgroups there is no pause: no other hook comes meanwhile."""

SWEEPS_ASIDE_EVERY: Final = 12
"""Cgroups between two such pauses in a sweep: half a millisecond of work, like one slice of a snapshot."""

TIDY_EVERY: Final = 30
"""Sweeps between two cleanings of the journal, at most: one to five minutes."""


class Actuator:
    """Writes the kernel files of the pods and containers that it is ordered to write.

    actual: the CPUs last read back, by container id.
    unread: why the last reading failed, by container id.
    drifts: the drift of the values that it writes itself, by container or pod id.
    bandwidths, host_groups: write their own cgroups and files; the actuator sweeps them too.

    Size: one thread, its orders, and one lock, under which each cgroup is written and judged for drift.
    """

    def __init__(
        self,
        node: Node,
        writer: CgroupWriter,
        report: Report,
        *,
        memory: MemoryWrites,
        bandwidths: Bandwidths,
        hints: Hints,
        scores: Scores,
        look_again: LookAgain,
    ) -> None:
        self._memory = memory
        self._look_again = look_again
        self._cpusets = CpusetReadings(writer, report)
        self.actual = self._cpusets.actual
        self.unread = self._cpusets.unread
        self.swept_at = 0.0
        self.bandwidths = bandwidths
        self._hints = hints
        self._scores = scores
        self._node = node
        self._writer = writer
        self._report = report
        self._orders = Orders()
        self._departures = Departures()
        self._turn = Lock()
        self.drifts = Drifts()
        self._unannounced = Unannounced(bandwidths.is_resized)
        self._protections = Protections(node, writer, report)
        self.host_groups = HostGroups(node, writer, report)
        self._leftovers = Leftovers(writer)
        self._sweeps = 0
        self._targets = targets.Reckoned()
        self._in_place = InPlace()
        self._thread = Thread(target=self._run, name="actuator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the present write; applied values stay."""
        self._orders.end()

    def ended(self, seconds: float) -> bool:
        """Return whether the thread has ended within so many seconds, or never began."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def sweep_soon(self) -> "Future[int]":
        """Order a sweep that also tries paused repairs; return a future of the number of cgroups that it checked."""
        return self._orders.add_sweep()

    def submit(
        self, moves: Moves, owner: str = "", taken: CPUMask = 0, waits_for: Moves | None = None
    ) -> None:
        """Order writes of cgroups.

        owner: a container that gets a barrier, "" for none.
        taken: the CPUs that it takes.
        waits_for: the cgroups that leave these CPUs.
        """
        if owner and waits_for:
            self._departures.expect(owner, taken, waits_for)  # before the writes that its barrier waits for
        self._orders.add(moves)

    def changed(self, change: Change) -> None:
        """Order the writes of a change, for any thread. The next sweep forgets the containers that ended."""
        if change.moves and not self._node.tuning.observe:
            self.order(change.moves, change.after, change.owner, change.waits_for)

    def order(self, moves: Moves, state: NodeState, owner: str, waits_for: Moves) -> None:
        """Order writes of cgroups; an owner of CPUs gets a barrier for the cgroups that leave them."""
        taken = state.owners.get(owner, 0)
        self.submit(moves, owner if taken else "", taken, waits_for)

    def await_departure(self, owner: str, seconds: float) -> Barrier | None:
        """Return None after the cgroups that had a container's CPUs have left them; the barrier if the time is over."""
        return self._departures.wait(owner, seconds)

    def hand_over(self, taken: CPUMask, leaving: Moves, owners: Moves, seconds: float) -> int:
        """Move cgroups off CPUs, then pin the new owners to them; return the number that did not leave in time.

        The owners are pinned when the departure is read back, or after `seconds`. No sweep pins an owner before. For
        one thread at a time.
        """
        with self._departures.handing_over(taken, leaving, owners) as barrier:
            self.submit(leaving)
            barrier.wait(seconds)
        self.submit(owners)
        return barrier.open

    def former_box(self) -> int:
        """Return the number of CPUs of the smallest reclaim cgroup that the previous process placed, else 0."""
        state = self._node.state
        members = {*self.host_groups.look(), *(targets.pod_path(state.pods[k].pod) for k in state.box)}
        return self._cpusets.fewest(members & self._writer.placed(), state)

    def know_earlier(self) -> None:
        """Note that containers of the runtime's first list carry the record annotation of an earlier process."""
        self._writer.know_earlier()

    def take_over(self) -> None:
        """Note that the runtime has sent its list: values that the previous process left may now be restored."""
        self._protections.take_over()
        self.host_groups.take_over()

    def answered(self, answered: Assignment, state: NodeState) -> None:
        """Note the CPUs and the OOM score that the runtime was sent for a container in creation."""
        expected = targets.cpuset_of(state, answered)
        if self._node.can.oom_by_answer(answered.knobs.oom_score_adj, answered.original.oom_score_adj):
            self._scores.answered(answered)
        if expected is not None and not self._node.tuning.dra_driver:  # that answer names no CPUs
            with self._turn:
                self.drifts.expect(answered.id, *expected)

    def pushing(self, container_id: str) -> None:
        """Note that the runtime is about to write values of a container, perhaps later than their next change."""
        with self._turn:
            self.drifts.pushing(container_id)

    def pushed(self, container_id: str) -> None:
        """Note that the runtime says to have written the values of a container, at an update or its start."""
        with self._turn:
            self.drifts.pushed(container_id)

    def place(self, container_id: str) -> Drift | None:
        """Apply one container's values on the caller's thread; return its drift, None if there is none.

        For a container of a VM the pod's cgroup is written first.
        """
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and assignment.wish.handler == "pod":
            self._apply_pod(assignment.container.pod_id)
        drift = self._apply_container(container_id)
        if assignment is not None and not self._node.tuning.observe:
            self._scores.keep(assignment)  # also for a cgroup without a report
        return drift

    def bring(self, container_id: str) -> None:
        drift = self._apply_container(container_id)
        assignment = self._node.state.containers.get(container_id)
        if drift is not None and assignment is not None:
            self._report.drifted(assignment, self._node.state, drift)

    def finish(self, container_id: str) -> None:
        """Set bursts and scheduling hints of a starting container; bursts later if files carry its other values too."""
        assignment = self._node.state.containers.get(container_id)
        if assignment is not None and not assignment.by_file:
            self.bandwidths.place(container_id)
        self._hints.place(container_id)

    def place_pod(self, pod_id: str) -> None:
        """Apply one pod's values to its cgroup on the caller's thread; first pods of a kubelet show its files."""
        place = self._node.state.pods.get(pod_id)
        if place is not None and kubepods_of(targets.pod_path(place.pod)) not in self._node.can.seen_below:
            self._learn_files()
        self._apply_pod(pod_id)

    def _learn_files(self) -> None:
        """Look up the pods' control files if the pods are of other kubelets than the files known so far."""
        known = self._node.can
        self._node.learn(self._look_again(known), instead_of=known)

    def place_pods(self, pod_ids: Iterable[str]) -> None:
        """Apply values of several known pods on the caller's thread; a failure of one does not stop the next one."""
        for pod_id in pod_ids:
            self._guarded(self._apply_pod, pod_id)

    def resized(self, pod_id: str, told: Knobs = NO_KNOBS) -> None:
        """Note a resize by the kubelet: its new values take precedence, and are the original ones from now on.

        told: the pod's new shares and memory limit, as far as they are known.
        """
        place = self._node.state.pods.get(pod_id)
        path = targets.pod_path(place.pod) if place is not None else ""
        if path:
            self._writer.resized(path, told)
        with self._turn:
            self.drifts.resized(pod_id)
        self.bandwidths.resized(pod_id)

    def is_there(self, path: str) -> bool:
        """Return whether a cgroup exists, by its path below the hierarchies' roots."""
        return self._writer.is_there(path)

    def guard_pod(self, pod_id: str) -> None:
        """Compare one pod's cgroup with its values; repair and record drift, within the limit of repairs."""
        self._keep_pod(pod_id)

    def files_of_pod(self, pod_id: str) -> tuple[str, ...]:
        """Return the files of a pod's own cgroup that hold its values."""
        target = targets.of_pod(self._node.state, pod_id, self._node.can)
        return self._writer.files_of(target) if target is not None else ()

    def _run(self) -> None:
        sweep_at = time.monotonic() + SWEEP_S
        while (taken := self._orders.take(sweep_at - time.monotonic())) is not None:
            self._carry_out(taken.pods, taken.containers)
            if taken.sweeps:
                self._sweep_for(taken.sweeps)
            if time.monotonic() >= sweep_at:
                began = time.thread_time()
                self._sweep()
                cost_s = time.thread_time() - began
                sweep_at = time.monotonic() + min(max(SWEEP_S, cost_s / SWEEP_COST_SHARE), LONGEST_SWEEP_S)
        self._writer.look_again()

    def _carry_out(self, pods: Mapping[str, None], containers: Mapping[str, None]) -> None:
        if pods:
            self._guarded(self._learn_files)
        self._each(self._apply_pod, pods, STEP_ASIDE_EVERY)
        self._each(self.bring, containers, STEP_ASIDE_EVERY)
        self._each(self.bandwidths.follow, containers, STEP_ASIDE_EVERY)
        if pods:
            self._protections.keep(self._node.can)

    def _sweep_for(self, asked: "Iterable[Future[int]]") -> None:
        """Carry out ordered sweeps as one; paused repairs and refused writes are tried again."""
        for each in (self, self.bandwidths, self.host_groups, self._protections):
            each.drifts.forgive()
        self._in_place.clear()
        self._hints.refusals.forgive()
        state = self._node.state
        self._sweep()
        for one in asked:
            with suppress(InvalidStateError):  # the waiting caller was refused
                one.set_result(len(state.pods) + len(state.containers))

    def _sweep(self) -> None:
        self.swept_at = time.monotonic()
        self._guarded(self._learn_files)
        self._guarded(self.host_groups.place)  # an observer also knows the containers
        state = self._node.state
        if self._node.tuning.observe:
            self._each(self._read_cpus, state.containers, SWEEPS_ASIDE_EVERY)
            self._forget_gone()
            return
        self._each(self._keep_pod, state.pods, SWEEPS_ASIDE_EVERY)
        self._each(self._keep_container, state.containers, SWEEPS_ASIDE_EVERY)
        self._guarded(self._protections.keep, self._node.can)
        self._guarded(self.bandwidths.sweep)
        self._guarded(self._hints.sweep)
        self._forget_gone()
        self._sweeps += 1
        if self._sweeps % TIDY_EVERY == 0 or self._writer.is_cluttered:
            self._writer.tidy()
            self._in_place.clear()

    def _forget_gone(self) -> None:
        known = {*self.actual, *self.unread, *self._departures.owners, *self.drifts.ids, *self._scores.ids}
        now = self._node.state
        for gone in known - now.containers.keys() - now.pods.keys():
            for memory in (self._cpusets, self._departures, self.drifts, self._unannounced, self._scores):
                memory.forget(gone)
            self._in_place.forget(gone)
        self._leftovers.forget_gone(now)

    def _read_cpus(self, container_id: str) -> None:
        """Read a container's CPUs and change nothing, in mode observe."""
        state = self._node.state
        if (assignment := state.containers.get(container_id)) is not None:
            self._cpusets.at(assignment, state)

    def _each(self, apply: Callable[[str], object], ids: Iterable[str], aside_every: int) -> None:
        """Call `apply` for each id, with a pause after every `aside_every` ids."""
        for number, id_ in enumerate(ids, 1):
            self._guarded(apply, id_)
            if not (number % aside_every or self._departures.is_awaited):
                time.sleep(STEP_ASIDE_S)

    def _guarded(self, apply: Callable[..., object], *what: object) -> None:
        """Call `apply` and log any failure, so that other cgroups still get their values."""
        try:
            apply(*what)
        except Exception as error:
            self._report.log.exception("writing a cgroup failed", what=what, exc_info=error)

    def _keep_container(self, container_id: str) -> None:
        """Repair a container's drift, within the limit of repairs."""
        if container_id in self._departures.incoming.containers:
            return
        with self._turn:
            state = self._node.state
            target = self._targets.of_container(state, container_id, self._node.can)
        checked = self._in_place.still(container_id, target, state.containers.get(container_id))
        if checked is not None:
            self._cpusets.note(container_id, checked.cpus)
            self._departures.settle("container", container_id, checked.cpus)
        elif self._is_due("container", container_id):
            self.bring(container_id)

    def _is_due(self, kind: str, id_: str) -> bool:
        """Return whether a sweep checks a cgroup; not while its repairs or refused writes are paused.

        Barriers stop waiting for a cgroup whose repairs are paused: another writer has it for now.
        """
        if not self.drifts.lets_be(id_):
            return True
        if not self.drifts.refusals.pauses(id_):  # after a refusal it may still be on the CPUs
            self._departures.settle(kind, id_, None)
        return False

    def _apply_container(self, container_id: str) -> Drift | None:
        with self._turn:
            state = self._node.state
            assignment = state.containers.get(container_id)
            target = self._targets.of_container(state, container_id, self._node.can)
            if assignment is None or target is None or self._node.tuning.observe:
                self._departures.settle("container", container_id, None)
                return None
            applied = self._writer.apply(target)
            drift = self.drifts.judge(container_id, target, applied)
        self._scores.keep(assignment)
        cpus, shown = applied.cpus, applied.shown
        if target.cpus:
            refusals = (str(each) for each in applied.failures)
            self._cpusets.note(container_id, cpus, next(refusals, read_back.NO_CGROUP))
        else:
            found = self._cpusets.at(assignment, state)
            cpus = None if found is None else found.cpus
            shown = None if found is None or shown is None else shown + found.shown
        self._in_place.note(container_id, target, assignment, cpus, shown)
        for failure in applied.failures:
            self._report.refused_by_kernel(failure, assignment, state)
        for later in applied.later:
            self._memory.later(later, assignment)
        self._departures.settle("container", container_id, cpus)
        # a container without a process is in creation: its cgroup exists before its values do
        return drift if assignment.container.pid else None

    def _keep_pod(self, pod_id: str) -> None:
        if pod_id in self._departures.incoming.pods:
            return
        with self._turn:
            state = self._node.state
            target = self._targets.of_pod(state, pod_id, self._node.can)
        if (checked := self._in_place.still(pod_id, target, state.pods.get(pod_id))) is not None:
            self._departures.settle("pod", pod_id, checked.cpus)
        elif self._is_due("pod", pod_id):
            self._apply_pod(pod_id)

    def _apply_pod(self, pod_id: str) -> None:
        with self._turn:
            state = self._node.state
            target = self._targets.of_pod(state, pod_id, self._node.can)
            if target is None or self._node.tuning.observe:
                self._departures.settle("pod", pod_id, None)
                return
            applied = self._writer.apply(target)
            failures = applied.failures + self._leftovers.clear(state, pod_id, target)
            applied = replace(applied, failures=failures)
            drift = self.drifts.judge(pod_id, target, applied)
            due = self._unannounced.judge(pod_id, drift, time.monotonic())
            is_known = not (failures or self._unannounced.holds(pod_id) or targets.holds_a_vm(state, pod_id))
            shown = applied.shown if is_known else None
            self._in_place.note(pod_id, target, state.pods.get(pod_id), applied.cpus, shown)
        if not state.boxed(pod_id):
            self._memory.release(target.path)
        for failure in failures:
            self._report.refused_by_kernel(failure, pod_id, state)
        for later in applied.later:
            self._memory.later(later, pod_id)
        self._departures.settle("pod", pod_id, applied.cpus)
        if (applied.cpus is not None and applied.before != applied.cpus) or targets.holds_a_vm(state, pod_id):
            self._cpusets.at_all(state.of_pod(pod_id), state)  # they inherited it
        for each in due:
            self._report.drifted(pod_id, state, each)
