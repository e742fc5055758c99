"""Push values to the runtime's stored spec, one container at a time.

The files have moved the cgroup already. The spec must hold the same values, so that no later runc reverts them. A push
never has a short deadline: if it passes while containerd holds its lock, containerd loses every plugin. One call is in
flight, the newest value is sent, and after a slow push the next one waits. After very many pushes all wait longer.

Over the relay containerd calls our own UpdateContainer hook, in the safe order of its locks. The hook recognises the
push and adds only newer values: the push may have waited while the runtime's hook concerned another container. A native
call applies the values that it was sent, so the container's files are checked at once when it returns. The runtime
reports a container's end after it has refused a push to it. So the first refusal is recorded at the container's next
push, if the container still exists.
"""

import time
from collections.abc import Mapping
from itertools import chain
from threading import Condition, Event, Lock, Thread
from typing import Final, Protocol

from nri_coloc._pb import nri_pb2
from nri_coloc.core.knobs import NO_KNOBS, NOTHING_KNOWN, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.seams import Change
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.texts import counted
from nri_coloc.core.token_bucket import Bucket, Rate
from nri_coloc.errors import ColocError, TransportLost
from nri_coloc.nri import codec
from nri_coloc.placing import update
from nri_coloc.placing.node import Node
from nri_coloc.runtime import stored_specs

PAUSE_S: Final = 0.05
"""Least seconds between two pushes: each costs the runtime one runc under its global lock, and pods must start too.
After a longer push the pause is as long as the push."""

PUSHES: Final = Rate(burst=1024, every_s=0.5)
"""Pushes in the long run. Each resize of an owner of CPUs changes the specs of a whole pool, and its author may resize
it every second. Files have the newest CPUs meanwhile."""

MOST_SUBMITTED: Final = 256
"""Calls of `submit` before equal ids are sorted out: a push that hangs must cost no memory for each change."""

BACK_OFF_S: Final = 2.0
BACK_OFF_CAP_S: Final = 60.0


class Relay(Protocol):
    """CRI, which changes a stored spec; `push` returns when it is done, and raises ColocError."""

    def push(self, container_id: str, changes: Knobs) -> None: ...


class Runtime(Protocol):
    """The connection to the runtime.

    updates_are_safe: whether NRI's own call may be used. Before NRI 0.12.1 it can block containerd for good
        (nri-protocol §6.2), so the relay is called there, as the kubelet does.
    """

    @property
    def connected(self) -> bool: ...

    @property
    def updates_are_safe(self) -> bool: ...

    def update_container(self, update: nri_pb2.ContainerUpdate) -> None: ...


class SpecUpdates:
    """Changes the runtime's stored specs, by the one of two calls that is safe with the connected runtime."""

    def __init__(self, relay: Relay, runtime: Runtime) -> None:
        self._relay = relay
        self._runtime = runtime

    @property
    def connected(self) -> bool:
        """Whether a runtime is there."""
        return self._runtime.connected

    def push(self, container_id: str, changes: Knobs) -> None:
        """Change one container's spec, and its cgroup if it runs; raise ColocError if that fails."""
        if not self._runtime.updates_are_safe:
            self._relay.push(container_id, changes)
            return
        # `unified` is never pushed, so the kernel's capabilities do not matter
        native = codec.update(container_id, changes, NOTHING_KNOWN)
        assert native is not None  # there is something to change
        native.ignore_failure = False  # or a failure would look like success (§5.4)
        self._runtime.update_container(native)


class PushedFiles(Protocol):
    """A container's files around a push.

    remember: keeps the values that the push is about to change, so that they can be restored.
    arrived: notes the runtime's answer: nothing more of the push is to come.
    differing: returns the changes that the files do not show afterwards, a sentence; "" if they show all.
    """

    def remember(self, assignment: Assignment, changes: Knobs) -> None: ...

    def arrived(self) -> None: ...

    def differing(self, assignment: Assignment, changes: Knobs) -> str: ...


class Place(Protocol):
    """Brings a container's cgroup to its values on the caller's thread.

    pushing: note that a push of values of the container begins.
    pushed: note its end; the runtime may write them still.
    """

    def pushing(self, container_id: str) -> None: ...

    def pushed(self, container_id: str) -> None: ...

    def bring(self, container_id: str) -> None: ...


class Loans(Protocol):
    """Raises a decided memory limit that the use has passed since; returns False if the use cannot be read."""

    def ease(self, container_id: str) -> bool: ...


