"""Run the companion: carry the daemon's offer into the status of the node, and facts about pods to the daemon.

Three threads follow the daemon, the pods of the node and the node object, and one writes Events. The main thread
decides each second, and sooner after a change, whether the report must change (`reporting`), and sends the PATCH.
Nothing here writes to the node's machine: without the companion, placement and lending go on as before.
"""

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from threading import Event
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.backoff import Backoff
from nri_coloc.core.evictions import Result
from nri_coloc.core.texts import PlainLog
from nri_coloc.kubernetes import courier, messages, reporting, requests
from nri_coloc.kubernetes.api import PODS_PAGE, Api, ApiError, ApiRefused
from nri_coloc.kubernetes.client import DaemonAwayError, DaemonLink, DaemonRefusedError
from nri_coloc.kubernetes.colocation_node import ColocationNode
from nri_coloc.kubernetes.courier import Courier, Entry
from nri_coloc.kubernetes.event_writer import EventWriter
from nri_coloc.kubernetes.facts_outbox import FactsOutbox, FactsPause
from nri_coloc.kubernetes.figures import Figures
from nri_coloc.kubernetes.presets import Preset
from nri_coloc.kubernetes.publication import State
from nri_coloc.kubernetes.reporting import Report, Reporting, Wanted
from nri_coloc.kubernetes.requests import Floor
from nri_coloc.kubernetes.stores import NodePods, NodeView, ThisNode
from nri_coloc.kubernetes.watching import Collection, Problems, Unreadable, Watch
from nri_coloc.kubernetes.workers import Workers
from nri_coloc.ttrpc.status import Code

TURN_S: Final = 1.0
CALL_S: Final = 5.0
NEXT_S: Final = 20.0
"""Time limit of a call for the newest state, which the daemon answers within 10 s."""

RECONNECT_S: Final = 5.0
"""The longest pause between two tries to reach the daemon."""

_TURNED_AWAY: Final = (
    "the daemon ended the connection at once: another companion of this node is connected, or this process is not the "
    "user of kubernetes.companionUid"
)
"""The daemon closes such a connection without a word."""


class Events(Protocol):
    """The Events of the daemon, which another thread writes."""

    @property
    def recorded(self) -> int:
        """Return the sequence number up to which all Events of this connection were written."""

    def connected(self) -> None:
        """Begin with the numbers of a new connection."""

    def take(self, answer: pb.NextResponse) -> None:
        """Take the Events of an answer."""


class Own(NamedTuple):
    """The companion's own name: the node that it reports for, and its version."""

    node: str
    version: str


