"""Read a plugin's bytes as containerd does, and fail in the same cases.

Three layers of Go are simulated:
* the multiplexer's queue of frames for each logical connection;
* its Read, which copies into the caller's slice but checks and reports by the slice's capacity;
* the ttrpc channel, which reads headers through a buffered reader and payloads into a pooled slice.

Go's buffered reader passes a request of at least its own buffer size straight to Read. If a frame is longer than the
slice but fits its capacity, Read copies a part and reports the whole frame. The next index is out of range, and
containerd panics. The simulated scheduling is the worst case: all frames of one `receive_data` are queued before any
frame is consumed.
"""

from collections import deque
from collections.abc import Generator
from typing import NamedTuple

from nri_coloc.nri.multiplexer import HEADER as FRAME_HEADER
from nri_coloc.ttrpc import frames

# multiplex.go: the default length of a logical connection's read queue.
QUEUE_LENGTH = 256
# bufio.NewReader's default, which ttrpc's channel uses.
BUFFER_SIZE = 4096


class GoFailure(Exception):
    """Base of the failures of the real reader."""


class GoOutOfMemory(GoFailure):
    """Read returned ENOMEM: the frame is larger than the slice."""


class GoPanic(GoFailure):
    """Index out of range in bufio: the whole containerd process ends."""


class GoQueueOverflow(GoFailure):
    """The queue is full: the runtime closes the connection."""


class Message(NamedTuple):
    connection: int
    stream: int
    message_type: int
    body: bytes
    oversized: int = 0  # announced length of a message that was discarded


class GoReader:
    """The runtime's reader of one plugin connection. `pooled`: capacity in bytes of the payload slices in the pool."""

    def __init__(self, connections: tuple[int, ...] = (1, 2), pooled: int = 0) -> None:
        self._channels = {connection: _Channel(connection, pooled) for connection in connections}
        self._rest = b""

    def receive_data(self, data: bytes) -> list[Message]:
        self._rest += data
        for connection, payload in self._whole_frames():
            channel = self._channels.get(connection)
            if channel is not None:
                channel.queue_frame(payload)
        return [message for channel in self._channels.values() for message in channel.consume()]

    def _whole_frames(self) -> list[tuple[int, bytes]]:
        found, at = [], 0
        while len(self._rest) - at >= FRAME_HEADER.size:
            connection, length = FRAME_HEADER.unpack_from(self._rest, at)
            end = at + FRAME_HEADER.size + length
            if end > len(self._rest):
                break
            found.append((connection, self._rest[at + FRAME_HEADER.size : end]))
            at = end
        self._rest = self._rest[at:]
        return found


class _Channel:
    """ttrpc's channel over one logical connection; its goroutine is a generator that waits for frames."""

    def __init__(self, connection: int, pooled: int) -> None:
        self._connection = connection
        self._pooled = pooled
        self._queue: deque[bytes] = deque()
        self._buffered = b""
        self._running = self._run()

    def queue_frame(self, payload: bytes) -> None:
        if len(self._queue) >= QUEUE_LENGTH:
            raise GoQueueOverflow(f"failed to queue payload for reading on {self._connection}")
        self._queue.append(payload)

    def consume(self) -> list[Message]:
        found = []
        while (message := next(self._running)) is not None:
            found.append(message)
        return found

    def _run(self) -> Generator[Message | None, None, None]:
        while True:
            header = yield from self._read(frames.HEADER_SIZE, frames.HEADER_SIZE)
            length, stream, message_type, _flags = frames.HEADER.unpack(header)
            if length > frames.MESSAGE_LIMIT:
                yield from self._discard(length)
                yield Message(self._connection, stream, message_type, b"", length)
                continue
            capacity = max(length, self._pooled)
            body = yield from self._read(length, capacity)
            self._pooled = capacity
            yield Message(self._connection, stream, message_type, body)

    def _read(self, wanted: int, capacity: int) -> Generator[None, None, bytes]:
        """Return `wanted` bytes, as io.ReadFull over bufio.Reader.Read does for a slice with this capacity."""
        got = self._from_buffer(wanted)
        while len(got) < wanted:
            missing = wanted - len(got)
            frame = yield from self._next_frame()
            if missing < BUFFER_SIZE:
                self._fill(frame)
                got += self._from_buffer(missing)
                continue
            if len(frame) > capacity - len(got):
                raise GoOutOfMemory(f"{len(frame)} bytes for a slice of {capacity - len(got)}")
            if len(frame) > missing:
                raise GoPanic(f"index {len(frame) - 1} out of range with length {missing}")
            got += frame
        return got

    def _discard(self, length: int) -> Generator[None, None, None]:
        """Skip `length` bytes as bufio.Reader.Discard does, always through its own buffer."""
        while length:
            length -= len(self._from_buffer(length))
            if length:
                self._fill((yield from self._next_frame()))

    def _next_frame(self) -> Generator[None, None, bytes]:
        while not self._queue:
            yield None
        return self._queue.popleft()

    def _fill(self, frame: bytes) -> None:
        if len(frame) > BUFFER_SIZE:
            raise GoOutOfMemory(f"{len(frame)} bytes for a buffer of {BUFFER_SIZE}")
        self._buffered = frame

    def _from_buffer(self, wanted: int) -> bytes:
        taken, self._buffered = self._buffered[:wanted], self._buffered[wanted:]
        return taken
