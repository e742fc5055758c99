"""NRI's multiplexer: several byte streams over one socket, without I/O.

    connection id u32 | length u32 | `length` bytes       (big-endian)

It knows frames and connection ids, not what flows through them. Reading is easy: a frame is any
slice of its stream, so slices are handed on as they come and nothing but a torn header is kept.

Writing is where containerd can be crashed. Its side reads message-wise: a frame over 4096 bytes
where ttrpc expects a header fails with ENOMEM, a frame that crosses the end of a message can panic
the process, and 257 unread frames close the trunk. `frame` obeys all three rules, one message at a
time; never join two messages before calling it. `sim.go_reader` reads as Go does, for tests.
"""

import struct
from collections.abc import Collection

from nri_coloc.errors import LocalProtocolError, RemoteProtocolError

HEADER = struct.Struct(">II")

# The buffer through which Go's ttrpc reads headers (bufio's default size, mux.go's ENOMEM check).
FIRST_FRAME = 4096
# The most that any Go sender puts into one frame (NRI 0.6: 1 << 24; later 4 MiB and a header). A
# longer one is not a big message but lost synchronisation.
FRAME_LIMIT = 16 << 20

PLUGIN_SERVICE = 1  # the runtime calls, the plugin answers
RUNTIME_SERVICE = 2  # the plugin calls, the runtime answers


class Trunk:
    """The framing of one socket. Frames of connections that are not open are read and dropped."""

    def __init__(self, connections: Collection[int] = (PLUGIN_SERVICE, RUNTIME_SERVICE)) -> None:
        self._connections = frozenset(connections)
        self._header = b""
        self._connection = 0
        self._missing = 0
        self._cause: RemoteProtocolError | None = None

    def receive_data(self, data: bytes) -> list[tuple[int, memoryview]]:
        """Slices of the open connections' streams, in the order of the wire; none is empty."""
        if self._cause is not None:
            raise RemoteProtocolError("the trunk failed earlier") from self._cause
        if self._header:
            data, self._header = self._header + data, b""
        slices: list[tuple[int, memoryview]] = []
        view, at, size = memoryview(data), 0, len(data)
        while at < size:
            if not self._missing:
                if size - at < HEADER.size:
                    self._header = data[at:]
                    break
                at = self._read_header(data, at)
            end = min(at + self._missing, size)
            if end > at and self._connection in self._connections:
                slices.append((self._connection, view[at:end]))
            self._missing -= end - at
            at = end
        return slices

    def receive_end(self) -> None:
        """The socket ended; inside a frame that is a fault."""
        if self._header or self._missing:
            raise self._fail("the connection ended inside a frame")

    def _read_header(self, data: bytes, at: int) -> int:
        self._connection, self._missing = HEADER.unpack_from(data, at)
        if self._missing > FRAME_LIMIT:
            raise self._fail(f"a frame of {self._missing} bytes was announced; none is over {FRAME_LIMIT}")
        return at + HEADER.size

    def _fail(self, text: str) -> RemoteProtocolError:
        self._cause = RemoteProtocolError(text)
        return self._cause


def frame(connection: int, message: bytes) -> bytes:
    """Frames one whole message; write the result in one piece, before any other bytes."""
    first = message[:FIRST_FRAME]
    if len(message) <= FIRST_FRAME:
        return HEADER.pack(connection, len(first)) + first
    rest = len(message) - FIRST_FRAME
    if rest > FRAME_LIMIT:
        raise LocalProtocolError(f"a message of {len(message)} bytes fits into no frame")
    return b"".join(
        (
            HEADER.pack(connection, len(first)),
            first,
            HEADER.pack(connection, rest),
            memoryview(message)[FIRST_FRAME:],
        )
    )