class Daemon:
    """The daemon's newest state, followed on a thread, which also sends facts about pods.

    heard: the state and the monotonic time of its arrival; None while the daemon is away.
    orders: its open eviction orders, of the same answer.
    preset: the names of the resources; None before the first answer.
    is_changed: the daemon reports other resources than at first.
    problem: why the daemon cannot be reached; empty if it can.
    """

    def __init__(
        self,
        path: str,
        own: Own,
        *,
        log: PlainLog,
        events: Events,
        changed: Callable[[], None],
        facts: FactsOutbox,
    ) -> None:
        self.heard: tuple[State, float] | None = None
        self.orders: tuple[Entry, ...] = ()
        self.preset: Preset | None = None
        self.is_changed = False
        self._path = path
        self._own = own
        self._log = log
        self._events = events
        self._changed = changed
        self.problem = "the daemon has not answered yet"
        self._facts = facts
        self._pause = FactsPause()
        self._results: Mapping[str, Result] = {}
        self._link: DaemonLink | None = None

    def take_results(self, results: Mapping[str, Result]) -> None:
        """Take the results of orders; they are reported after the daemon's next answer."""
        self._results = results

    def run(self, stop: Event) -> None:
        """Follow the daemon until `stop` is set and `end` was called."""
        backoff = Backoff(random.random, most_s=RECONNECT_S)
        while not stop.is_set():
            try:
                self._follow(stop, backoff)
            except (DaemonAwayError, DaemonRefusedError, ValueError) as error:
                self._rest(str(error), stop, backoff)
            except Exception as error:  # noqa: BLE001 - a thread that ends would leave the node closed for good
                self._rest(f"{type(error).__name__}: {error}", stop, backoff)

    def end(self) -> None:
        """End the connection, so that `run` does not wait for an answer; its `stop` is set already."""
        link = self._link
        if link is not None:
            link.shut_down()

    def _rest(self, problem: str, stop: Event, backoff: Backoff) -> None:
        """Wait until the next try, after an error."""
        if stop.is_set():  # `end` was the reason
            return
        self.heard = None
        if problem != self.problem:
            self.problem = problem
            self._log.warning("the daemon cannot be reached", because=problem)
        stop.wait(backoff.failed())

    def _follow(self, stop: Event, backoff: Backoff) -> None:
        link = self._link = DaemonLink(self._path, CALL_S)
        try:
            if stop.is_set():
                return
            self._greet(link)
            self._begin_facts()
            generation = 0
            while not stop.is_set():
                self._send_facts(link)
                asked = pb.NextRequest(generation=generation, event_sequence=self._events.recorded)
                answer = link.call(
                    "Next", asked, pb.NextResponse, NEXT_S, meanwhile=partial(self._send_facts, link)
                )
                has_orders = bool(self.orders or answer.orders)
                is_news = has_orders or answer.state.generation != generation
                generation = answer.state.generation
                self.orders = courier.entries(answer.orders, time.monotonic())
                self._events.take(answer)
                self.heard = messages.state_of(answer.state), time.monotonic()
                backoff.succeeded()
                if is_news:  # Events alone change no report
                    self._changed()
                self._report_results(link)
        finally:
            link.close()

    def _report_results(self, link: DaemonLink) -> None:
        """Report the results of the orders that the daemon has open.

        `Next` names no order ids, so the daemon answers each second while an order is open.
        """
        known = self._results
        found = [known[each.id] for each in self.orders if each.id in known]
        if found:
            link.call("ReportResults", messages.results_request(found), pb.ReportResultsResponse, CALL_S)

    def _begin_facts(self) -> None:
        """Send all facts: a new connection is usable."""
        self._facts.begin()
        self._pause = FactsPause()

    def _send_facts(self, link: DaemonLink) -> None:
        """Send one message of facts, if there is one: at most two a second, as the daemon allows."""
        message = self._facts.next() if self._pause.is_over() else None
        if message is None:
            return
        try:
            answer = link.call("ReportPods", message, pb.ReportPodsResponse, CALL_S)
        except DaemonRefusedError as error:
            self._facts_refused(error)
            return
        if message.complete:
            self._pause.succeeded()
        if answer.not_kept:
            self._log.warning(
                "the daemon has no room for facts about pods, or for their containers; they are treated as "
                "without a companion",
                pods=answer.not_kept,
            )

    def _facts_refused(self, error: DaemonRefusedError) -> None:
        """Send all facts again after a pause: the daemon did not take those of the refused call."""
        if error.code == Code.UNIMPLEMENTED:
            self._pause.has_no_end()
            self._log.info(
                "the daemon takes no facts about pods: it is older; run both from one image",
                because=str(error),
            )
            return
        self._facts.begin()
        if self._pause.begins(str(error)):
            self._log.warning("the daemon refused facts about pods; trying again", because=str(error))

    def _greet(self, link: DaemonLink) -> None:
        hello = pb.HelloRequest(
            protocol=messages.PROTOCOL, version=self._own.version, node_name=self._own.node
        )
        try:
            answer = link.call("Hello", hello, pb.HelloResponse, CALL_S)
        except DaemonAwayError as error:
            if isinstance(error.__cause__, ConnectionError):
                raise DaemonAwayError(_TURNED_AWAY) from error
            raise
        preset = Preset(answer.cpu_resource, answer.memory_resource)
        self.is_changed = self.preset is not None and preset != self.preset
        self.preset, self.problem = self.preset or preset, ""
        self._events.connected()
        self._log.info(
            "connected to the daemon", version=answer.version, cpu=preset.cpu, memory=preset.memory
        )


