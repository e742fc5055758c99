"""Serve the runtime in one thread: connect, register, then read and answer each hook until the connection ends; repeat.

Each hook goes from its message to its answer: translate, decide, answer, and only then write and record. Creations and
updates of containers are in `creation` and `resize`; the steps of all hooks are in `common_steps`. The rest of the
daemon uses `Connection`.

CreateContainer (but for one case), Synchronize, Stop, Remove and the Post events do no I/O before their answer.
RunPodSandbox, StartContainer and both updates may write a few small files first: they are the last safe points for
values that NRI cannot carry. So may PostCreateContainer on cgroup v1, the last point before the runtime makes the task.
The one broad `except` is in `serve`: a failure of ours is answered neutrally and audited, never passed to the runtime.
"""

import random
import socket
import sys
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Final

from nri_coloc._pb import nri_pb2
from nri_coloc.core.backoff import Backoff
from nri_coloc.core.decisions import NO_MOVES, ContainerGone, PodRemoved
from nri_coloc.core.knobs import NO_KNOBS
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Report
from nri_coloc.core.seams import Decided, all_of
from nri_coloc.errors import ProtocolError, TransportLost
from nri_coloc.hooks.common_steps import Answers, Consequences, Exchange, Ticket, Watchdog
from nri_coloc.hooks.creation import Creation, Kubelet
from nri_coloc.hooks.resize import Resize
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri import codec, events
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import Session
from nri_coloc.placing.node import Node
from nri_coloc.repair.actuator import Actuator
from nri_coloc.runtime import stored_specs
from nri_coloc.runtime.connection import RETRY_CAP_S, Connection
from nri_coloc.runtime.departed_pods import departed, leave_out
from nri_coloc.runtime.listing import Listing


