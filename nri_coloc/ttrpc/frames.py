"""The frame of ttrpc: ten bytes of header, big-endian, then the envelope.

    length u32 | stream id u32 | message type u8 | flags u8 | `length` bytes

Knows the layout and the limits; knows nothing of streams, roles or envelopes. The length does not
count the header, and a peer may announce more than it is allowed to send: whether to believe it is
the reader's decision, so nothing here allocates by it.
"""

import struct

HEADER = struct.Struct(">IIBB")
HEADER_SIZE = HEADER.size

# ttrpc PROTOCOL.md, "Frame": no message is longer than 4 MiB, so the top byte of a length is zero.
MESSAGE_LIMIT = 4 << 20

# An envelope around the largest message of a peer that does not check what it sends: containerd
# 1.7.24 hands up to 16 MiB at once to the layer below. The slack is for header and envelope.
UNCHECKED_PEER_LIMIT = (16 << 20) + 4096

# Ids are 32 bits and no implementation wraps them round.
LAST_STREAM = 0xFFFFFFFF

REQUEST = 1
RESPONSE = 2
DATA = 3


def frame(stream: int, message_type: int, body: bytes) -> bytes:
    """One whole message; unary calls set no flags."""
    return HEADER.pack(len(body), stream, message_type, 0) + body