class Companion:
    """The whole program; `run` returns when it is asked to stop, or must start again with other resources."""

    def __init__(self, api: Api, socket: str, own: Own, *, log: PlainLog) -> None:
        self._api = api
        self._own = own
        self._log = log
        self._changed = Event()
        self._stop = Event()
        self._events = EventWriter(api, own.node, log=log)
        self._facts = FactsOutbox(api.now)
        self._daemon = Daemon(
            socket, own, log=log, events=self._events, changed=self._changed.set, facts=self._facts
        )
        self._workers = Workers()
        self._watches: list[Watch] = []
        self._reporter: Reporter | None = None

    def problem(self) -> str:
        """Return why the node's report may be old; empty if it is not."""
        sent = "" if self._reporter is None else self._reporter.problem
        return next(
            filter(
                None,
                (
                    self._workers.problem,
                    self._daemon.problem,
                    *(each.problem for each in self._watches),
                    sent,
                ),
            ),
            "",
        )

    def stop(self) -> None:
        """Make `run` return; called on another thread than it, and not in a handler of a signal."""
        self._stop.set()
        self._changed.set()

    def run(self) -> None:
        """Follow and report."""
        self._workers.start("daemon", self._daemon.run, self._stop)
        self._workers.start("events", self._events.run, self._stop)
        try:
            preset = self._first_preset()
            if preset is not None:
                self._report(preset)
        finally:
            self._stop.set()
            if self._workers.problem:
                self._log.warning("the companion ends to start again", because=self._workers.problem)
            self._daemon.end()
            self._events.end()
            self._api.close()
            self._workers.end()

    def _first_preset(self) -> Preset | None:
        while self._daemon.preset is None and not self._stop.is_set():
            self._wait()
        return self._daemon.preset

    def _report(self, preset: Preset) -> None:
        of_pods, of_nodes = (
            Problems(self._broken, Unreadable(kind, self._left_out)) for kind in ("pod", "node")
        )
        pods = NodePods(preset, self._changed.set, facts=self._facts, unreadable=of_pods.unreadable)
        node = ThisNode(preset, self._changed.set, self._missing)
        for path, follower, selector, problems in (
            ("/api/v1/pods", pods, requests.selector(self._own.node), of_pods),
            ("/api/v1/nodes", node, f"metadata.name={self._own.node}", of_nodes),
        ):
            collection = Collection(path, selector, page=PODS_PAGE)
            watch = Watch(self._api, collection, follower, problems)
            self._watches.append(watch)
            self._workers.start(path.rpartition("/")[2], watch.run, self._stop)
        reporter = self._reporter = Reporter(self._api, self._own.node, preset, log=self._log, node=node)
        owned = ColocationNode(self._api, self._own.node, lambda: node.uid)
        figures, carrier = Figures(owned), Courier(self._api, owned)
        while not (self._stop.is_set() or self._daemon.is_changed):
            heard, now_s = self._daemon.heard, time.monotonic()
            reporter.turn(pods, heard, now_s)
            if heard is not None and node.view is not None:
                self._write_figures(figures, heard[0], now_s)
                self._carry_orders(carrier, now_s)
            self._wait()
        if self._daemon.is_changed:
            self._log.warning(
                "the daemon's kubernetes.resources changed; the companion ends to start again with the new names"
            )

    def _write_figures(self, figures: Figures, state: State, now_s: float) -> None:
        before = figures.problem
        figures.turn(state, now_s)
        if figures.problem and figures.problem != before:
            self._log.warning("figures for people were not written", because=figures.problem)

    def _carry_orders(self, carrier: Courier, now_s: float) -> None:
        before = carrier.problem
        self._daemon.take_results(carrier.turn(self._daemon.orders, now_s))
        if carrier.problem and carrier.problem != before:
            self._log.warning("eviction orders were not written; trying again", because=carrier.problem)

    def _wait(self) -> None:
        self._changed.wait(TURN_S)
        self._changed.clear()

    def _broken(self, problem: str) -> None:
        if not self._stop.is_set():
            self._log.warning("a watch broke; trying again", because=problem)

    def _missing(self, problem: str) -> None:
        self._log.warning("the report was not sent; waiting for the Node object", because=problem)

    def _left_out(self, problem: str) -> None:
        self._log.warning("an object of the API server was left out", because=problem)