class Hooks:
    """Serves one hook at a time.

    consequences: the seams around a decision, and the records of hooks.
    kubelet: follows the kubelet's state file before a pod that it pinned is placed.
    """

    def __init__(
        self,
        node: Node,
        actuator: Actuator,
        translator: Translator,
        consequences: Consequences,
        *,
        kubelet: Kubelet,
    ) -> None:
        self._node = node
        self._kubelet = kubelet
        self._actuator = actuator
        self._pusher = consequences.pusher
        self._translator = translator
        self._consequences = consequences
        creation = Creation(node, actuator, translator, consequences, kubelet=kubelet)
        resize = Resize(node, actuator, translator, consequences)
        self._routes = {
            HookKind.RUN_POD_SANDBOX: self._run_pod,
            HookKind.STOP_POD_SANDBOX: self._pod_gone,
            HookKind.REMOVE_POD_SANDBOX: self._pod_gone,
            HookKind.UPDATE_POD_SANDBOX: self._update_pod,
            HookKind.CREATE_CONTAINER: creation.serve,
            HookKind.POST_CREATE_CONTAINER: self._created,
            HookKind.START_CONTAINER: self._start,
            HookKind.POST_START_CONTAINER: self._started,
            HookKind.UPDATE_CONTAINER: resize.serve,
            HookKind.POST_UPDATE_CONTAINER: resize.carried_out,
            HookKind.STOP_CONTAINER: self._gone,
            HookKind.REMOVE_CONTAINER: self._gone,
        }

    def serve(self, hook: events.Hook, answers: Answers, watchdog: Watchdog, read_at: float) -> None:
        """Answer one hook; any failure inside is answered neutrally."""
        ticket = watchdog.begin(hook.call, hook.kind)
        exchange = Exchange(ticket, answers, read_at)
        try:
            route = self._routes.get(hook.kind, self._nothing)
            route(hook, exchange)
        except TransportLost:
            raise  # no caller is left to answer
        except Exception as error:  # noqa: BLE001 - a failure of ours never fails a container (invariant 8)
            self._failed(hook, ticket, answers, error)
        finally:
            watchdog.end()
            self._consequences.timed(hook.kind, exchange.waited_s)

    # ---- pods ----

    def _run_pod(self, hook: events.Hook, exchange: Exchange) -> None:
        self._kubelet.look_at_kubelet()
        event = self._translator.pod_started(hook, self._node.tuning)
        with self._consequences.prepared(event):
            before = self._node.state
            outcome = self._node.decide(event)
        decided = Decided(outcome, before, event.pod.id)
        self._consequences.prepare_answer(hook.kind, decided, exchange)
        exchange.answer(None)
        left = outcome.moves.without_pod(event.pod.id)
        self._consequences.follow(all_of(outcome, before, left=left, latency_us=exchange.latency_us))

    def _pod_gone(self, hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)
        before = self._node.state
        gone = [assignment.id for assignment in before.of_pod(hook.pod.id)]
        outcome = self._node.decide(PodRemoved(hook.pod.id))
        self._consequences.follow(all_of(outcome, before, ended=gone, latency_us=exchange.latency_us))

    def _update_pod(self, hook: events.Hook, exchange: Exchange) -> None:
        told = NO_KNOBS if hook.resources is None else codec.resources_of(hook.resources).knobs()
        self._actuator.resized(hook.pod.id, told)
        before = self._node.state
        event = self._translator.pod_resized(hook, before, self._node.tuning)
        outcome = self._node.decide(event) if event is not None else None
        exchange.answer(None)
        if outcome is not None:
            self._consequences.follow(all_of(outcome, before, latency_us=exchange.latency_us))

    # ---- containers ----

    def _created(self, hook: events.Hook, exchange: Exchange) -> None:
        """Give the pod's cgroup the CPUs of the spec, on cgroup v1, before the runtime makes the task.

        If the pod has them already, as almost always, nothing is written.
        """
        assert hook.container is not None  # events of containers carry one
        self._consequences.created(hook.container.id)
        event = self._translator.created(hook) if self._node.can.cgroup == 1 else None
        if event is None:
            exchange.answer(None)
            return
        before = self._node.state
        decided = Decided(self._node.decide(event), before, event.pod_id)
        self._consequences.prepare_answer(hook.kind, decided, exchange)
        exchange.answer(None)

    def _start(self, hook: events.Hook, exchange: Exchange) -> None:
        event = self._translator.starting(hook, self._node.state, self._node.tuning, running=False)
        with self._consequences.prepared(event):
            before = self._node.state
            outcome = self._node.decide(event)
        container_id = event.container.id
        self._consequences.created(container_id)
        decided = Decided(outcome, before, event.pod.id, container_id)
        drifts = self._consequences.prepare_answer(hook.kind, decided, exchange)
        exchange.answer(None)
        if not outcome.is_silent:
            self._consequences.follow(all_of(outcome, before, left=NO_MOVES, latency_us=exchange.latency_us))
        if drifts:
            self._consequences.tell_drift(container_id, *drifts)

    def _started(self, hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)
        before = self._node.state
        event = self._translator.starting(hook, before, self._node.tuning, running=True)
        outcome = self._node.decide(event)
        self._consequences.follow(all_of(outcome, before, latency_us=exchange.latency_us))
        if self._node.tuning.dra_driver:
            self._pusher.submit((event.container.id,))  # the specification names the driver's CPUs yet
        self._actuator.pushed(event.container.id)
        self._actuator.bandwidths.place(event.container.id)
        self._consequences.tell_drift(event.container.id, self._actuator.place(event.container.id))

    def _gone(self, hook: events.Hook, exchange: Exchange) -> None:
        assert hook.container is not None  # events of containers carry one
        removed = hook.kind is HookKind.REMOVE_CONTAINER
        self._consequences.ended(hook.container.id)
        before = self._node.state
        outcome = self._node.decide(ContainerGone(hook.container.id, removed))
        is_silent = removed or self._node.tuning.observe
        updates = [] if is_silent else self._consequences.updates(outcome)
        answer = nri_pb2.StopContainerResponse(update=updates) if updates else None
        exchange.answer(answer)
        if answer is not None and exchange.claimed_by_us:
            self._consequences.learn(answer)
        if outcome.decisions:  # else no known container ended
            self._actuator.bandwidths.resized(hook.pod.id)
        ended = (hook.container.id,)
        self._consequences.follow(all_of(outcome, before, ended=ended, latency_us=exchange.latency_us))

    def _nothing(self, _hook: events.Hook, exchange: Exchange) -> None:
        exchange.answer(None)

    # ---- the runtime's list ----

    def listing(self) -> Listing:
        """Return an empty list, for the parts of a Synchronize."""
        return self._translator.listing()

    def learn(self, listed: Listing) -> None:
        """Adopt the runtime's whole list, and act on all that differs from it."""
        node = self._node
        event = self._translator.synchronized(listed.pods, listed.containers, node.state, node.tuning)
        if not node.told and any(container.record for container, _ in event.containers):
            self._actuator.know_earlier()
        with self._consequences.prepared(event):
            before = self._node.state
            outcome = self._node.decide(event)
        self._pusher.learned_all({c.id: stored_specs.of(c.resources) for c, _ in event.containers})
        self._consequences.follow(all_of(outcome, before))
        leave_out(node, departed(node.state, self._actuator.is_there), self._consequences.follow)
        self._actuator.take_over()

    def _failed(self, hook: events.Hook, ticket: Ticket, answers: Answers, error: Exception) -> None:
        if ticket.claim():
            answers.answer(hook.call, None)
        self._consequences.tell_failed(hook, error)


