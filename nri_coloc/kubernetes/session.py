"""One connection of a companion, from the daemon's side: bytes in, bytes out. It does no I/O and reads no clock.

The companion is not trusted. Each message is bounded before it is decoded, each method has a rate, and one call of each
method may be open. A call beyond a bound fails and changes nothing; the third within a minute ends the connection, as
do 30 s without a call. A frame of a type that ttrpc reserves counts as such a call. The bounds are in
`api/cluster/v1/cluster.proto`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.evictions import Result
from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.core.token_bucket import Bucket, Rate, take
from nri_coloc.kubernetes import event_messages, messages
from nri_coloc.kubernetes.eviction_orders import Open
from nri_coloc.kubernetes.kept_facts import KeptFacts
from nri_coloc.kubernetes.node_events import Batch
from nri_coloc.kubernetes.publication import Published
from nri_coloc.ttrpc.connection import Connection, Request, Role
from nri_coloc.ttrpc.errors import TtrpcError
from nri_coloc.ttrpc.status import Code

CALLS: Final = Rate(burst=20, every_s=0.5)
"""Calls of one method."""

MOST_BREACHES: Final = 3
BREACHES_S: Final = 60.0
IDLE_S: Final = 30.0
WAIT_S: Final = 10.0
"""Seconds after which a call for the newest state is answered, also without a change."""

SPACING_S: Final = 1.0
"""Seconds between two answers with a state."""

_Wanted = TypeVar("_Wanted", bound=Message)
_Checked = TypeVar("_Checked", bound=Message)


class Refusal(Exception):
    """A call that fails, with the status code of its answer."""

    def __init__(self, code: Code, text: str, *, is_breach: bool = True) -> None:
        super().__init__(text)
        self.code = code
        self.is_breach = is_breach


class Orders(Protocol):
    """The eviction orders of the daemon; `now_s` is monotonic seconds."""

    def pending(self, now_s: float) -> tuple[Open, ...]:
        """Return the open orders, 16 at most."""

    def take_results(self, results: tuple[Result, ...], now_s: float) -> None:
        """Close orders. The results come from the companion: each may be false, late or of an unknown order."""


class Events(Protocol):
    """The Kubernetes Events of the node; `now_s` is monotonic seconds."""

    def publish(self, now_s: float) -> Batch:
        """Return the Events that the companion has to record."""

    def recorded(self, sequence: int) -> None:
        """Note that all Events up to a sequence number were recorded. A false number loses Events, and nothing else."""


class Waiting(NamedTuple):
    """An open call for the newest state.

    generation: the state that the companion has.
    order_ids: the orders that it has.
    since_s: time of the call.
    """

    stream: int
    generation: int
    order_ids: frozenset[str]
    since_s: float


class Calls:
    """The rates of all methods, over all connections: another connection has no new ones."""

    def __init__(self) -> None:
        self._used: dict[str, Bucket] = {}

    def take(self, method: str, now_s: float) -> bool:
        """Count a call; return False if the rate of its method does not allow it now."""
        used = take(self._used.get(method, Bucket()), CALLS, now_s)
        if used is not None:
            self._used[method] = used
        return used is not None


class Lasting(NamedTuple):
    """The facts and the calls of all connections."""

    kept: KeptFacts
    calls: Calls


class Session:
    """The connection. `receive` takes bytes, `turn` answers calls that wait; both return messages to send.

    version: the daemon's own.
    lasting: the facts and the calls of all connections.
    ended: the reason of the end, "" while the connection is usable.
    companion: version and node of the companion, for the log; "" before its Hello.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        version: str,
        now_s: float,
        *,
        orders: Orders,
        events: Events,
        lasting: Lasting,
    ) -> None:
        self.ended = ""
        self.companion = ""
        self._settings = settings
        self._version = version
        self._orders = orders
        self._events = events
        self._told_sequence = 0
        self._kept, self._calls = lasting
        self._kept.connected()
        self._wire = Connection(
            Role.SERVER, receive_limit=messages.MESSAGE_LIMIT, send_limit=messages.MESSAGE_LIMIT
        )
        self._breaches: deque[float] = deque()
        self._called_s = now_s
        self._waiting: Waiting | None = None
        self._stated_s = -SPACING_S
        self._methods: dict[str, Callable[[Request, float], bytes | None]] = {
            "Hello": self._hello,
            "Next": self._next,
            "ReportResults": self._report_results,
            "ReportPods": self._report_pods,
        }

    def receive(self, data: bytes, now_s: float) -> list[bytes]:
        """Return the answers that these bytes cause at once."""
        try:
            events = self._wire.receive_data(data)
            refused = self._wire.messages_to_send()
        except TtrpcError as error:
            self.ended = f"it broke the protocol: {error}"
            return []
        for _ in range(len(refused) + self._wire.ignored_messages()):
            self._breach(now_s)
        sent = list(refused)
        for event in events:
            if isinstance(event, Request) and not self.ended:
                answer = self._answer(event, now_s)
                sent += [] if answer is None else [answer]
        return sent

    def turn(self, published: Published, now_s: float) -> list[bytes]:
        """Return the answer to the call that waits for a state, if it is due."""
        if now_s - self._called_s > IDLE_S:
            self.ended = f"no call for {IDLE_S:g} s"
        waiting = self._waiting
        if waiting is None or self.ended or now_s - self._stated_s < SPACING_S:
            return []
        orders = self._orders.pending(now_s)
        is_known = (waiting.generation, waiting.order_ids) == (
            published.generation,
            frozenset(each.id for each in orders),
        )
        events = self._events.publish(now_s) if self._settings.events else Batch()
        has_new = events.newest > self._told_sequence
        if is_known and not has_new and now_s - waiting.since_s < WAIT_S:
            return []
        self._waiting, self._stated_s = None, now_s
        self._told_sequence = max(self._told_sequence, events.newest)
        answer = messages.next_response(published, orders, now_s)
        event_messages.add(answer, events, now_s)
        return [self._wire.send_response(waiting.stream, answer.SerializeToString())]

    @property
    def is_waiting(self) -> bool:
        """Return whether a call waits for a state."""
        return self._waiting is not None

    # ---- calls ----

    def _answer(self, request: Request, now_s: float) -> bytes | None:
        try:
            self._admit(request, now_s)
            return self._methods[request.method](request, now_s)
        except Refusal as refusal:
            if refusal.is_breach:
                self._breach(now_s)
            return self._wire.send_error(request.stream, refusal.code, str(refusal))

    def _admit(self, request: Request, now_s: float) -> None:
        """Check the bounds that hold for every method."""
        self._called_s = now_s
        if request.service != messages.SERVICE or request.method not in self._methods:
            raise Refusal(Code.UNIMPLEMENTED, f"{request.service[:80]}/{request.method[:80]} is not served")
        if not self._calls.take(request.method, now_s):
            raise Refusal(Code.RESOURCE_EXHAUSTED, f"{request.method}: more than two calls a second")
        if not self.companion and request.method != "Hello":
            raise Refusal(Code.FAILED_PRECONDITION, "Hello comes first")

    def _hello(self, request: Request, _now_s: float) -> bytes:
        hello = _read(request, pb.HelloRequest, messages.checked_hello)
        if hello.protocol != messages.PROTOCOL:
            text = (
                f"the companion ({hello.version}) speaks protocol {hello.protocol}, the daemon ({self._version}) "
                f"protocol {messages.PROTOCOL}; run both from one image"
            )
            raise Refusal(Code.FAILED_PRECONDITION, text, is_breach=False)
        self.companion = f"{hello.version or 'unknown version'} of node {hello.node_name or 'without a name'}"
        body = pb.HelloResponse(
            protocol=messages.PROTOCOL,
            version=self._version,
            cpu_resource=self._settings.cpu_resource,
            memory_resource=self._settings.memory_resource,
            report_status=self._settings.report,
            report_events=self._settings.events,
            evict=self._settings.evict,
        )
        return self._wire.send_response(request.stream, body.SerializeToString())

    def _next(self, request: Request, now_s: float) -> None:
        asked = _read(request, pb.NextRequest, messages.checked_next)
        if self._waiting is not None:
            raise Refusal(Code.RESOURCE_EXHAUSTED, "Next: another call is open")
        self._events.recorded(asked.event_sequence)
        self._waiting = Waiting(request.stream, asked.generation, frozenset(asked.order_ids), now_s)

    def _report_results(self, request: Request, now_s: float) -> bytes:
        reported = _read(request, pb.ReportResultsRequest, messages.checked_results)
        self._orders.take_results(messages.results_of(reported), now_s)
        return self._wire.send_response(request.stream, pb.ReportResultsResponse().SerializeToString())

    def _report_pods(self, request: Request, now_s: float) -> bytes:
        def take(message: pb.ReportPodsRequest) -> pb.ReportPodsResponse:
            return pb.ReportPodsResponse(not_kept=self._kept.take(messages.reported(message, now_s)))

        answer = _read(request, pb.ReportPodsRequest, take)
        return self._wire.send_response(request.stream, answer.SerializeToString())

    def _breach(self, now_s: float) -> None:
        """Count a call beyond a bound; the third within a minute ends the connection."""
        self._breaches.append(now_s)
        while self._breaches[0] < now_s - BREACHES_S:
            self._breaches.popleft()
        if len(self._breaches) >= MOST_BREACHES:
            self.ended = f"{MOST_BREACHES} calls beyond a bound within {BREACHES_S:g} s"


def _read(request: Request, kind: type[_Wanted], check: Callable[[_Wanted], _Checked]) -> _Checked:
    try:
        return check(kind.FromString(request.payload))
    except (DecodeError, ValueError) as error:
        raise Refusal(Code.INVALID_ARGUMENT, f"{request.method}: {error}") from error