class Pusher:
    """Knows the values of the runtime's specs, and pushes where the wanted values differ.

    Size: one queue, its thread, and the records of one push: refused, put off, taken, in flight.
    """

    def __init__(
        self,
        node: Node,
        report: Report,
        *,
        updates: SpecUpdates,
        loans: Loans,
        files: PushedFiles,
        place: Place,
    ) -> None:
        self._node = node
        self._report = report
        self._updates = updates
        self._loans = loans
        self._files = files
        self._place = place
        self._specs: dict[str, Knobs] = {}
        self._submitted: list[tuple[str, ...]] = []
        self._waiting: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._untold: dict[str, str] = {}
        self._taken: dict[str, Knobs] = {}
        self._pushes = Bucket()
        self._in_flight: tuple[str, Knobs] = ("", NO_KNOBS)
        self._stopping = Event()
        self._wanted = Condition(Lock())
        self._thread = Thread(target=self._run, name="pusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no further push; a push in flight ends by itself."""
        self._stopping.set()
        with self._wanted:
            self._wanted.notify()

    def ended(self, seconds: float) -> bool:
        """Wait until the last push has ended, if the thread ever started; return False if it has not in time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def learned(self, container_id: str, values: Knobs) -> None:
        """Note the values that a spec holds now, from an adjustment or an update; other values stay."""
        known = self._specs.get(container_id)
        self._specs[container_id] = values if known is None else known.overlaid(values)

    def learned_all(self, found: Mapping[str, Knobs]) -> None:
        """Note the values of all specs; other containers are gone."""
        self._specs = dict(found)

    def forget(self, container_id: str) -> None:
        """Drop a container that ended."""
        self._specs.pop(container_id, None)
        self._failures.pop(container_id, None)
        self._untold.pop(container_id, None)
        self._taken.pop(container_id, None)

    def submit(self, container_ids: tuple[str, ...]) -> None:
        """Queue these containers for a push; a container whose push failed keeps its time.

        The pusher's thread adds them to its queue, so that no hook waits for that.
        """
        with self._wanted:
            self._submitted.append(container_ids)
            if len(self._submitted) > MOST_SUBMITTED:
                self._submitted = [tuple(dict.fromkeys(chain.from_iterable(self._submitted)))]
            self._wanted.notify()

    def changed(self, change: Change) -> None:
        """Queue the containers of a change, and forget ended containers; any thread may call."""
        # a thread that wakes up takes a hook's time, and most hooks concern no other container
        if change.specs:
            self.submit(change.specs)
        for container_id in change.ended:
            self.forget(container_id)

    def recognises(self, container_id: str, asked: Knobs) -> bool:
        """Return whether an update that the runtime asks about is our own push."""
        return bool(container_id) and self._in_flight == (container_id, asked)

    def renew(self, container_id: str) -> Knobs:
        """Return newer values for the push in flight of a container, and note them as pushed."""
        pushing, pushed = self._in_flight
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is None or pushing != container_id:
            return NO_KNOBS
        newer = stored_specs.wanted(state, assignment).where_set(pushed).differing(pushed)
        newer = newer.overlaid(self._fitting(state, assignment, pushed))
        if newer != NO_KNOBS:
            self._files.remember(assignment, newer)
        self._in_flight = (container_id, pushed.overlaid(newer))
        return newer

    def _fitting(self, state: NodeState, assignment: Assignment, pushed: Knobs) -> Knobs:
        """Return the CPUs that a push must name too, so that the kernel takes the whole spec."""
        said = self._specs.get(assignment.id, NO_KNOBS).overlaid(pushed)
        # cgroup v1 takes no CPUs for a container that its pod's cgroup does not have
        within_pod = self._node.can.cgroup == 1
        return update.fitting(state, assignment, said.cpus).differing(said) if within_pod else NO_KNOBS

    # ---- the thread ----

    def _run(self) -> None:
        while (container_id := self._next()) is not None:
            try:
                pause = self._push(container_id)
            except Exception as error:  # an error of one push must not stop the others
                self._report.log.exception(
                    "a push failed by an error in the plugin", id=container_id, exc_info=error
                )
                self._put_off(container_id)
                pause = PAUSE_S
            # not on the condition: a submitted container must not wake this thread
            self._stopping.wait(pause)
        for assignment in filter(None, map(self._node.state.containers.get, [*self._untold])):
            self._tell_first_refusal(assignment)

    def _next(self) -> str | None:
        """Wait for a container whose push is due and return its id; None at the end."""
        with self._wanted:
            while not self._stopping.is_set():
                self._sort_in()
                now = time.monotonic()
                container_id = self._most_urgent(now)
                if container_id is not None:
                    del self._waiting[container_id]
                    return container_id
                soonest = min(self._waiting.values(), default=None)
                self._wanted.wait(None if soonest is None else soonest - now)
        return None

    def _most_urgent(self, now: float) -> str | None:
        """Return a container whose push is due; None if none is.

        An owner of CPUs comes first: after a restart of the daemon its spec shows what it owns.
        """
        due = [container_id for container_id, at in self._waiting.items() if at <= now]
        owners = self._node.state.owners
        return next((each for each in due if each in owners), due[0] if due else None)

    def _sort_in(self) -> None:
        """Add the submitted containers; waiting containers keep place and time."""
        for container_id in chain.from_iterable(self._submitted):
            if container_id:  # a runtime may report a container without an id
                self._waiting.setdefault(container_id, 0.0)
        self._submitted.clear()

    def _push(self, container_id: str) -> float:
        """Push the values that one container's spec lacks; return the seconds until the next push."""
        if not self._loans.ease(container_id):
            self._put_off(container_id)
            return 0.0
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is None:
            self.forget(container_id)
            return 0.0
        self._tell_first_refusal(assignment)
        changes = NO_KNOBS if self._node.tuning.observe else self._lacking(state, assignment)
        if changes == NO_KNOBS:
            return 0.0
        if not self._updates.connected:
            self.submit((container_id,))
            return BACK_OFF_S
        self._files.remember(assignment, changes)
        pause_s = self._sent(assignment, changes)
        self._pushes = self._pushes.at(time.monotonic(), PUSHES).with_one_more()
        return max(pause_s, self._pushes.wait_s(PUSHES))

    def _lacking(self, state: NodeState, assignment: Assignment) -> Knobs:
        """Return the values to push now; none if the spec has all of them, or lost those of the last push."""
        id_ = assignment.id
        changes = stored_specs.wanted(state, assignment).differing(self._specs.get(id_, NO_KNOBS))
        taken = self._taken.pop(id_, None)
        if changes == NO_KNOBS:
            self._failures.pop(id_, None)
            return NO_KNOBS
        changes = changes.overlaid(self._fitting(state, assignment, changes))
        if taken == changes:
            # no flood of pushes: a runtime that loses accepted values is asked again later
            lost = "push lost: the runtime accepted it, but its spec does not show it"
            self._failed(id_, Reason.FOUND_DIFFERENT, lost)
            return NO_KNOBS
        return changes

    def _sent(self, assignment: Assignment, changes: Knobs) -> float:
        """Send changes and judge the result; return the seconds until the next push."""
        id_, began = assignment.id, time.monotonic()
        self._in_flight = (id_, changes)
        try:
            self._send(id_, changes)
            changes = self._in_flight[1]
        except TransportLost as error:
            self._failed(id_, Reason.RUNTIME_REFUSED, f"{_NOT_DONE}: {error}")
            return BACK_OFF_S
        except ColocError as error:
            self._refused(id_, f"{_NOT_DONE}: {error}")
            return PAUSE_S
        finally:
            self._in_flight = ("", NO_KNOBS)
        if changes.cpus is not None and not self._stopping.is_set():  # else all may have been restored by now
            self._place.bring(id_)
        self._pushed(assignment, changes)
        return max(PAUSE_S, time.monotonic() - began)

    def _send(self, container_id: str, changes: Knobs) -> None:
        self._place.pushing(container_id)
        try:
            self._updates.push(container_id, changes)
        finally:
            self._files.arrived()
            self._place.pushed(container_id)

    def _pushed(self, assignment: Assignment, changes: Knobs) -> None:
        problem = self._files.differing(assignment, changes)
        if problem:
            self._failed(assignment.id, Reason.FOUND_DIFFERENT, f"push not in force: {problem}")
            return
        self._taken[assignment.id] = changes
        self.learned(assignment.id, changes)
        self.submit((assignment.id,))

    def _failed(self, container_id: str, reason: Reason, because: str) -> None:
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is None:
            self.forget(container_id)
            return  # it ended meanwhile; the runtime refused for that reason
        failures = self._put_off(container_id)
        if failures & (failures - 1) == 0:  # the first, second, fourth, eighth … time
            said = f"{because}; tried {counted(failures, 'time')}, the next time in {_back_off(failures):g} s"
            self._report.about(assignment, state, (AuditEvent.PUSH_FAILED, reason, said))

    def _refused(self, container_id: str, because: str) -> None:
        """Put a refused push off. The first refusal is recorded at the container's next push."""
        if self._failures.get(container_id) or container_id not in self._node.state.containers:
            self._failed(container_id, Reason.RUNTIME_REFUSED, because)
            return
        self._put_off(container_id)
        self._untold[container_id] = because

    def _tell_first_refusal(self, assignment: Assignment) -> None:
        because = self._untold.pop(assignment.id, "")
        if because:
            said = f"{because}; tried again {BACK_OFF_S:g} s later, or at the daemon's end"
            event = (AuditEvent.PUSH_FAILED, Reason.RUNTIME_REFUSED, said)
            self._report.about(assignment, self._node.state, event)

    def _put_off(self, container_id: str) -> int:
        failures = self._failures.get(container_id, 0) + 1
        self._failures[container_id] = failures
        with self._wanted:
            self._waiting[container_id] = time.monotonic() + _back_off(failures)
        return failures


_NOT_DONE: Final = "its spec could not be updated"


def _back_off(failures: int) -> float:
    return min(BACK_OFF_S * 2.0 ** (min(failures, 16) - 1), BACK_OFF_CAP_S)