READ_SIZE: Final = 1 << 15
"""Bytes. One read holds a usual request whole; the runtime's socket buffer is about this large."""

HOOK_FIRST_S: Final = 1e-4
UNDISTURBED_S: Final = 5e-3
"""Seconds before the running thread gives the interpreter to a waiting one. Short while the trunk's thread waits for a
hook, so that other threads give way; Python's usual 5 ms while it works on one."""

OnConfigured = Callable[[events.Configured], None]


class Trunk:
    """Reads one connection after the other and passes hooks on.

    connect: returns a connected socket.
    """

    def __init__(
        self,
        connection: Connection,
        connect: Callable[[], socket.socket],
        name: tuple[str, str],
        hooks: Hooks,
        report: Report,
    ) -> None:
        self._connection = connection
        self._connect = connect
        self._name, self._index = name
        self._hooks = hooks
        self._report = report
        self._stopping = Event()
        self._acting = Lock()
        self._watchdog = Watchdog(connection.answer_neutral)

    def run(self, on_configured: OnConfigured, *, once: bool) -> None:
        """Serve one connection after the other until `stop`.

        on_configured: called with each configuration before it is answered.
        once: the socket cannot be opened again, so only one connection is served.
        """
        self._watchdog.start()
        backoff = Backoff(random.random, most_s=RETRY_CAP_S)
        attempts = 0
        found_before = True
        while not self._stopping.is_set():
            began = time.monotonic()
            found, lost = True, None
            try:
                found = self._serve_one(attempts, on_configured)
            except (OSError, TransportLost, ProtocolError) as error:
                lost = error
            # a long wait for a missing runtime is not the runtime's fault: only its own faults count
            if (found and not found_before) or time.monotonic() - began > RETRY_CAP_S:
                backoff.succeeded()
            found_before = found
            pause_s = backoff.failed()
            if lost is not None:
                self._lost(lost, attempts, "" if once else f"; reconnecting in {pause_s:.1f} s")
            attempts += 1
            if once:
                return
            self._stopping.wait(pause_s)

    def stop(self) -> None:
        """End the loop and the connection."""
        self._stopping.set()
        self._watchdog.stop()
        self._connection.drop("stopping")

    def ended(self, seconds: float) -> bool:
        """Wait, after `stop`, until the present hook has written its last value; return False if it has not in time."""
        ended = self._acting.acquire(timeout=seconds)
        if ended:
            self._acting.release()
        return ended

    # ---- one connection ----

    def _serve_one(self, attempts: int, on_configured: OnConfigured) -> bool:
        """Serve one connection to its end, which is always an error; return False if nothing listens."""
        try:
            connected = self._connect()
        except OSError as error:
            if attempts == 0:
                self._report.log.warning("waiting for the runtime's NRI socket", error=str(error))
            return False
        with connected:
            session = Session(self._name, self._index)
            try:
                self._connection.open(connected, session)
                self._read(connected, _Reading(session, on_configured))
            finally:
                self._connection.close()
        return True

    def _read(self, connected: socket.socket, reading: "_Reading") -> None:
        while not self._stopping.is_set():
            self._take(_wait_for_bytes(connected), reading)

    def _take(self, data: bytes, reading: "_Reading") -> None:
        """Handle these bytes. Memory that this took is freed on return, not while the next hook waits."""
        read_at = time.monotonic()
        if not data:
            raise TransportLost("the runtime closed the connection")
        found = self._connection.receive(reading.session, data)
        with self._acting:
            for event in found:
                if self._stopping.is_set():
                    return  # nothing waits for the answer, and original values may be being restored
                self._dispatch(event, reading, read_at)

    def _dispatch(self, event: events.Event, reading: "_Reading", read_at: float) -> None:
        match event:
            case events.Hook():
                self._hooks.serve(event, self._connection, self._watchdog, read_at)
            case events.Configured():
                self._configure(event, reading)
            case events.Synchronize():
                self._synchronize(event, reading, read_at)
            case events.RegistrationRefused(message=message):
                raise TransportLost(f"the runtime refused the registration: {message}")
            case events.RuntimeAnswered():
                self._connection.answered(event)
            case events.Registered():
                return

    def _configure(self, configured: events.Configured, reading: "_Reading") -> None:
        reading.on_configured(configured)
        self._connection.configured(configured)
        nri = ".".join(map(str, configured.nri_version))
        runtime = f"{configured.runtime_name} {configured.runtime_version}"
        because = f"registered with the runtime: {runtime}, NRI {nri}"
        self._report.said(AuditEvent.RUNTIME_CONNECT, Reason.CONNECTED, because)

    def _synchronize(self, part: events.Synchronize, reading: "_Reading", read_at: float) -> None:
        """Take one part of the list. The last part is answered before any costly work.

        The runtime grants all parts two seconds together and holds its global lock meanwhile. A hook that follows the
        answer waits in the socket until the list has been placed.
        """
        listing = reading.whole_list(part, self._hooks.listing)
        if listing is None:
            return
        self._connection.answer(part.call, nri_pb2.SynchronizeResponse())
        answered_at = time.monotonic()
        self._place(listing)
        synchronized_at = self._connection.took_list()
        self._report.log.info(
            "synchronised",
            containers=len(listing.containers),
            pods=len(listing.pods),
            seconds=round(synchronized_at - read_at, 4),
            answered_after=round(answered_at - read_at, 4),
        )
        took, budget = answered_at - read_at, part.call.timeout_nano / 1e9
        if budget and took > budget and self._connection.late_list_is_fatal:
            raise TransportLost(
                f"Synchronize took {took:.2f} s of {budget:.2f} s: the runtime has dropped the connection silently"
            )

    def _place(self, listing: Listing) -> None:
        try:
            self._hooks.learn(listing)
        except (OSError, TransportLost, ProtocolError):
            raise
        except Exception as error:
            self._report.log.exception("Synchronize failed by an error in the plugin", exc_info=error)
            because = (
                f"the runtime's list of containers could not be placed, reconnecting to get it again: "
                f"error in the daemon: {type(error).__name__}: {error}"
            )
            self._report.said(AuditEvent.HOOK_FAILED, Reason.INTERNAL_ERROR, because)
            raise TransportLost("without the runtime's list no container can be placed") from error

    def _lost(self, error: Exception, attempts: int, then: str) -> None:
        if self._stopping.is_set():
            return
        self._report.log.warning("lost the runtime", error=str(error), attempt=attempts)
        self._report.said(
            AuditEvent.RUNTIME_LOST, Reason.LOST, f"connection to the runtime lost: {error}{then}"
        )


class _Reading:
    """The state of reading one connection.

    session: its protocol state.
    on_configured: called with its configuration.
    """

    def __init__(self, session: Session, on_configured: OnConfigured) -> None:
        self.session = session
        self.on_configured = on_configured
        self._listing: Listing | None = None

    def whole_list(self, part: events.Synchronize, empty: Callable[[], Listing]) -> Listing | None:
        """Add one part of a Synchronize; return the whole list with its last part, else None.

        empty: makes the list for a first part.
        """
        listing = self._listing or empty()
        listing.add(part)
        self._listing = listing if part.more else None
        return None if part.more else listing


def _wait_for_bytes(connection: socket.socket) -> bytes:
    sys.setswitchinterval(HOOK_FIRST_S)
    try:
        return connection.recv(READ_SIZE)
    finally:
        sys.setswitchinterval(UNDISTURBED_S)
