"""Serve all HTTP connections on one thread: it parses requests, sends answers, and never waits for a client.

`Allowance` is a token bucket of CPU time: the share of one core that requests from outside may use.
"""

import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from http import HTTPStatus
from threading import Event, Thread
from typing import Final, NamedTuple, Protocol


class Allowance:
    """A token bucket of CPU time.

    share: the average part of a core.
    burst_s: CPU seconds that may be used at once after a quiet time.
    """

    def __init__(self, share: float, burst_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._burst_s = burst_s
        self._clock = clock
        self._left_s = burst_s
        self._at = clock()

    def pause_after(self, spent_s: float) -> float:
        """Return the seconds to wait after work that took so many CPU seconds; 0 while the burst lasts.

        The debt is at most one burst: a caller that waits less than it should is not paused forever.
        """
        now = self._clock()
        earned_s = (now - self._at) * self._share
        left_s = min(self._burst_s, self._left_s + earned_s) - spent_s
        self._left_s, self._at = max(-self._burst_s, left_s), now
        return max(0.0, -self._left_s / self._share)


MAX_BYTES: Final = 16 * 1024
"""Bytes of a head: twice as many as browsers and proxies send."""

MAX_HEADERS: Final = 100

_LINE: Final = re.compile(rb"([!-~]{1,32}) ([!-~]+) HTTP/1\.[0-9]")

_ORIGIN: Final = re.compile(r"https?://([^/?]+)", re.IGNORECASE)
"""The scheme and host of a target in absolute form, which a client of a proxy sends (RFC 9112, 3.2.2)."""


class Request(NamedTuple):
    """A valid request; `query` is the part after the question mark.

    host: the server's name and port as the client knows them; "" if it sent none.
    """

    method: str
    path: str
    query: str
    host: str = ""


class BadRequest(ValueError):
    """The head of the request is not valid; the text may be sent to the client."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def end_of_head(received: bytes | bytearray, since: int) -> int:
    """Return the length of the head in bytes, -1 while it is incomplete; raise BadRequest if it is too long.

    since: number of bytes that were searched before, so that a head in small pieces costs no more.
    """
    begin = max(0, since - 2)
    ends = [at for at in (received.find(b"\n\r\n", begin), received.find(b"\n\n", begin)) if at >= 0]
    if min(ends, default=len(received)) >= MAX_BYTES:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the request's headers may have at most {MAX_BYTES} bytes",
        )
    return min(ends, default=-1)


def read(head: bytes) -> Request:
    """Return the request of a complete head; raise BadRequest if it is not valid."""
    lines = head.strip(b"\r\n").splitlines()  # RFC 9112, 2.2: an empty line before a request is ignored
    if len(lines) - 1 > MAX_HEADERS:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request may have at most {MAX_HEADERS} headers"
        )
    asked = _LINE.fullmatch(lines[0]) if lines else None
    if asked is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the first line is not a request of HTTP/1")
    target, host = asked[2].decode(), _host(lines[1:])
    if origin := _ORIGIN.match(target):
        target, host = "/" + target[origin.end() :].removeprefix("/"), origin[1]
    path, _, query = target.partition("?")
    return Request(asked[1].decode(), path, query, host)


def _host(headers: list[bytes]) -> str:
    """Return the value of the Host header, "" without one; raise BadRequest for two."""
    parts = (each.partition(b":") for each in headers)
    found = [value.strip().decode("latin-1") for name, _, value in parts if name.lower() == b"host"]
    if len(found) > 1:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "a request may have one Host header")
    return found[0] if found else ""


MAX_CONNECTIONS: Final = 64
"""Prometheus, two probes and a few people, and room for clients that behave badly. A connection costs no thread."""

MAX_UNSENT_BYTES: Final = 8 << 20
"""Bytes of all answers that clients have not read yet: several times the largest answer."""

TIMEOUT_S: Final = 5.0
"""Seconds for the whole request, and again for the whole answer."""

LINGER_S: Final = 1.0
"""Seconds for the client to close after its answer. If the server closed first, with an unread body, the connection
would be reset, and the client might lose the answer."""

SHARE: Final = 0.01
BURST_S: Final = 0.05
"""CPU time of this thread for all clients together: a hundredth of a core, and 50 ms at once, some 500 requests.
Beyond that each turn serves more clients, and each client waits some 10 ms."""

LONGEST_PAUSE_S: Final = 0.05
"""Seconds: no probe waits longer than this for its turn, however much CPU time was used."""

ACCEPT_PAUSE_S: Final = 0.05
"""Seconds after a failed accept: without descriptors the kernel offers the same connection again at once."""

ACCEPTED_AT_ONCE: Final = 16
PIECE: Final = 16 * 1024


BACKLOG: Final = 128
"""With a short backlog, clients of a burst wait a second for their second SYN."""

CLOSE_S: Final = 1.0
"""Seconds that `Server.close` waits for the thread."""


class Service(Protocol):
    """The service that answers requests. It is called on the loop's thread, so it must not wait."""

    def ask(self, request: Request, connection: "Connection") -> bytes | None:
        """Return the answer, or None if it will be put into the outbox."""

    def refusal(self, status: HTTPStatus, sentence: str) -> bytes:
        """Return the answer to a request that cannot be read."""


class Phase(IntEnum):
    """The phase of a connection; if there are too many connections, the lowest phase is closed first."""

    LINGERING = 0
    READING = 1
    SENDING = 2
    WAITING = 3


class Connection:
    """One client's connection, owned by the loop's thread."""

    def __init__(self, client: socket.socket, now: float) -> None:
        self.socket = client
        self.phase = Phase.READING
        self.deadline = now + TIMEOUT_S
        self.received = bytearray()
        self.unsent = memoryview(b"")

    @property
    def rank(self) -> tuple[Phase, float]:
        """Return the sort key by which connections are closed if there are too many."""
        return self.phase, self.deadline

    def to(self, phase: Phase, deadline: float) -> None:
        """Set phase and deadline."""
        self.phase, self.deadline = phase, deadline


class Outbox:
    """A queue of answers from any thread to the loop's thread; `wakes` becomes readable if there is an answer."""

    def __init__(self) -> None:
        self.wakes, self._waker = socket.socketpair()
        self.wakes.setblocking(False)
        self._waker.setblocking(False)
        self._answers: deque[tuple[tuple[Connection, ...], bytes]] = deque()

    def put(self, connections: tuple[Connection, ...], answer: bytes) -> None:
        """Queue one answer for several connections."""
        self._answers.append((connections, answer))
        self.wake()

    def wake(self) -> None:
        """Wake the loop."""
        with suppress(OSError):  # full: the loop is about to wake; closed: it has ended
            self._waker.send(b"x")

    def taken(self) -> Iterator[tuple[tuple[Connection, ...], bytes]]:
        """Yield the queued answers with their connections."""
        with suppress(BlockingIOError):
            self.wakes.recv(PIECE)
        while self._answers:
            yield self._answers.popleft()

    def close(self) -> None:
        """Close both sockets."""
        self.wakes.close()
        self._waker.close()


class Loop:
    """The server loop. `run` serves on the caller's thread until `close`, which any thread may call."""

    def __init__(
        self, listener: socket.socket, service: Service, outbox: Outbox, report: Callable[[str], None]
    ) -> None:
        self._listener = listener
        self._service = service
        self._outbox = outbox
        self._report = report
        self._allowance = Allowance(SHARE, BURST_S)
        self._closing = Event()
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(outbox.wakes, selectors.EVENT_READ, self._take_answers)

    def run(self) -> None:
        """Serve until `close`, then close every connection."""
        try:
            while not self._closing.is_set():
                began = time.thread_time()
                self._turn()
                pause_s = self._allowance.pause_after(time.thread_time() - began)
                self._closing.wait(min(pause_s, LONGEST_PAUSE_S))
        finally:
            for connection in tuple(self._connections):
                self._close(connection)
            self._selector.close()
            self._listener.close()
            self._outbox.close()

    def close(self) -> None:
        """End `run`; unfinished answers are cut off."""
        self._closing.set()
        self._outbox.wake()

    # ---- the loop's thread ----

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._until_deadline()):
            if isinstance(key.data, Connection):
                self._serve(key.data)
            else:
                key.data()
        now = time.monotonic()
        for connection in [each for each in self._connections if each.deadline <= now]:
            self._close(connection)

    def _until_deadline(self) -> float | None:
        if not self._connections:
            return None
        return max(0.0, min(each.deadline for each in self._connections) - time.monotonic())

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # the client has left, or there are no descriptors: some become free later
                self._closing.wait(ACCEPT_PAUSE_S)
                return
            self._begin(client)

    def _begin(self, client: socket.socket) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            self._close(min(self._connections, key=lambda each: each.rank))
        client.setblocking(False)
        connection = Connection(client, time.monotonic())
        self._connections.add(connection)
        self._selector.register(client, selectors.EVENT_READ, connection)
        self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        """Read from or write to a ready connection, by its phase."""
        if connection not in self._connections:  # closed earlier in this turn
            return
        try:
            match connection.phase:
                case Phase.READING:
                    self._read(connection)
                case Phase.SENDING:
                    self._send(connection)
                case Phase.LINGERING:
                    self._drop_input(connection)
                case Phase.WAITING:
                    return
        except BlockingIOError:
            return
        except OSError:  # the client has left
            self._close(connection)
        except Exception as error:  # noqa: BLE001 - one client's request, while this thread serves all
            self._report(f"an HTTP connection failed and was closed: {type(error).__name__}: {error}")
            self._close(connection)

    def _read(self, connection: Connection) -> None:
        piece = connection.socket.recv(PIECE)
        if not piece:
            self._close(connection)
            return
        seen = len(connection.received)
        connection.received += piece
        try:
            end = end_of_head(connection.received, seen)
            if end >= 0:
                self._ask(connection, read(bytes(connection.received[:end])))
        except BadRequest as refused:
            self._answer(connection, self._service.refusal(refused.status, str(refused)))

    def _ask(self, connection: Connection, request: Request) -> None:
        connection.to(Phase.WAITING, time.monotonic() + TIMEOUT_S)
        answer = self._service.ask(request, connection)
        if answer is not None:
            self._answer(connection, answer)
        else:  # until there is an answer, the client's bytes and its disconnect are ignored
            self._selector.unregister(connection.socket)

    def _drop_input(self, connection: Connection) -> None:
        """Read and drop the bytes after the request: a body, or another request."""
        if not connection.socket.recv(PIECE):
            self._close(connection)

    def _take_answers(self) -> None:
        for connections, answer in self._outbox.taken():
            for connection in connections:
                if connection in self._connections:  # not closed meanwhile
                    self._answer(connection, answer)

    def _answer(self, connection: Connection, answer: bytes) -> None:
        connection.received = bytearray()
        connection.unsent = memoryview(answer)
        connection.to(Phase.SENDING, time.monotonic() + TIMEOUT_S)
        self._make_room(connection)
        self._watch(connection, selectors.EVENT_WRITE)
        self._serve(connection)

    def _watch(self, connection: Connection, event: int) -> None:
        if connection.socket.fileno() in self._selector.get_map():
            self._selector.modify(connection.socket, event, connection)
        else:
            self._selector.register(connection.socket, event, connection)

    def _make_room(self, newest: Connection) -> None:
        """Close the connections with the oldest answers, until at most `MAX_UNSENT_BYTES` bytes are unsent."""
        sending = [each for each in self._connections if each.phase is Phase.SENDING and each is not newest]
        sending.sort(key=lambda each: each.deadline, reverse=True)
        while sending and _held((*sending, newest)) > MAX_UNSENT_BYTES:
            self._close(sending.pop())

    def _send(self, connection: Connection) -> None:
        sent = connection.socket.send(connection.unsent)
        connection.unsent = connection.unsent[sent:]
        if not connection.unsent:
            connection.unsent = memoryview(b"")
            connection.socket.shutdown(socket.SHUT_WR)
            connection.to(Phase.LINGERING, time.monotonic() + LINGER_S)
            self._watch(connection, selectors.EVENT_READ)

    def _close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection.socket.fileno() in self._selector.get_map():
            self._selector.unregister(connection.socket)
        connection.socket.close()


def listen(address: tuple[str, int]) -> socket.socket:
    """Return a socket that listens at "address, port"; raise OSError if it cannot be bound."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=BACKLOG)


class Server:
    """A loop on a thread of its own.

    port: the port of the listener.
    """

    def __init__(
        self, listener: socket.socket, service: Service, outbox: Outbox, report: Callable[[str], None]
    ) -> None:
        self.port = int(listener.getsockname()[1])
        self._loop = Loop(listener, service, outbox, report)
        self._thread = Thread(target=self._loop.run, name="http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering, cut off unfinished answers and free the port."""
        self._loop.close()
        self._thread.join(CLOSE_S)


def _held(connections: tuple[Connection, ...]) -> int:
    """Return the bytes of unsent answers; an answer that several clients share counts once."""
    answers = {id(each.unsent.obj): len(each.unsent.obj) for each in connections}  # type: ignore[arg-type]  # bytes
    return sum(answers.values())