class Reporter:
    """The report of one node: decide, PATCH, back off."""

    def __init__(self, api: Api, name: str, preset: Preset, *, log: PlainLog, node: ThisNode) -> None:
        self._api = api
        self._path = f"/api/v1/nodes/{name}/status"
        self._preset = preset
        self._log = log
        self._node = node
        self._state = Reporting()
        self._uid = ""
        self._stamp = self._accepted = ""
        self._backoff = Backoff(random.random)
        self._retry_s = 0.0
        self._unsent = ""
        self._left_out = 0
        self._node_state = ""

    @property
    def problem(self) -> str:
        """Return why the node's report may be old; empty if it is not."""
        return self._node.problem or self._unsent

    def turn(self, pods: NodePods, heard: tuple[State, float] | None, now_s: float) -> None:
        """Send a report if one is due."""
        view, floor = self._node.view, pods.floor
        if view is None or floor is None:
            return
        if view.uid != self._uid:
            self._uid, self._state = view.uid, Reporting()
            self._stamp = self._accepted = view.reported_at
        wanted = None if heard is None else _wanted(heard, view, floor, now_s)
        if wanted is not None:
            self._remark(wanted)
        # both stamps are of one machine's clock, in UTC; a clock that is set back does not make an own one another's
        is_replaced = view.reported_at > self._stamp and view.reported_at != self._accepted
        decision = reporting.decide(self._state, wanted, view.shown, now_s, is_replaced=is_replaced)
        self._state = decision.state
        self._node_state = "" if heard is None else heard[0].node_state
        if decision.report is None:
            self._unsent = ""  # a report that could not be sent is not wanted any more
        elif now_s >= self._retry_s:
            is_closing = decision.cause is reporting.Cause.CLOSED
            because = _why_closed(heard, wanted) if is_closing else ""
            self._send(decision.report, {"cause": str(decision.cause), "because": because}, now_s)

    def _remark(self, wanted: Wanted) -> None:
        """Log the number of pods that do not count, when it rises."""
        before = self._left_out
        self._left_out = requests.left_out(wanted.floor, requests.Size(wanted.node, wanted.max_pods))
        if self._left_out > before:
            self._log.warning(
                "pods with unreadable requests, or requests above the whole node, do not count in the report; "
                "look for them with kubectl describe node",
                pods=self._left_out,
            )

    def _send(self, report: Report, why: Mapping[str, str], now_s: float) -> None:
        try:
            stamp = datetime.now(UTC).isoformat(timespec="seconds")
            if report.is_fresh:
                self._stamp = stamp  # before the answer, which may be lost
            node = self._api.merge(self._path, reporting.patch(report, self._preset, stamp, self._node_state))
            self._node.answered(node)
        except ApiError as error:
            self._failed(error, now_s)
            return
        except ValueError as error:
            self._failed(ApiError(f"PATCH {self._path}: the answer cannot be read: {error}"), now_s)
            return
        self._state = reporting.confirm(self._state, report, now_s)
        self._backoff.succeeded()
        self._retry_s, self._unsent, self._accepted = 0.0, "", self._stamp
        if why["cause"] != reporting.Cause.HEARTBEAT:
            self._log.info("reported", **{key: text for key, text in why.items() if text}, **_words(report))

    def _failed(self, error: ApiError, now_s: float) -> None:
        after_s = error.retry_after_s if isinstance(error, ApiRefused) else 0.0
        self._retry_s = now_s + self._backoff.failed(after_s)
        is_forbidden = isinstance(error, ApiRefused) and error.status == HTTPStatus.FORBIDDEN
        remedy = "; let the service account patch nodes/status of its node"
        because = f"{error}{remedy}" if is_forbidden else str(error)
        if because != self._unsent:
            self._log.warning("the report was not sent; trying again", because=because)
        self._unsent = because


def _wanted(heard: tuple[State, float], view: NodeView, floor: Floor, now_s: float) -> Wanted | None:
    """Return the values of a report; None if the daemon's readings are too old."""
    state, heard_s = heard
    if state.age_s + now_s - heard_s > reporting.SILENT_AFTER_S:
        return None
    return Wanted(
        offer=state.offer, floor=floor, node=state.node, max_pods=view.max_pods, lending=state.lending
    )


def _why_closed(heard: tuple[State, float] | None, wanted: Wanted | None) -> str:
    """Return why a report closes the node."""
    if heard is None:
        return f"the daemon has not answered for {reporting.SILENT_AFTER_S:g} s"
    if wanted is None:
        return (
            f"the daemon's newest reading is older than {reporting.SILENT_AFTER_S:g} s; "
            "check `readings` of its /readyz has the cause"
        )
    if wanted.lending is not reporting.Lending.ON:
        return f"lending is {wanted.lending}; the Events of the node have the cause"
    return f"an offer is 0 or below the requests of the pods: {heard[0].because}"


def _words(report: Report) -> dict[str, Any]:
    gate = "closed" if report.gate is None else report.gate
    cpu, memory = report.amounts
    return {"cpu_milli": cpu, "memory_bytes": memory, "open": gate, "lending": str(report.lending)}
